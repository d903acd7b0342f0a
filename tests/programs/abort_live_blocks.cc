// abort, with blocks alive.
#include <unistd.h>

#include "tests/programs/block.h"

int main() {
  for (int i = 0; i < 1000; ++i) Allocate(i + 1, i);
  static const char kText[] = "1000 blocks\n";
  Require(write(1, kText, sizeof(kText) - 1) > 0, "write");
  abort();
}
