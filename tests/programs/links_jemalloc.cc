// Linked with jemalloc, but knows it only by malloc: the recorder sits before it, and replay serves
// the program as any other.
#include "tests/programs/block.h"

int main() {
  Churn(1, 20000);
  Block block = Allocate(1 << 20, 1);
  Resize(block, 3 << 20);
  Release(block);
  puts("done");
  return 0;
}
