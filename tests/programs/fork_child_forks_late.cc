// A child of fork that allocates nothing itself, but whose own child does, and one that ends at
// once; _Fork, which runs no handlers.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/block.h"

namespace {

void Wait(const char* name) {
  int status = 0;
  wait(&status);
  char line[64];
  const int length = snprintf(line, sizeof(line), "%s: %d\n", name, WEXITSTATUS(status));
  Require(write(1, line, length) == length, "write");
}

}  // namespace

int main() {
  Block block = Allocate(1000, 1);
  if (fork() == 0) {
    if (fork() == 0) {
      Churn(1, 500);
      Release(block);
      _exit(3);
    }
    Wait("grandchild");
    _exit(2);
  }
  Wait("child");
  if (_Fork() == 0) {
    Churn(2, 500);
    Resize(block, 20);
    _exit(4);
  }
  Wait("child of _Fork");
  Release(block);
  return 0;
}
