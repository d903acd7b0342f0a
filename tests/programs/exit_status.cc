// Allocates a little and ends with a status of its own.
#include "tests/programs/block.h"

int main() {
  Churn(1, 100);
  puts("done");
  return 7;
}
