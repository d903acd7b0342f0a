// Threads that end with blocks alive, by return, pthread_exit and cancellation; others verify,
// resize and free the blocks afterwards. A detached thread is still at work when the process ends.
#include <pthread.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

std::vector<Block> left[12];

void* Leave(void* argument) {
  const long number = reinterpret_cast<long>(argument);
  for (int i = 0; i < 200; ++i) left[number].push_back(Allocate(10 + i * 3, number * 200 + i));
  if (number % 3 == 1) pthread_exit(nullptr);
  if (number % 3 == 2) {
    for (;;) pause();  // a cancellation point
  }
  return nullptr;
}

}  // namespace

int main() {
  for (int round = 0; round < 3; ++round) {
    pthread_t threads[12];
    for (long i = 0; i < 12; ++i) {
      pthread_create(&threads[i], nullptr, Leave, reinterpret_cast<void*>(i));
    }
    for (long i = 0; i < 12; ++i) {
      if (i % 3 == 2) pthread_cancel(threads[i]);
      pthread_join(threads[i], nullptr);
    }
    std::thread reader([] {
      for (auto& blocks : left) {
        for (size_t i = 0; i < blocks.size(); i += 2) Resize(blocks[i], blocks[i].size + 100);
      }
    });
    reader.join();
    size_t count = 0;
    for (auto& blocks : left) {
      // A cancelled thread may not have got far.
      if (&blocks - left < 12 && (&blocks - left) % 3 != 2) count += blocks.size();
      for (Block& block : blocks) Release(block);
      blocks.clear();
    }
    printf("%zu blocks\n", count);
  }
  std::thread([] {
    for (unsigned i = 0;; ++i) Churn(i, 100);
  }).detach();
  Churn(1, 1000);
  fflush(stdout);
  _exit(5);
}
