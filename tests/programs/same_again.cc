// same_again SEED [LARGE]: five threads that each do the same in every run, however they
// interleave, which SEED decides. Before them LARGE threads begin in the same way: each holds much
// memory once, one after the other, and stays to the end.
#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr uintptr_t kSmall = 5;
constexpr uintptr_t kMostLarge = 16;
constexpr int kRounds = 4000;
unsigned seed;
pthread_barrier_t begun, ended;
pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

// The first request of every thread.
__attribute__((noinline)) char* Begin() {
  auto* first = static_cast<char*>(std::malloc(100));
  std::memset(first, 1, 100);
  return first;
}

unsigned Next(unsigned& state) {
  state = state * 1103515245 + 12345;
  return state >> 8;
}

void* WorkSmall(void* argument) {
  const auto number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(argument));
  char* first = Begin();
  unsigned state = number * 7919 + 1;
  unsigned chance = seed * 31 + number;
  void* kept[32] = {};
  uintptr_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    void*& place = kept[Next(state) & 31];
    std::free(place);
    const size_t size = 16 + (Next(state) & 511) + 100 * number;
    place = std::malloc(size);
    std::memset(place, static_cast<int>(number), size);
    sum += size;
    if ((Next(chance) & 63) == 0) sched_yield();
  }
  for (void* block : kept) std::free(block);
  std::free(first);
  return reinterpret_cast<void*>(sum);
}

void* WorkLarge(void*) {
  constexpr size_t kBlocks = 40, kBytes = 100000;
  char* first = Begin();
  pthread_mutex_lock(&turn);
  void* blocks[kBlocks];
  for (void*& block : blocks) std::memset(block = std::malloc(kBytes), 1, kBytes);
  for (void* block : blocks) std::free(block);
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&begun);
  pthread_barrier_wait(&ended);
  std::free(first);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  seed = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  uintptr_t large = argc > 2 ? static_cast<uintptr_t>(std::atoi(argv[2])) : 0;
  if (large > kMostLarge) large = kMostLarge;
  pthread_t threads[kMostLarge + kSmall];
  pthread_barrier_init(&begun, nullptr, static_cast<unsigned>(large + 1));
  pthread_barrier_init(&ended, nullptr, static_cast<unsigned>(large + 1));
  for (uintptr_t i = 0; i < large; ++i) {
    if (pthread_create(&threads[i], nullptr, WorkLarge, nullptr) != 0) return 1;
  }
  pthread_barrier_wait(&begun);
  for (uintptr_t i = large; i < large + kSmall; ++i) {
    void* number = reinterpret_cast<void*>(i - large);
    if (pthread_create(&threads[i], nullptr, WorkSmall, number) != 0) return 1;
  }
  for (uintptr_t i = large; i < large + kSmall; ++i) {
    void* sum = nullptr;
    if (pthread_join(threads[i], &sum) != 0) return 2;
    std::printf("thread %zu: %zu\n", static_cast<size_t>(i - large), reinterpret_cast<size_t>(sum));
  }
  pthread_barrier_wait(&ended);
  for (uintptr_t i = 0; i < large; ++i) pthread_join(threads[i], nullptr);
  return 0;
}
