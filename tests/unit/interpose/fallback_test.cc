#include "interpose/replay/fallback.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "interpose/process/thread_state.h"

namespace reprise::interpose {
namespace {

struct Block {
  unsigned char* pointer;
  size_t bytes;
  unsigned char pattern;
};

class FallbackTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    void* reserved = mmap(reinterpret_cast<void*>(kReserved.begin), kReserved.bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(reserved, reinterpret_cast<void*>(kReserved.begin));
  }
};

// Where a block lies that is larger than what its 64 KiB are said to hold, or one with an
// alignment, the next owner of its place would write into its neighbour.
void Churn(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Block> live;
  FallbackFree(FallbackAllocate(16, 16, false));
  ASSERT_TRUE(FallbackMakeCache());
  size_t taken = 0;
  const auto check = [](const Block& block) {
    for (size_t i = 0; i < block.bytes; ++i) ASSERT_EQ(block.pointer[i], block.pattern);
  };
  for (int step = 0; step < 300'000 && !testing::Test::HasFatalFailure(); ++step) {
    // Whole pages become free and hold another size next.
    const size_t most = step / 20'000 % 2 == 0 ? 4000 : 200;
    if (live.size() < most && random() % 2 == 0) {
      const size_t shift = random() % 11;
      const size_t bytes = random() % 16 == 0 ? random() % 70'000 : random() % ((2 << shift) + 1);
      const size_t alignment = random() % 8 == 0 ? size_t{32} << random() % 4 : 16;
      void* pointer = alignment == 16 ? this_thread.cache->Take(bytes) : nullptr;
      taken += pointer != nullptr ? 1 : 0;
      if (pointer == nullptr) pointer = FallbackAllocate(bytes, alignment, false);
      ASSERT_NE(pointer, nullptr);
      ASSERT_EQ(reinterpret_cast<uint64_t>(pointer) % alignment, 0U);
      ASSERT_GE(FallbackUsable(pointer), bytes);
      const auto pattern = static_cast<unsigned char>(random());
      std::memset(pointer, pattern, bytes);
      live.push_back({static_cast<unsigned char*>(pointer), bytes, pattern});
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      check(live.back());
      if (!this_thread.cache->Put(live.back().pointer)) FallbackFree(live.back().pointer);
      live.pop_back();
    }
    if (live.size() > most) {
      check(live.back());
      FallbackFree(live.back().pointer);
      live.pop_back();
    }
  }
  EXPECT_GT(taken, 10'000U);
  for (const Block& block : live) {
    check(block);
    FallbackFree(block.pointer);
  }
  FallbackLeave();
  EXPECT_EQ(this_thread.cache, nullptr);
}

TEST_F(FallbackTest, WhatTheCacheGivesIsNobodyElses) { Churn(1); }

TEST_F(FallbackTest, SeveralThreadsChurn) {
  std::vector<std::jthread> threads;
  for (unsigned seed = 2; seed < 5; ++seed) threads.emplace_back(Churn, seed);
}

// When a thread ends, mimalloc gives its pages to whichever heap needs some next: then there are
// blocks side by side that were asked for with an alignment and without.
TEST_F(FallbackTest, KnowsAlignedBlocksOfThreadsThatHaveEnded) {
  std::vector<void*> aligned;
  std::jthread([&aligned] {
    for (int i = 0; i < 20'000; ++i) {
      void* pointer = FallbackAllocate(40 + i % 4 * 41, 32, false);
      (i % 4 == 3 ? FallbackFree(pointer) : aligned.push_back(pointer));
    }
    FallbackLeave();
  }).join();
  std::jthread([&aligned] {
    FallbackFree(FallbackAllocate(16, 16, false));
    ASSERT_TRUE(FallbackMakeCache());
    std::vector<void*> plain;
    for (int i = 0; i < 40'000; ++i) plain.push_back(FallbackAllocate(1 + i % 320, 16, false));
    for (void* pointer : aligned) {
      if (!this_thread.cache->Put(pointer)) FallbackFree(pointer);
      for (size_t bytes = 16; bytes <= 320; bytes += 16) {
        void* taken = this_thread.cache->Take(bytes);
        if (taken == nullptr) continue;
        ASSERT_GE(FallbackUsable(taken), bytes);
        FallbackFree(taken);
      }
    }
    for (void* pointer : plain) FallbackFree(pointer);
    FallbackLeave();
  }).join();
}

TEST_F(FallbackTest, KeepsNeitherLongNorAlignedBlocks) {
  FallbackFree(FallbackAllocate(16, 16, false));
  ASSERT_TRUE(FallbackMakeCache());
  void* longer = FallbackAllocate(kMostShort + 1, 16, false);
  void* long_aligned = FallbackAllocate(kMostShort + 1, 64, false);
  void* aligned = FallbackAllocate(64, 64, false);
  std::vector<void*> tried;  // for a page that has never had an aligned block
  do {
    tried.push_back(FallbackAllocate(kMostShort, 16, false));
  } while (*FallbackSizesAt(tried.back()) == kHasHadAligned);
  void* shorter = tried.back();
  for (void* pointer : {longer, long_aligned, aligned})
    EXPECT_FALSE(this_thread.cache->Put(pointer));
  EXPECT_TRUE(this_thread.cache->Put(shorter));
  for (const size_t bytes : {size_t{0}, size_t{64}, size_t{896}, kMostShort + 1}) {
    EXPECT_EQ(this_thread.cache->Take(bytes), nullptr);
  }
  EXPECT_EQ(this_thread.cache->Take(897), shorter);
  EXPECT_EQ(this_thread.cache->Take(kMostShort), nullptr);
  for (void* pointer : {longer, long_aligned, aligned}) FallbackFree(pointer);
  for (void* pointer : tried) FallbackFree(pointer);
  FallbackLeave();
}

TEST_F(FallbackTest, ShortSizesAreMimallocs) {
  for (size_t bytes = 1; bytes <= kMostShort; ++bytes) {
    const size_t size = ShortSize(bytes);
    ASSERT_GE(kShort.bytes[size], bytes);
    ASSERT_LT(kShort.bytes[size - 1], bytes);
    EXPECT_EQ(mi_good_size(kShort.bytes[size]), kShort.bytes[size]);
  }
  EXPECT_EQ(ShortSize(0), 1U);
  EXPECT_EQ(ShortSize(kMostShort + 1), 0U);
}

}  // namespace
}  // namespace reprise::interpose
