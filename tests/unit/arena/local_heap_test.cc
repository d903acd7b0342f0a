// What threads take beside their plan: blocks are disjoint, and whoever frees them gives back all.
#include "replay/arena/local_heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/arena/live_model.h"
#include "tests/unit/effort.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kUnknown = 4711;  // no thread of a plan
constexpr uint64_t kSite = 0x7000;

uint64_t SomeSize(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return random() % 20000;
    case 1:
      return 512 + random() % 4000;
    default:
      return random() % 600;
  }
}

// Threads that the plan does not know, one after the other, with blocks that outlive them.
TEST(LocalHeapTest, BlocksAreDisjointWhoeverFreesThem) {
  for (uint64_t seed = 1; seed <= Rounds(6); ++seed) {
    ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 256 << 20);
    std::mt19937_64 random(seed);
    LiveModel model;
    std::vector<std::pair<char*, uint64_t>> live;
    std::vector<ServedThread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(plan, kUnknown);
    for (int step = 0; step < 30000; ++step) {
      ServedThread& thread = threads[random() % threads.size()];
      if (random() % 2 == 0 || live.empty()) {
        const uint64_t size = SomeSize(random);
        const unsigned log2 = random() % 16 == 0 ? 4 + random() % 9 : 4;
        char* block = thread.Allocate(size, log2, kSite);
        ASSERT_NE(block, nullptr);
        ASSERT_NO_FATAL_FAILURE(model.Place(block, size, uint64_t{1} << log2));
        ASSERT_GE(thread.Usable(block), size);
        std::memset(block, static_cast<int>(size), size);
        live.emplace_back(block, size);
        continue;
      }
      std::swap(live[random() % live.size()], live.back());
      auto& [block, size] = live.back();
      for (uint64_t i = 0; i < size; ++i) {
        ASSERT_EQ(static_cast<unsigned char>(block[i]), static_cast<unsigned char>(size));
      }
      model.Free(block);
      if (random() % 4 == 0) {
        const uint64_t more = 1 + SomeSize(random);
        char* fresh = thread.Reallocate(block, more, kSite);
        ASSERT_NE(fresh, nullptr);
        ASSERT_NO_FATAL_FAILURE(model.Place(fresh, more, 16));
        for (uint64_t i = 0; i < std::min(size, more); ++i) {
          ASSERT_EQ(static_cast<unsigned char>(fresh[i]), static_cast<unsigned char>(size));
        }
        std::memset(fresh, static_cast<int>(more), more);
        live.back() = {fresh, more};
        continue;
      }
      ASSERT_TRUE(thread.Free(block));
      if (random() % 64 == 0 && plan.arena().Usable(block) == 0) {
        ASSERT_FALSE(thread.Free(block));
      }
      live.pop_back();
      if (random() % 2000 == 0) {
        thread.End();
        thread = ServedThread(plan, kUnknown);
      }
    }
    for (auto& [block, size] : live) ASSERT_TRUE(threads[0].Free(block));
    for (ServedThread& thread : threads) thread.End();
    EXPECT_EQ(plan.InvalidFrees(), 0u);
  }
}

TEST(LocalHeapTest, WhatIsNoLiveBlockIsRefused) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  ServedThread one(plan, kUnknown), two(plan, kUnknown);
  for (const uint64_t size : {16, 100, 500, 700, 5000, 100000}) {
    char* block = one.Allocate(size, 4, kSite);
    EXPECT_FALSE(one.Free(block + 1));
    EXPECT_FALSE(two.Free(block + 8));
    EXPECT_FALSE(one.Free(block + 16));
    EXPECT_FALSE(two.Free(block + 64));
    EXPECT_TRUE(one.Free(block));
    EXPECT_FALSE(one.Free(block)) << size;
    EXPECT_FALSE(two.Free(block)) << size;
  }
  EXPECT_FALSE(one.Free(plan.boxes() - (1 << 20)));
  EXPECT_FALSE(one.Free(plan.boxes()));
}

TEST(LocalHeapTest, ABlockOfAThreadThatEndedIsFreedOnce) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  ServedThread gone(plan, kUnknown), other(plan, kUnknown);
  char* block = gone.Allocate(100, 4, kSite);
  char* neighbour = gone.Allocate(100, 4, kSite);
  gone.End();
  EXPECT_TRUE(other.Free(block));
  EXPECT_FALSE(other.Free(block));
  EXPECT_EQ(plan.arena().Usable(block), 0u);
  EXPECT_TRUE(other.Free(neighbour));
}

