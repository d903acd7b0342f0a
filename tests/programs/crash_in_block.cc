// A crash while a block's bytes are used: a pointer that was read from a block is no pointer.
#include <unistd.h>

#include "tests/programs/block.h"

int main() {
  for (int i = 0; i < 1000; ++i) Allocate(i + 1, i);
  static const char kText[] = "1000 blocks\n";
  Require(write(1, kText, sizeof(kText) - 1) > 0, "write");
  auto** pointers = static_cast<char**>(Use(calloc(10, sizeof(char*))));
  *Use(pointers[3]) = 'x';
  return 0;
}
