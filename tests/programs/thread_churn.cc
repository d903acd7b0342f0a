// Thousands of threads one after another, then hundreds at once: memory and files must stay
// bounded.
#include <pthread.h>

#include <thread>
#include <vector>

#include "tests/programs/block.h"

// With an argument: only as many threads, one after another, and how much memory that took.
int main(int argc, char** argv) {
  const unsigned sequential = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 2000;
  for (unsigned i = 0; i < sequential; ++i) {
    std::thread thread([i] { Churn(i, 20); });
    thread.join();
  }
  puts("one after another");
  if (argc > 1) {
    char line[256];
    FILE* status = fopen("/proc/self/status", "re");
    while (fgets(line, sizeof(line), status) != nullptr) {
      if (strncmp(line, "VmHWM:", 6) == 0) printf("%ld KiB\n", atol(line + 6));
    }
    fclose(status);
    return 0;
  }
  constexpr int kAtOnce = 500;
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
