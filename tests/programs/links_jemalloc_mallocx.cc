// Linked with jemalloc and calls its own entry points, also for blocks of malloc, which is the same
// heap to it. Replay must handle that or leave the program alone.
#include <jemalloc/jemalloc.h>

#include "tests/programs/block.h"

int main() {
  for (int round = 0; round < 1000; ++round) {
    void* first = Use(mallocx(100 + round, MALLOCX_ALIGN(64)));
    Block block = Allocate(50 + round, round);
    Require(sallocx(block.bytes, 0) >= block.size, "sallocx of malloc's block");
    block.bytes = static_cast<unsigned char*>(Use(rallocx(block.bytes, 5000, 0)));
    Verify(block);
    sdallocx(block.bytes, 5000, 0);
    free(first);
    dallocx(Use(malloc(10)), 0);
  }
  puts("done");
  return 0;
}
