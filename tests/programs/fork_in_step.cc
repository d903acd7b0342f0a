// A forked child that does just what its parent does next, and then something else.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/block.h"

namespace {

// In one place, so that the calls come from the same sites.
__attribute__((noinline)) void Steps(unsigned seed, Block* kept, int count) {
  Random random{seed};
  for (int i = 0; i < count; ++i) {
    Block& block = kept[i % 100];
    if (block.bytes != nullptr) Release(block);
    block = Allocate(16 + random(900), i);
  }
}

}  // namespace

int main() {
  Block kept[100] = {};
  Steps(1, kept, 5000);
  const pid_t child = fork();
  Steps(2, kept, 5000);
  if (child == 0) Steps(3, kept, 5000);
  for (Block& block : kept) Release(block);
  if (child == 0) _exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  printf("child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  return 0;
}
