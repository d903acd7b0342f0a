// Forked children that go on without exec: each frees and resizes what its parent allocated, starts
// threads, forks again and ends in another way.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

int Child(std::vector<Block>& blocks, int depth) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 3 == 0) Resize(blocks[i], blocks[i].size * 2);
  }
  Churn(100 + depth, 2000);
  std::thread other([depth] { Churn(200 + depth, 2000); });
  Churn(300 + depth, 2000);
  other.join();
  if (depth < 3) {
    const pid_t child = fork();
    if (child == 0) _exit(Child(blocks, depth + 1));
    int status = 0;
    waitpid(child, &status, 0);
    Require(WIFEXITED(status) && WEXITSTATUS(status) == 11 + depth, "a grandchild's status");
  }
  for (Block& block : blocks) Release(block);
  return 10 + depth;
}

}  // namespace

int main() {
  std::vector<Block> blocks;
  for (int i = 0; i < 500; ++i) blocks.push_back(Allocate(10 + i * 7, i));
  bool stop = false;
  std::thread busy([&stop] {
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); ++i) Churn(i, 100);
  });
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      const int code = Child(blocks, 1);
      if (round % 2 == 0) _exit(code);
      exit(code);  // with destructors and atexit handlers
    }
    Churn(round, 1000);
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d: %d\n", round, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fflush(stdout);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
  busy.join();
  for (Block& block : blocks) Release(block);
  return 0;
}
