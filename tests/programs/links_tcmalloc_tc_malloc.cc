// Linked with tcmalloc and calls its own entry points, also for blocks of malloc, which is the same
// heap to it. Replay must handle that or leave the program alone.
#include <gperftools/tcmalloc.h>

#include "tests/programs/block.h"

int main() {
  for (int round = 0; round < 1000; ++round) {
    void* first = Use(tc_malloc(100 + round));
    Block block = Allocate(50 + round, round);
    Require(tc_malloc_size(block.bytes) >= block.size, "tc_malloc_size of malloc's block");
    block.bytes = static_cast<unsigned char*>(Use(tc_realloc(block.bytes, 5000)));
    Verify(block);
    tc_free(block.bytes);
    free(first);
    tc_free(Use(malloc(10)));
    tc_delete(Use(tc_new(20)));
  }
  puts("done");
  return 0;
}
