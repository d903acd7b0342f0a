// Single pages: no page twice, none lost, an end in every case, for all algorithms, widths and
// numbers of lanes, and the steps that the formulas predict.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "random_walk/formulas.h"
#include "random_walk/page_pool.h"

namespace reprise::random_walk {
namespace {

template <Algorithm kChosen, class ChosenWord, unsigned kLaneCount>
struct WalkVariant {
  static constexpr Algorithm kAlgorithm = kChosen;
  using Word = ChosenWord;
  using Warp = HostWarp<kLaneCount>;
};

// `free` pages at random places; the others are used.
template <class Word>
void Occupy(PagePool<Word>& pool, uint32_t free, uint64_t seed) {
  std::vector<uint32_t> pages(pool.view().pages);
  std::iota(pages.begin(), pages.end(), 0U);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(seed));
  for (size_t i = free; i < pages.size(); ++i) {
    pool.view().used[pages[i] / kWordBits<Word>] |= Word{1} << pages[i] % kWordBits<Word>;
  }
}

template <class V>
class PageWalkTest : public testing::Test {};
using WalkVariants = testing::Types<
    WalkVariant<Algorithm::kRandomWalk, uint32_t, 32>,
    WalkVariant<Algorithm::kRandomWalk, uint64_t, 1>, WalkVariant<Algorithm::kBitmap, uint32_t, 32>,
    WalkVariant<Algorithm::kBitmap, uint64_t, 1>, WalkVariant<Algorithm::kBitmap, uint64_t, 8>,
    WalkVariant<Algorithm::kCollective, uint32_t, 32>,
    WalkVariant<Algorithm::kCollective, uint64_t, 32>,
    WalkVariant<Algorithm::kCollective, uint32_t, 1>,
    WalkVariant<Algorithm::kCollectiveLockFree, uint32_t, 32>,
    WalkVariant<Algorithm::kCollectiveLockFree, uint64_t, 32>,
    WalkVariant<Algorithm::kCollectiveLockFree, uint64_t, 8>,
    WalkVariant<Algorithm::kCollectiveLockFree, uint32_t, 1>>;
TYPED_TEST_SUITE(PageWalkTest, WalkVariants);

TYPED_TEST(PageWalkTest, EveryPageIsFoundOnceAndThenMemoryIsOut) {
  using Warp = typename TypeParam::Warp;
  for (const uint32_t pages : {1U, 31U, 32U, 33U, 64U, 65U, 1000U}) {
    PagePool<typename TypeParam::Word> pool(
        {.pages = pages, .page_bytes = 1, .probes = 8, .with_memory = false});
    Warp warp(pages, 0);
    std::set<uint32_t> found;
    for (uint32_t turn = 0; turn < pages + 2; ++turn) {
      const auto page = get_page<TypeParam::kAlgorithm>(warp, pool.view());
      for (unsigned lane = 0; lane < Warp::kLanes; ++lane) {
        if (page[lane] == kNoPage) continue;
        ASSERT_LT(page[lane], pages);
        ASSERT_TRUE(found.insert(page[lane]).second) << page[lane] << " was given twice";
      }
    }
    EXPECT_EQ(found.size(), pages);
    EXPECT_EQ(pool.statistics().free, 0);
    for (const uint32_t page : found) free_page<Warp>(pool.view(), page);
    EXPECT_EQ(pool.statistics().free, pages);
    EXPECT_EQ(pool.statistics().longest_free_run, pages);
  }
}

TYPED_TEST(PageWalkTest, OnlyLanesInNeedGetPages) {
  using Warp = typename TypeParam::Warp;
  PagePool<typename TypeParam::Word> pool({.pages = 500, .page_bytes = 1, .with_memory = false});
  Occupy(pool, 400, 1);
  Warp warp(1, 0);
  std::mt19937 random(1);
  uint32_t given = 0;
  while (given < 300) {
    const LaneMask need = random() & Warp::kAll;
    const auto page = get_page<TypeParam::kAlgorithm>(warp, pool.view(), need);
    for (unsigned lane = 0; lane < Warp::kLanes; ++lane) {
      ASSERT_EQ(page[lane] != kNoPage, (need >> lane & 1) != 0);
    }
    given += count_bits(need);
    ASSERT_EQ(pool.statistics().free, 400 - given);
  }
}

// Warps that advance in turns, with frees in between: what each holds is its own.
TYPED_TEST(PageWalkTest, WarpsInTurnsNeverShareAPage) {
  using Warp = typename TypeParam::Warp;
  constexpr uint32_t kPages = 3000, kWarps = 40;
  PagePool<typename TypeParam::Word> pool(
      {.pages = kPages, .page_bytes = 1, .debug = true, .with_memory = false});
  std::vector<Warp> warps;
  std::vector<PageWalk<Warp>> walks(kWarps);
  for (uint32_t i = 0; i < kWarps; ++i) warps.emplace_back(7, i);
  std::vector<int> owner(kPages, -1);
  std::mt19937 random(2);
  for (int turn = 0; turn < 6000; ++turn) {
    const int i = static_cast<int>(random() % kWarps);
    PageWalk<Warp>& walk = walks[i];
    if (walk.need == 0) {
      for (unsigned lane = 0; lane < Warp::kLanes; ++lane) {
        if (walk.steps == 0 || walk.page[lane] == kNoPage) continue;
        ASSERT_EQ(owner[walk.page[lane]], i);
        owner[walk.page[lane]] = -1;
        ASSERT_EQ(free_page<Warp>(pool.view(), walk.page[lane]), FreeResult::kFreed);
      }
      begin(warps[i], walk, Warp::kAll);
    }
    const LaneMask before = walk.need;
    step<TypeParam::kAlgorithm>(warps[i], pool.view(), walk);
    for (unsigned lane = 0; lane < Warp::kLanes; ++lane) {
      if (((before & ~walk.need) >> lane & 1) == 0) continue;
      ASSERT_EQ(owner[walk.page[lane]], -1) << "given twice";
      owner[walk.page[lane]] = i;
    }
  }
  const auto held = std::count_if(owner.begin(), owner.end(), [](int it) { return it >= 0; });
  EXPECT_EQ(pool.statistics().used, held);
}

TYPED_TEST(PageWalkTest, TheSameSeedGivesTheSamePages) {
  using Warp = typename TypeParam::Warp;
  std::vector<uint32_t> pages[2];
  for (auto& list : pages) {
    PagePool<typename TypeParam::Word> pool({.pages = 2000, .page_bytes = 1, .with_memory = false});
    Occupy(pool, 700, 3);
    Warp warp(11, 4);
    for (int i = 0; i < 20; ++i) {
      const auto page = get_page<TypeParam::kAlgorithm>(warp, pool.view());
      for (unsigned lane = 0; lane < Warp::kLanes; ++lane) list.push_back(page[lane]);
    }
  }
  EXPECT_EQ(pages[0], pages[1]);
}

struct Steps {
  double tas = 0, was = 0;
};
// The mean over seeds of N requests at once, all warps in turns.
template <Algorithm kAlgorithm, class Word>
Steps Simulate(uint32_t total, uint32_t free, uint32_t requests, int seeds) {
  using Warp = HostWarp<32>;
  Steps mean;
  for (int seed = 1; seed <= seeds; ++seed) {
    PagePool<Word> pool({.pages = total, .page_bytes = 1, .with_memory = false});
    Occupy(pool, free, seed);
    std::vector<Warp> warps;
    std::vector<PageWalk<Warp>> walks(requests / 32);
    for (uint32_t i = 0; i < walks.size(); ++i) {
      warps.emplace_back(seed, i);
      begin(warps[i], walks[i], Warp::kAll);
    }
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < walks.size(); ++i) {
        if (walks[i].need == 0) continue;
        step<kAlgorithm>(warps[i], pool.view(), walks[i]);
        more |= walks[i].need != 0;
      }
    }
    for (const auto& walk : walks) {
      unsigned most = 0;
      for (const unsigned steps : walk.steps_of.values) {
        mean.tas += steps;
        most = std::max(most, steps);
      }
      mean.was += most;
    }
  }
  mean.tas /= double(requests) * seeds;
  mean.was /= double(requests) / 32 * seeds;
  return mean;
}

