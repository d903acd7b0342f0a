// Destructors of thread-local objects and of pthread keys allocate and free, after the thread's own
// function has returned and in several rounds: the library's own exit hook must not come too early.
#include <pthread.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

pthread_key_t key;

struct Last {
  std::string text = std::string(100, 'x');
  ~Last() {
    Churn(static_cast<unsigned>(text.size()), 200);
    std::string more = text + text;
    Require(Use(&more)->size() == 200, "a string in a destructor");
  }
};
thread_local Last last;

// Sets its key again, three times.
void OnExit(void* value) {
  auto* round = static_cast<int*>(value);
  Churn(*round, 100);
  const int next = *round + 1;
  free(round);
  if (next < 4) {
    int* again = static_cast<int*>(malloc(sizeof(int)));
    *again = next;
    pthread_setspecific(key, again);
  }
}

void Work() {
  last.text += "";
  int* first = static_cast<int*>(malloc(sizeof(int)));
  *first = 1;
  pthread_setspecific(key, first);
  Churn(5, 300);
}

}  // namespace

int main() {
  pthread_key_create(&key, OnExit);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(Work);
    for (std::thread& thread : threads) thread.join();
  }
  Work();
  puts("done");
  return 0;
}
