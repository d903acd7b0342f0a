// Lanes among each other: who takes which, frees by other threads; and the index of their places.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

// Owners allocate and free while others free their blocks: patterns tell whether two blocks ever
// shared memory.
TEST(ArenaTest, OtherThreadsMayFree) {
  RecordingShape shape;
  shape.allocations = 20000;
  shape.threads = 4;
  shape.remote_frees = 0.3;
  const trace::Recording recording = RandomRecording(shape, 21);
  ServedPlan plan(recording);
  struct Handed {
    std::atomic<char*> pointer{nullptr};
    uint64_t bytes = 0;
    unsigned char pattern = 0;
  };
  const auto handed = std::make_unique<Handed[]>(recording.allocations.size());
  std::atomic<int> broken{0};
  std::vector<std::thread> threads;
  for (uint32_t self = 0; self < shape.threads; ++self) {
    threads.emplace_back([&, self] {
      ServedThread own(plan, self + 1);
      if (own.lane() == nullptr) {
        ++broken;
        return;
      }
      // Everything in the order of the recording, as far as this thread is concerned.
      std::vector<std::pair<uint64_t, uint32_t>> mine;
      for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
        const trace::Allocation& allocation = recording.allocations[i];
        if (allocation.thread == self) mine.emplace_back(allocation.birth, i);
        if (allocation.free_thread == self) mine.emplace_back(allocation.death, i | kDies);
      }
      std::sort(mine.begin(), mine.end());
      for (const auto& [when, what] : mine) {
        const uint32_t index = what & ~kDies;
        const trace::Allocation& allocation = recording.allocations[index];
        Handed& hand = handed[index];
        if (what == index) {
          char* pointer = own.Allocate(allocation.size, allocation.log2_alignment,
                                       SiteWordOf(recording, allocation));
          hand.bytes = allocation.size;
          hand.pattern = static_cast<unsigned char>(index * 31 + 7);
          std::memset(pointer, hand.pattern, hand.bytes);
          hand.pointer.store(pointer, std::memory_order_release);
          continue;
        }
        char* pointer;
        while ((pointer = hand.pointer.load(std::memory_order_acquire)) == nullptr) {
          std::this_thread::yield();
        }
        for (uint64_t i = 0; i < hand.bytes; ++i) {
          if (static_cast<unsigned char>(pointer[i]) != hand.pattern) ++broken;
        }
        if (own.Usable(pointer) < hand.bytes || !own.Free(pointer)) ++broken;
      }
      own.End();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

// Of LevelDB's writers one leads the others: who did next to nothing when it was recorded may have
// to do what another one did.
TEST(ArenaTest, AThreadMayDoWhatAnotherOneDid) {
  constexpr uint64_t kBlock = 1000;
  constexpr uint64_t kMuch = 8 << 20;
  trace::Recording recording = RecordingOf({{0, 2, kMuch}, {1, 3, kBlock}});
  recording.threads = {{1, trace::kNone, {}, 0, 4}, {2, 0, {}, 1, 4}};
  recording.allocations[1].thread = recording.allocations[1].free_thread = 1;
  ServedPlan plan(recording);
  ServedThread little(plan, 2);
  ASSERT_NE(little.lane(), nullptr);
  for (uint64_t bytes = 0; bytes < kMuch / 3; bytes += kBlock) {
    ASSERT_NE(little.Allocate(kBlock, 4, 0x7000), nullptr) << bytes;
  }
}

TEST(ArenaTest, ALaneIsTakenOnce) {
  ServedPlan plan(RandomRecording({}, 31));
  EXPECT_NE(plan.arena().TakeLane(1, 0, 0), nullptr);
  EXPECT_EQ(plan.arena().TakeLane(1, 0, 0), nullptr);
  EXPECT_EQ(plan.arena().TakeLane(12345, 0, 0), nullptr);
}

TEST(ArenaTest, AThreadOfAnotherNameTakesTheLaneThatBeginsAsItDoes) {
  RecordingShape shape;
  shape.threads = 3;
  const trace::Recording recording = RandomRecording(shape, 41);
  ServedPlan plan(recording);
  const auto first_of = [&](uint32_t thread) -> const trace::Allocation& {
    return *std::find_if(recording.allocations.begin(), recording.allocations.end(),
                         [&](const auto& allocation) { return allocation.thread == thread; });
  };
  const trace::Allocation& first = first_of(1);
  const uint64_t request = Shape(first.size, first.log2_alignment);
  const uint64_t site = SiteWordOf(recording, first);
  EXPECT_EQ(plan.arena().TakeLane(777, request, site + 1), nullptr);
  Lane* lane = plan.arena().TakeLane(777, request, site);
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(lane->counters(), &plan.counters(1));
  EXPECT_NE(lane->Allocate(request, site).block, nullptr);
  EXPECT_EQ(plan.arena().TakeLane(2, request, site), nullptr);  // its own name comes too late
}

// Workers that pull from a queue: each may begin as another one did.
TEST(ArenaTest, AThreadWhoseLaneIsTakenGetsThatOfItsTaker) {
  RecordingShape shape;
  shape.threads = 3;
  const trace::Recording recording = RandomRecording(shape, 41);
  ServedPlan plan(recording);
  const auto take = [&](uint64_t path, uint32_t as) {
    const auto& first = *std::find_if(recording.allocations.begin(), recording.allocations.end(),
                                      [&](const auto& a) { return a.thread == as; });
    Lane* lane = plan.arena().TakeLane(path, Shape(first.size, first.log2_alignment),
                                       SiteWordOf(recording, first));
    return lane == nullptr ? 0 : 1 + (lane->counters() - &plan.counters(0));
  };
  EXPECT_EQ(take(1, 1), 2);
  EXPECT_EQ(take(3, 0), 1);
  EXPECT_EQ(take(2, 1), 3);
  EXPECT_EQ(take(2, 1), 0);
}

}  // namespace
}  // namespace reprise::replay
