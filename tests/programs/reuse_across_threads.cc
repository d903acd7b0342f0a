// What one thread frees another one gets at once, over and over: blocks go round through a few
// mailboxes, over shared_lifo_malloc.cc. The argument: events in all, in thousands. With a second
// one a forked child does as many again, and begins with the blocks that it inherited.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

constexpr int kThreads = 4;
constexpr int kMailboxes = 64;
void* mailboxes[kMailboxes];

void Exchange(unsigned seed, long rounds) {
  Random random{seed};
  for (long round = 0; round < rounds; ++round) {
    void* block = Use(malloc(16 + 16 * random(3)));
    if (round % 8 == 7) block = Use(realloc(block, 100));
    memset(block, static_cast<int>(seed), 16);
    free(__atomic_exchange_n(&mailboxes[random(kMailboxes)], block, __ATOMIC_ACQ_REL));
  }
}

void ExchangeAmongThreads(long rounds) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(Exchange, i, rounds);
  for (std::thread& thread : threads) thread.join();
}

void EmptyMailboxes() {
  for (void* block : mailboxes) free(block);
}

}  // namespace

int main(int argc, char** argv) {
  const long thousands = argc > 1 ? atol(argv[1]) : 200;
  // Two events of the exchange and, every eighth time, two of a realloc.
  const long rounds = thousands * 1000 * 4 / 9 / kThreads;
  ExchangeAmongThreads(rounds);
  if (argc > 2 && fork() == 0) {
    ExchangeAmongThreads(rounds);
    EmptyMailboxes();
    _exit(0);
  }
  wait(nullptr);
  EmptyMailboxes();
  printf("%ld rounds\n", rounds * kThreads);
  return 0;
}
