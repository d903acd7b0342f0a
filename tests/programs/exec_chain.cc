// A process that replaces itself three times, with live blocks each time.
#include <fcntl.h>
#include <unistd.h>

#include "tests/programs/block.h"

int main(int argc, char** argv) {
  const int left = argc > 1 ? atoi(argv[1]) : 3;
  Churn(left, 1000 * (left + 1));
  Block live = Allocate(10000, left);
  printf("%d left\n", left);
  fflush(stdout);
  if (left == 0) {
    Release(live);
    return 7;
  }
  char next[16];
  snprintf(next, sizeof(next), "%d", left - 1);
  if (left == 3) {
    char* const arguments[] = {argv[0], next, nullptr};
    fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), arguments, environ);
  }
  execl("/proc/self/exe", argv[0], next, nullptr);
  return 1;
}
