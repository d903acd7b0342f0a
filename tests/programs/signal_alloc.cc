// A signal handler that allocates, 10,000 times a second, whatever hook it interrupts: first with
// one thread, then with two. The argument: signals for each half; then it says how many events all
// of its calls are.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include <thread>

namespace {
long events = 0;
void Count(int of_one_call) { __atomic_fetch_add(&events, of_one_call, __ATOMIC_RELAXED); }
}  // namespace

#define malloc(size) (Count(1), malloc(size))
#define realloc(pointer, size) (Count(2), realloc(pointer, size))
#define free(pointer) (Count(1), free(pointer))
#include "tests/programs/block.h"

namespace {

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

int main(int argc, char** argv) {
  const int signals = argc > 1 ? atoi(argv[1]) : 1500;
  struct sigaction action {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, nullptr);
  ChurnUntil(signals, 1);
  std::thread other([signals] { ChurnUntil(2 * signals, 1000000); });
  ChurnUntil(2 * signals, 2000000);
  other.join();
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  puts("done");
  if (argc > 1) printf("%ld events\n", events);
  return 0;
}
