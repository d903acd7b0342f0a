// A loop of loops: epochs, each of the same steps and some blocks of its own. Each epoch is marked.
//
//     epochs EPOCHS STEPS
#include <reprise/marks.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void* Take(size_t size) { return memset(malloc(size), 1, size); }

void Step() {
  constexpr size_t kBlocks = 20;
  void* blocks[kBlocks];
  for (size_t k = 0; k < kBlocks; ++k) blocks[k] = Take(100 + 40 * k);
  for (size_t k = 0; k < kBlocks; ++k) free(blocks[k * 7 % kBlocks]);
}

}  // namespace

int main(int argc, char** argv) {
  const long epochs = argc > 1 ? atol(argv[1]) : 3;
  const long steps = argc > 2 ? atol(argv[2]) : 10;
  void* kept = nullptr;
  for (long epoch = 0; epoch < epochs; ++epoch) {
    reprise_iteration();
    for (size_t k = 0; k < 30; ++k) free(Take(5000 + 64 * k));
    free(kept);
    kept = Take(70000);
    for (long step = 0; step < steps; ++step) Step();
  }
  free(kept);
  std::puts("done");
}
