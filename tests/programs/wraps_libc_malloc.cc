// A program that counts its calls of malloc and free and has libc do the work, by libc's other
// names for them. What it does not wrap comes from whoever has it, and goes through its free as
// well.
#include "tests/programs/block.h"

extern "C" void* __libc_malloc(size_t size);
extern "C" void __libc_free(void* pointer);

namespace {
int allocated, freed;
}  // namespace

extern "C" void* malloc(size_t size) {
  ++allocated;
  return __libc_malloc(size);
}

extern "C" void free(void* pointer) {
  ++freed;
  __libc_free(pointer);
}

int main() {
  for (int round = 0; round < 300; ++round) {
    free(Use(calloc(round, 7)));
    free(Use(strdup("a word")));
    free(Use(realloc(Use(malloc(round)), 3 * round + 1)));
    free(Use(aligned_alloc(64, 64 * (round + 1))));
  }
  Churn(1, 2000);
  printf("%d allocated, %d freed\n", allocated, freed);
  return 0;
}
