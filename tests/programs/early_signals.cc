// A thread whose first act is a signal handler that allocates, if there is an argument: the signal
// waits for a thread that takes it, which none does before this one's attributes tell so.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tests/programs/block.h"

namespace {

void Handle(int) {
  Block block = Allocate(24, 0);
  Release(block);
}

void* Work(void*) {
  Churn(1, 5000);
  return nullptr;
}

}  // namespace

int main(int argc, char**) {
  struct sigaction action {};
  action.sa_handler = Handle;
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  if (argc > 1) kill(getpid(), SIGUSR1);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setsigmask_np(&attributes, &none);
  pthread_t thread;
  pthread_create(&thread, &attributes, Work, nullptr);
  pthread_join(thread, nullptr);
}
