// Threads with names: one gives itself its own, one gets it from the main thread, which has one
// too; one has none.
#include <pthread.h>

#include <semaphore>
#include <thread>

#include "tests/programs/block.h"

int main() {
  pthread_setname_np(pthread_self(), "first");
  std::thread own([] {
    pthread_setname_np(pthread_self(), "names-itself");
    Churn(1, 20);
  });
  own.join();
  std::binary_semaphore runs(0), named(0);
  std::thread given([&] {
    Churn(2, 20);
    runs.release();
    named.acquire();
  });
  std::thread without([] { Churn(3, 20); });
  without.join();
  runs.acquire();
  pthread_setname_np(given.native_handle(), "is-named");
  named.release();
  given.join();
  Churn(4, 20);
}
