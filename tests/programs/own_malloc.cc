// A program with a malloc of its own (shared_lifo_malloc.cc), which every library uses as well.
#include "tests/programs/block.h"

int main() {
  Churn(1, 10000);
  puts("done");
  return 0;
}
