// Threads come and go, free each other's blocks, and the process forks, for as many seconds as the
// argument says: what is kept for a thread or a child must be given back.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

constexpr int kThreads = 4;
constexpr size_t kHandedOver = 200;

std::mutex mutex;
std::vector<Block> handed_over;

// Leaves some blocks for others, takes some of theirs.
void Exchange(Random& random) {
  std::vector<Block> mine;
  for (int i = 0; i < 20; ++i) mine.push_back(Allocate(1 + random(3000), random(1000)));
  std::vector<Block> theirs;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    handed_over.insert(handed_over.end(), mine.begin(), mine.end());
    while (handed_over.size() > kHandedOver) {
      std::swap(handed_over[random(handed_over.size())], handed_over.back());
      theirs.push_back(handed_over.back());
      handed_over.pop_back();
    }
  }
  for (Block& block : theirs) {
    if (random(4) == 0) Resize(block, 1 + random(3000));
    Release(block);
  }
}

void Live(unsigned seed) {
  Random random{seed};
  for (int round = 0; round < 10; ++round) {
    Exchange(random);
    Churn(seed + round, 100);
  }
}

// A child of a thread that holds the lock, so that what was handed over is whole. It only looks:
// docs/limits.md says what a child of a process with threads cannot rely on.
void ForkOnce() {
  pid_t child;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    child = fork();
    if (child == 0) {
      for (const Block& block : handed_over) Verify(block);
      _exit(17);
    }
  }
  Require(child > 0, "fork");
  int status = 0;
  waitpid(child, &status, 0);
  Require(WIFEXITED(status) && WEXITSTATUS(status) == 17, "a child's status");
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 0.1;
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> wanted(seconds);
  for (unsigned round = 0; std::chrono::steady_clock::now() - start < wanted; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(Live, round * kThreads + i);
    if (round % 4 == 0) ForkOnce();
    for (std::thread& thread : threads) thread.join();
  }
  for (Block& block : handed_over) Release(block);
  puts("nothing was overwritten");
  return 0;
}