TEST(LocalHeapTest, ABlockThatAnotherThreadFreesTwiceIsCounted) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  ServedThread owner(plan, kUnknown), other(plan, kUnknown);
  char* block = owner.Allocate(100, 4, kSite);
  other.Free(block);
  other.Free(block);
  owner.End();
  EXPECT_EQ(plan.InvalidFrees(), 1u);
}

// Long blocks, too: a thread among many has room for those that it frees.
TEST(LocalHeapTest, EachOfManyThreadsKeepsSomeBlocksReady) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  std::vector<ServedThread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back(plan, kUnknown);
    threads.back().Allocate(16, 4, kSite);
  }
  const auto takes_turns = [&](uint64_t size) {
    std::vector<char*> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(threads[0].Allocate(size + i * 200, 4, kSite));
    for (char* block : blocks) threads[0].Free(block);
    return blocks;
  };
  for (int round = 0; round < 200; ++round) takes_turns(3000);
  const std::vector<char*> before = takes_turns(3000);
  // Another thread takes what the heap has, and not what the first one keeps.
  for (int i = 0; i < 8; ++i) threads[1].Allocate(3000 + i * 200, 4, kSite);
  EXPECT_EQ(takes_turns(3000), before);
  for (ServedThread& thread : threads) thread.End();
}

TEST(LocalHeapTest, ALongBlockGrowsAndShrinksWhereItIs) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  ServedThread thread(plan, kUnknown);
  char* block = thread.Allocate(10000, 4, kSite);
  char* same = block;
  for (uint64_t size = 10000; size < 1 << 20; size *= 2) {
    same = thread.Reallocate(same, size, kSite);
    ASSERT_EQ(same, block);
  }
  EXPECT_EQ(thread.Reallocate(block, 1000, kSite), block);
  EXPECT_EQ(thread.Usable(block), 1024u);
  EXPECT_TRUE(thread.Free(block));
}

// A program takes from one thread and gives to another; nothing is lost on the way.
TEST(LocalHeapTest, AQueueOfBlocksTakesNoMoreThanItHolds) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  ServedThread maker(plan, kUnknown), user(plan, kUnknown);
  std::vector<char*> queue;
  for (int i = 0; i < 200000; ++i) {
    queue.push_back(maker.Allocate(16 + i % 300, 4, kSite));
    if (queue.size() < 1000) continue;
    for (char* block : queue) ASSERT_TRUE(user.Free(block));
    queue.clear();
  }
  EXPECT_LT(plan.MostHeldPages(), 200u);
}

TEST(LocalHeapTest, BlocksOfThreadsThatEndedAreUsedAgain) {
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 64 << 20);
  ServedThread main(plan, kUnknown);
  for (int round = 0; round < 2000; ++round) {
    ServedThread thread(plan, kUnknown);
    std::vector<char*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(thread.Allocate(16 + 40 * i, 4, kSite));
    thread.End();
    for (char* block : blocks) ASSERT_TRUE(main.Free(block));
  }
  EXPECT_LT(plan.MostHeldPages(), 400u);
}

TEST(LocalHeapTest, ThreadsFreeEachOthersBlocks) {
  constexpr int kThreads = 4;
  const int rounds = static_cast<int>(Rounds(400));
  ServedPlan plan(RecordingOf({{0, 1, 64}}), {}, 256 << 20);
  std::vector<std::atomic<char*>> handed(1024);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(static_cast<uint64_t>(number));
      ServedThread self(plan, kUnknown);
      for (int step = 0; step < rounds * 500; ++step) {
        const uint64_t size = 16 + SomeSize(random);
        char* block = self.Allocate(size, 4, kSite);
        std::memcpy(block, &size, sizeof(size));
        std::memcpy(block + size - 8, &size, sizeof(size));
        char* other = handed[random() % handed.size()].exchange(block);
        if (other == nullptr) continue;
        uint64_t begin, end;
        std::memcpy(&begin, other, sizeof(begin));
        std::memcpy(&end, other + begin - 8, sizeof(end));
        if (begin != end || self.Usable(other) < begin || !self.Free(other)) ++wrong;
        if (random() % 5000 == 0) {
          self.End();
          self = ServedThread(plan, kUnknown);
        }
      }
      self.End();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

}  // namespace
}  // namespace reprise::replay
