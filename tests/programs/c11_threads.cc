// Threads of C11, of clone() and of libc's own (timers), started side by side: each does work of
// its own, and all allocate at the same time.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 2000;
std::atomic<int> ready;
std::atomic<int> expirations;

// Another sequence of sizes for each thread.
int Work(void* argument) {
  const auto number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(argument));
  ++ready;
  while (ready < kThreads) thrd_yield();
  unsigned state = number * 7919 + 1;
  void* kept[32] = {};
  unsigned long sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    state = state * 1103515245 + 12345;
    void*& place = kept[state >> 16 & 31];
    std::free(place);
    const size_t size = 16 + (state >> 8 & 255) + 100 * number;
    place = std::malloc(size);
    std::memset(place, static_cast<int>(number), size);
    sum += size;
  }
  for (void* block : kept) std::free(block);
  return static_cast<int>(sum % 1000);
}

void OnExpiration(sigval) {
  for (size_t size = 1; size < 50; ++size) std::free(std::malloc(size * 30));
  ++expirations;
}

bool StartTimer() {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = OnExpiration;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return false;
  const itimerspec soon = {{0, 0}, {0, 1000000}};
  return timer_settime(timer, 0, &soon, nullptr) == 0;
}

}  // namespace

int main() {
  thrd_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    if (thrd_create(&threads[i], Work, reinterpret_cast<void*>(i)) != thrd_success) return 1;
  }
  for (int i = 0; i < kThreads; ++i) {
    int result = -1;
    if (thrd_join(threads[i], &result) != thrd_success) return 2;
    std::printf("thread %d: %d\n", i, result);
  }
  if (!StartTimer()) return 3;
  while (expirations == 0) usleep(1000);
  std::puts("expired");
  return 0;
}
