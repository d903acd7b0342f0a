// Processes that fork without exec, and each of which says how many events its own calls are: what
// it did before it forked is its parent's. With an argument a single process, which does nothing.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
long events = 0;
}  // namespace

#define malloc(size) (++events, malloc(size))
#define realloc(pointer, size) (events += 2, realloc(pointer, size))
#define free(pointer) (++events, free(pointer))
#include "tests/programs/block.h"

namespace {

void Say(const char* name) {
  char line[64];
  const int length = snprintf(line, sizeof(line), "%s %ld\n", name, events);
  Require(write(STDOUT_FILENO, line, length) == length, "write");
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    Say("nothing");
    return 0;
  }
  Churn(1, 5000);
  Block inherited = Allocate(1000, 1);
  const pid_t child = fork();
  if (child == 0) {
    events = 0;
    Release(inherited);
    Churn(2, 7000);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      events = 0;
      Churn(3, 9000);
      Say("grandchild");
      _exit(0);
    }
    waitpid(grandchild, nullptr, 0);
    Churn(4, 100);
    Say("child");
    _exit(0);
  }
  Churn(5, 3000);
  waitpid(child, nullptr, 0);
  Release(inherited);
  Say("parent");
  return 0;
}
