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

// As in a program that asks for everything in few functions: sites hardly differ but in depth.
// Quadratic time would be noticed.
TEST(SlotIndexTest, FindsTheRingsOfOneAddressByTheirDepths) {
  constexpr uint32_t kRings = 1 << 17;
  std::vector<LiveKey> keys(kRings);
  std::vector<PlanRing> rings(kRings);
  std::vector<uint32_t> slots(kRings);
  for (uint32_t i = 0; i < kRings; ++i) {
    keys[i].shape = Shape(100, 4);
    keys[i].site = LiveSite(0x401234 + i / kDepths, i % kDepths);
    rings[i] = {i, 1, i};
    slots[i] = 3 * i;
  }
  const std::vector<uint8_t> granules(kRings, 7);
  std::vector<char> memory(SlotIndex::MemoryFor(kRings));
  SlotIndex index;
  index.Start(rings.data(), kRings, slots.data(),
              {keys.data(), nullptr, granules.data(), nullptr, nullptr}, memory.data());
  for (uint32_t i = 0; i < kRings; ++i) {
    const PlanRing* ring = index.Find(keys[i].shape, keys[i].site);
    ASSERT_EQ(ring, &rings[i]);
    ASSERT_EQ(index.GranulesOf(ring), 7u);
    ASSERT_EQ(index.Next(ring), slots[i]);
  }
  EXPECT_EQ(index.Find(Shape(200, 4), keys[0].site), nullptr);
}

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
      Lane* lane = plan.arena().Take(self + 1, 0, 0);
      if (lane == nullptr) {
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
          char* pointer = Allocate(lane, allocation.size, allocation.log2_alignment,
                                   SiteWordOf(recording, allocation));
          if (pointer == nullptr) pointer = static_cast<char*>(std::malloc(allocation.size + 1));
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
        Lane* owner = plan.arena().LaneOf(pointer);
        if (owner == nullptr) {
          std::free(pointer);
        } else if (owner == lane) {
          lane->Free(pointer);
        } else {
          owner->FreeRemotely(pointer);
        }
      }
      plan.arena().Leave(lane);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  uint64_t invalid = 0;
  for (uint32_t i = 0; i < shape.threads; ++i) invalid += plan.counters(i).invalid_frees;
  EXPECT_EQ(invalid, 0u);
}

TEST(ArenaTest, ALaneWhosePlaceIsTakenRunsElsewhere) {
  trace::Recording recording;
  recording.modules.push_back({"/made/up", "", kModuleBase});
  recording.sites.push_back({0, 16, 1});
  recording.threads = {{1, trace::kNone, 0, 2}, {2, 0, 2, 4}};
  trace::Allocation first{.birth = 0, .death = 1, .size = 5000, .site = 0};
  first.free_thread = 0;
  trace::Allocation second{.birth = 2, .death = 3, .size = 5000, .site = 0};
  second.thread = second.free_thread = 1;
  recording.allocations = {first, second};
  recording.events = 4;
  ServedPlan plan(recording);
  Lane* one = plan.arena().Take(1, 0, 0);
  void* block = one->Allocate(Shape(5000, 4), SiteWordOf(recording, first));
  ASSERT_NE(block, nullptr);
  // The second thread starts while the first one's block is live.
  Lane* two = plan.arena().Take(2, 0, 0);
  ASSERT_NE(two, nullptr);
  void* other = two->Allocate(Shape(5000, 4), SiteWordOf(recording, second));
  ASSERT_NE(other, nullptr);
  EXPECT_NE(block, other);
  EXPECT_EQ(plan.counters(1).moved, 1u);
  EXPECT_EQ(plan.arena().LaneOf(other), two);
  EXPECT_EQ(plan.arena().LaneOf(block), one);
}

// Of LevelDB's writers one leads the others: who did next to nothing when it was recorded may have
// to do what another one did.
TEST(ArenaTest, AThreadMayDoWhatAnotherOneDid) {
  constexpr uint64_t kBlock = 1000;
  constexpr uint64_t kMuch = 8 << 20;
  trace::Recording recording = RecordingOf({{0, 2, kMuch}, {1, 3, kBlock}});
  recording.threads = {{1, trace::kNone, 0, 4}, {2, 0, 1, 4}};
  recording.allocations[1].thread = recording.allocations[1].free_thread = 1;
  ServedPlan plan(recording);
  Lane* little = plan.arena().Take(2, 0, 0);
  ASSERT_NE(little, nullptr);
  for (uint64_t bytes = 0; bytes < kMuch / 3; bytes += kBlock) {
    ASSERT_NE(Allocate(little, kBlock, 4, 0x7000), nullptr) << bytes;
  }
}

// A lane that runs elsewhere, where a block is more strictly aligned than huge pages are.
TEST(ArenaTest, ALaneThatRunsElsewhereIsAlignedAsItsBlocksAre) {
  trace::Recording recording = RecordingOf({{0, 1, 5000}, {2, 3, 5000}});
  recording.threads = {{1, trace::kNone, 0, 2}, {2, 0, 2, 4}};
  trace::Allocation& second = recording.allocations[1];
  second.log2_alignment = 23;
  second.thread = second.free_thread = 1;
  ServedPlan plan(recording, {}, 32 << 20);
  Lane* one = plan.arena().Take(1, 0, 0);
  ASSERT_NE(Allocate(one, 5000, 4, SiteWordOf(recording, recording.allocations[0])), nullptr);
  Lane* two = plan.arena().Take(2, 0, 0);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(plan.counters(1).moved, 1u);
  char* block = Allocate(two, 5000, 23, SiteWordOf(recording, second));
  EXPECT_TRUE(two->Contains(block));
  EXPECT_EQ(reinterpret_cast<uint64_t>(block) % (1 << 23), 0u);
}

TEST(ArenaTest, ALaneIsTakenOnce) {
  ServedPlan plan(RandomRecording({}, 31));
  EXPECT_NE(plan.arena().Take(1, 0, 0), nullptr);
  EXPECT_EQ(plan.arena().Take(1, 0, 0), nullptr);
  EXPECT_EQ(plan.arena().Take(12345, 0, 0), nullptr);
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
  EXPECT_EQ(plan.arena().Take(777, request, site + 1), nullptr);
  Lane* lane = plan.arena().Take(777, request, site);
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(lane->plan()->path, 2u);
  EXPECT_NE(lane->Allocate(request, site), nullptr);
  EXPECT_EQ(plan.arena().Take(2, request, site), nullptr);  // its own name comes too late
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
    Lane* lane = plan.arena().Take(path, Shape(first.size, first.log2_alignment),
                                   SiteWordOf(recording, first));
    return lane == nullptr ? 0 : lane->plan()->path;
  };
  EXPECT_EQ(take(1, 1), 2u);
  EXPECT_EQ(take(3, 0), 1u);
  EXPECT_EQ(take(2, 1), 3u);
  EXPECT_EQ(take(2, 1), 0u);
}

}  // namespace
}  // namespace reprise::replay
