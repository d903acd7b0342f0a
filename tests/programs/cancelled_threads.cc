// Threads that are cancelled while they allocate: their clean-up handlers verify, resize and free
// what they held, and allocate themselves.
#include <pthread.h>
#include <sched.h>

#include "tests/programs/block.h"

namespace {

constexpr int kThreads = 60;

struct Holding {
  unsigned seed;
  Block blocks[32];
  bool started;
};

void LetGo(void* argument) {
  auto* holding = static_cast<Holding*>(argument);
  Churn(holding->seed, 50);
  for (Block& block : holding->blocks) {
    if (block.bytes == nullptr) continue;
    Resize(block, block.size + 100);
    Release(block);
  }
}

void* Work(void* argument) {
  auto* holding = static_cast<Holding*>(argument);
  pthread_cleanup_push(LetGo, argument);
  Random random{holding->seed};
  for (unsigned round = 0;; ++round) {
    Block& block = holding->blocks[random(32)];
    if (block.bytes != nullptr) Release(block);
    block = Allocate(1 + random(3000), holding->seed + round);
    __atomic_store_n(&holding->started, true, __ATOMIC_RELEASE);
    pthread_testcancel();
  }
  pthread_cleanup_pop(1);
  return nullptr;
}

}  // namespace

int main() {
  int cancelled = 0;
  for (unsigned i = 0; i < kThreads; i += 3) {
    Holding holding[3] = {};
    pthread_t threads[3];
    for (unsigned k = 0; k < 3; ++k) {
      holding[k].seed = i + k;
      Require(pthread_create(&threads[k], nullptr, Work, &holding[k]) == 0, "pthread_create");
    }
    for (unsigned k = 0; k < 3; ++k) {
      while (!__atomic_load_n(&holding[k].started, __ATOMIC_ACQUIRE)) sched_yield();
      pthread_cancel(threads[k]);
      void* result = nullptr;
      pthread_join(threads[k], &result);
      if (result == PTHREAD_CANCELED) ++cancelled;
    }
  }
  printf("%d cancelled\n", cancelled);
  return 0;
}
