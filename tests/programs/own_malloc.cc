// own_malloc [quickly]: a program with a malloc of its own (shared_lifo_malloc.cc), which every
// library uses as well. It ends in the ordinary way, or by _exit.
#include <unistd.h>

#include "tests/programs/block.h"

int main(int count, char**) {
  Churn(1, 10000);
  puts("done");
  fflush(stdout);
  if (count > 1) _exit(0);
  return 0;
}
