// Frees that glibc would abort for, when told so ("wrong"): twice, and not at a block's start.
// Without that word, and so in the recording, the same run without them.
#include "tests/programs/block.h"

int main(int argc, char**) {
  const bool wrong = argc > 1;
  Block blocks[100];
  for (int i = 0; i < 100; ++i) blocks[i] = Allocate(64 + i, i);
  for (int i = 0; i < 100; i += 10) {
    unsigned char* freed = blocks[i].bytes;
    if (wrong) free(Use(blocks[i + 1].bytes + 16));
    Release(blocks[i]);
    if (wrong) free(Use(freed));
  }
  Churn(1, 1000);
  for (Block& block : blocks) {
    if (block.bytes != nullptr) Release(block);
  }
  puts("done");
  return 0;
}