TEST(PageWalkStepsTest, RandomWalkAndBitmapTakeTheStepsOfTheFormulas) {
  constexpr uint32_t kPages = 1 << 16;
  for (const double share : {0.5, 0.1, 0.01}) {
    const auto free = static_cast<uint32_t>(kPages * share);
    for (const double part : {0.3, 0.99}) {
      const uint32_t n = static_cast<uint32_t>(free * part) / 32 * 32;
      SCOPED_TRACE(testing::Message() << "A " << free << " N " << n);
      const Steps walk = Simulate<Algorithm::kRandomWalk, uint32_t>(kPages, free, n, 3);
      const double expected = random_walk_tas(kPages, free, n);
      // 3 seeds and few pages left vary more than the 10 seeds of the experiment.
      EXPECT_NEAR(walk.tas, expected, expected * 0.08);
      EXPECT_LE(walk.was, random_walk_was_bound(kPages, free, n));
      const Steps bitmap = Simulate<Algorithm::kBitmap, uint32_t>(kPages, free, n, 3);
      EXPECT_NEAR(bitmap.tas, bitmap_tas(kPages, free, n, 32),
                  bitmap_tas(kPages, free, n, 32) * 0.08);
      EXPECT_LE(bitmap.was, bitmap_was_bound(kPages, free, n, 32));
      const Steps shared = Simulate<Algorithm::kCollective, uint32_t>(kPages, free, n, 3);
      EXPECT_DOUBLE_EQ(shared.tas, shared.was);
      EXPECT_LE(shared.was, bitmap.was);
      const Steps free_of_locks =
          Simulate<Algorithm::kCollectiveLockFree, uint32_t>(kPages, free, n, 3);
      EXPECT_DOUBLE_EQ(free_of_locks.tas, free_of_locks.was);
      EXPECT_LE(free_of_locks.was, bitmap.was);
    }
  }
}

}  // namespace
}  // namespace reprise::random_walk
