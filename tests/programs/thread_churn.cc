// Thousands of threads one after another, then hundreds at once: memory and files must stay
// bounded.
#include <pthread.h>

#include <thread>
#include <vector>

#include "tests/programs/block.h"

int main() {
  for (unsigned i = 0; i < 5000; ++i) {
    std::thread thread([i] { Churn(i, 20); });
    thread.join();
  }
  puts("one after another");
  constexpr int kAtOnce = 300;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, kAtOnce);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([i, &barrier] {
      Block block = Allocate(1000 + i, i);
      pthread_barrier_wait(&barrier);
      Churn(i, 100);
      Release(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  puts("all at once");
  return 0;
}
