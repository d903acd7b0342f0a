// Blocks are allocated by one thread and freed or resized by another, while their first owner goes
// on allocating; some outlive it.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/programs/block.h"

namespace {

constexpr int kRounds = 200;
constexpr int kBatch = 100;

std::mutex mutex;
std::condition_variable changed;
std::vector<Block> handed_over;
bool done = false;

void Produce() {
  Random random{42};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Block> batch;
    for (int i = 0; i < kBatch; ++i) batch.push_back(Allocate(1 + random(600), round * kBatch + i));
    Churn(round, 100);
    const std::lock_guard<std::mutex> lock(mutex);
    handed_over.insert(handed_over.end(), batch.begin(), batch.end());
    changed.notify_one();
  }
  const std::lock_guard<std::mutex> lock(mutex);
  done = true;
  changed.notify_one();
}

}  // namespace

int main() {
  std::thread producer(Produce);
  int released = 0;
  for (bool ended = false; !ended;) {
    std::vector<Block> batch;
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [] { return !handed_over.empty() || done; });
      batch.swap(handed_over);
      ended = done && batch.empty();
    }
    for (Block& block : batch) {
      if (++released % 5 == 0) Resize(block, block.size * 2);
      Release(block);
    }
  }
  producer.join();
  printf("%d blocks\n", released);
  return 0;
}
