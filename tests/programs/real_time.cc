// A real-time thread and ordinary ones that allocate without pause, all on one processor. What the
// real-time thread waits for is done by an ordinary one, which cannot go on while it keeps busy.
// Prints whether it ever did so; exit status 77 where no real-time thread is to be had.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

constexpr int kOthers = 3;
constexpr int kRounds = 500;
constexpr double kMostSeconds = 0.3;  // of processor time; a round has much less than 1 ms to do

std::atomic<bool> stop{false};

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void AllocateSome() {
  void* blocks[256];
  for (void*& block : blocks) block = Use(malloc(100));
  for (void* block : blocks) free(block);
}

void* BeUrgent(void* longest) {
  double& most = *static_cast<double*>(longest);
  for (int round = 0; round < kRounds && most < kMostSeconds; ++round) {
    usleep(300);
    const double before = ProcessorSeconds();
    for (int i = 0; i < 16; ++i) AllocateSome();
    const double took = ProcessorSeconds() - before;
    if (took > most) most = took;
  }
  stop = true;
  return nullptr;
}

}  // namespace

int main() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
  sched_param priority{};
  priority.sched_priority = 1;
  pthread_attr_setschedparam(&attributes, &priority);
  double longest = 0;
  pthread_t urgent;
  if (pthread_create(&urgent, &attributes, BeUrgent, &longest) != 0) return 77;
  std::vector<std::thread> others;
  for (int i = 0; i < kOthers; ++i) {
    others.emplace_back([] {
      while (!stop) AllocateSome();
    });
  }
  pthread_join(urgent, nullptr);
  for (std::thread& other : others) other.join();
  puts(longest < kMostSeconds ? "never kept busy" : "kept busy");
}
