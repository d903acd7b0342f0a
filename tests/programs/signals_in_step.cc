// A loop that allocates, reallocates and frees small blocks as fast as it can, and a signal handler
// that allocates between any two of its instructions, so seldom that replay follows its plan all
// the same: then malloc and free are a few instructions each, and it is these that are interrupted.
// Signals come only when SIGNALS is set: libc's own malloc must not be interrupted by another call.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "tests/programs/block.h"

namespace {

int handled = 0;

void Handle(int) {
  Block block = Allocate(24 + handled % 3 * 16, handled);
  Release(block);
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELEASE);
}

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const bool interrupted = getenv("SIGNALS") != nullptr;
  const itimerval often{{0, 250}, {0, 250}};
  if (interrupted) setitimer(ITIMER_REAL, &often, nullptr);
  Block live[8];
  for (unsigned i = 0; i < 8; ++i) live[i] = Allocate(24, i);
  for (unsigned i = 0; i < 2'000'000; ++i) {
    Block& block = live[i % 8];
    Release(block);
    block = Allocate(24, i);
    if (i % 4 == 0) Resize(block, 48);
  }
  for (Block& block : live) Release(block);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  Require(!interrupted || __atomic_load_n(&handled, __ATOMIC_ACQUIRE) > 0, "signals");
  puts("every block kept its bytes");
  return 0;
}
