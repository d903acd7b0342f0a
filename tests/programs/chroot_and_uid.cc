// A daemon that gives up its root directory and its user id, as root; else it only says so.
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

#include "tests/programs/block.h"

int main() {
  Churn(1, 1000);
  if (geteuid() == 0) {
    Require(chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0, "chroot");
    Require(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
  }
  Churn(2, 50000);
  std::thread([] { Churn(3, 50000); }).join();
  const pid_t child = fork();
  if (child == 0) {
    Churn(4, 1000);
    _exit(0);
  }
  puts("done");
  return 0;
}
