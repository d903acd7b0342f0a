// A signal handler that allocates, thousands of times, whatever hook it interrupts: first
// with one thread, then with two.
#include <signal.h>
#include <sys/time.h>

#include <thread>

#include "tests/programs/block.h"

namespace {

constexpr int kSignals = 1500;
int handled = 0;

void Handle(int) {
  const int number = __atomic_add_fetch(&handled, 1, __ATOMIC_ACQ_REL);
  Block block = Allocate(16 + number % 500, number);
  Block other = Allocate(40, number + 1);
  Resize(other, 400);
  Release(block);
  Release(other);
}

void ChurnUntil(int signals, unsigned seed) {
  while (__atomic_load_n(&handled, __ATOMIC_ACQUIRE) < signals) Churn(++seed, 50, 300);
}

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, nullptr);
  ChurnUntil(kSignals, 1);
  std::thread other([] { ChurnUntil(2 * kSignals, 1000000); });
  ChurnUntil(2 * kSignals, 2000000);
  other.join();
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  puts("done");
  return 0;
}
