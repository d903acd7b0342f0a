// Forks while other threads allocate without pause, begin and end, and free each other's blocks.
// The children go on without exec, as far as POSIX lets a program hope: they verify, resize and
// free what they inherited, start threads and join them, and end in every way, which takes four. So
// many forks as the environment says in FORKS. With an argument a single process, which does
// little: what is recorded of it fits nothing else.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

constexpr int kThreads = 4;
constexpr unsigned kExchanged = 4000;  // blocks
constexpr unsigned kMostSeconds = 20;  // of a child: one that waits for a dead thread ends then

std::atomic<bool> stop{false};
std::atomic<unsigned char*> exchange[kExchanged];

// Leaves blocks where other threads take and free them.
void Exchange(unsigned seed, int rounds) {
  Random random{seed};
  for (int round = 0; round < rounds; ++round) {
    auto* fresh = static_cast<unsigned char*>(Use(malloc(1 + random(1000))));
    Require(fresh != nullptr, "malloc");
    fresh[0] = 1;
    free(exchange[random(kExchanged)].exchange(fresh));
  }
}

void BeBusy(unsigned seed) {
  for (unsigned round = 0; !stop; ++round) {
    Exchange(seed + round, 1000);
    Churn(seed + round, 50, 70000);
    std::thread short_lived([=] { Exchange(seed + round, 100); });
    short_lived.join();
  }
}

// What was there at the fork is the child's to use.
void UseInherited(std::vector<Block>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 3 == 0) Resize(blocks[i], blocks[i].size * 2);
    if (i % 3 == 1) Resize(blocks[i], blocks[i].size / 2);
    Release(blocks[i]);
  }
  blocks.clear();
}

void StartThreads(unsigned seed) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) threads.emplace_back([=] { Churn(seed + i, 300, 70000); });
  for (std::thread& thread : threads) thread.join();
}

void GoOn(std::vector<Block>& blocks, int number) {
  alarm(kMostSeconds);
  StartThreads(number);
  UseInherited(blocks);
  Churn(number, 500);
  StartThreads(number + 10);
}

// Returns in the parent; in the child when its thread is to end, and so the process.
void Fork(std::vector<Block>& blocks, int number) {
  Exchange(number, 2 * kExchanged);  // for the other threads to free meanwhile
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child == 0) {
    GoOn(blocks, number);
    if (number % 4 == 0) exit(7);
    if (number % 4 == 2) _exit(7);
    return;
  }
  int status = 0;
  waitpid(child, &status, 0);
  Require(!WIFSIGNALED(status), WTERMSIG(status) == SIGALRM ? "a child hung" : "a child crashed");
  Require(WEXITSTATUS(status) == (number % 2 == 0 ? 7 : 0), "a child's status");
}

// Not only the main thread forks.
void ForkFromThread(int number) {
  std::vector<Block> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back(Allocate(1 + i * 99, i));
  Fork(blocks, number);
  for (Block& block : blocks) Release(block);
}

}  // namespace

int main(int argc, char**) {
  std::vector<Block> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(Allocate(1 + i * 77, i));
  if (argc == 1) {
    const char* forks = getenv("FORKS");
    const int most = forks != nullptr ? atoi(forks) : 12;
    // Never destroyed: a child that ends holds threads that it does not have.
    auto& threads = *new std::vector<std::thread>;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(BeBusy, 1000 * (i + 1));
    for (int number = 0; number < most; ++number) {
      if (number % 2 == 0) Fork(blocks, number);
      if (number % 2 == 1) std::thread(ForkFromThread, number).join();
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    for (auto& block : exchange) free(block);
  }
  for (Block& block : blocks) Release(block);
  puts("every child came back");
  return 0;
}
