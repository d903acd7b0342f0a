// Runs of pages: against a model that knows each run, for both widths and several warps.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "random_walk/page_pool.h"

namespace reprise::random_walk {
namespace {

template <class ChosenWord, unsigned kLaneCount>
struct Variant {
  using Word = ChosenWord;
  using Warp = HostWarp<kLaneCount>;
};
template <class V>
class RunWalkTest : public testing::Test {
 protected:
  using VariantWarp = typename V::Warp;
  using VariantWord = typename V::Word;
  static constexpr uint32_t kLongest = kLongestRun<VariantWarp, VariantWord>;

  // Notes the runs that were given. False if one overlaps another or the pool's end.
  bool Take(const RunWalk<VariantWarp>& walk, uint32_t pages) {
    for (unsigned lane = 0; lane < VariantWarp::kLanes; ++lane) {
      if (walk.first[lane] == kNoPage) continue;
      const uint32_t first = walk.first[lane], end = first + walk.units[lane];
      const auto next = live_.lower_bound(first);
      if (end > pages || (next != live_.end() && next->first < end)) return false;
      if (next != live_.begin() && std::prev(next)->second > first) return false;
      live_[first] = end;
      used_ += end - first;
    }
    return true;
  }
  void FreeOne(const PoolView<VariantWord>& pool, std::mt19937& random) {
    auto it = live_.lower_bound(random() % pool.pages);
    if (it == live_.end()) it = live_.begin();
    ASSERT_EQ(free_run<VariantWarp>(pool, it->first, it->second - it->first), FreeResult::kFreed);
    used_ -= it->second - it->first;
    live_.erase(it);
  }

  std::map<uint32_t, uint32_t> live_;  // first unit → one past the last
  uint64_t used_ = 0;
};
using Variants = testing::Types<Variant<uint32_t, 32>, Variant<uint64_t, 32>, Variant<uint64_t, 8>,
                                Variant<uint32_t, 2>>;
TYPED_TEST_SUITE(RunWalkTest, Variants);

TYPED_TEST(RunWalkTest, RunsNeverOverlapAndTheBitmapIsTheirUnion) {
  using Warp = typename TypeParam::Warp;
  std::mt19937 random(5);
  for (const uint32_t pages : {200U, 5000U, 100000U}) {
    this->live_.clear();
    this->used_ = 0;
    PagePool<typename TypeParam::Word> pool(
        {.pages = pages, .page_bytes = 16, .probes = 30, .debug = true, .with_memory = false});
    std::vector<Warp> warps;
    std::vector<RunWalk<Warp>> walks(5);
    for (int i = 0; i < 5; ++i) warps.emplace_back(3, i);
    for (int turn = 0; turn < 1500; ++turn) {
      const size_t i = random() % walks.size();
      const uint32_t most = 1 + random() % (random() % 8 == 0 ? this->kLongest : 40);
      for (unsigned lane = 0; lane < Warp::kLanes; ++lane) {
        walks[i].units[lane] = 1 + random() % most;
      }
      find_runs(warps[i], pool.view(), random() & Warp::kAll, walks[i]);
      ASSERT_TRUE(this->Take(walks[i], pages));
      ASSERT_EQ(pool.statistics().used, this->used_);
      const size_t keep = random() % 3 == 0 ? 0 : this->live_.size() / 2;
      while (this->live_.size() > keep) this->FreeOne(pool.view(), random);
    }
  }
}

// Windows that end anywhere: a run that fits is found wherever it lies.
TYPED_TEST(RunWalkTest, TheOnlyRunIsFoundWhereverItLies) {
  using Warp = typename TypeParam::Warp;
  using Word = typename TypeParam::Word;
  constexpr uint32_t kPages = 5000;
  std::mt19937 random(6);
  for (int turn = 0; turn < 400; ++turn) {
    PagePool<Word> pool({.pages = kPages, .page_bytes = 1, .probes = 10, .with_memory = false});
    for (uint32_t i = 0; i < pool.view().words; ++i)
      pool.view().used[i] = static_cast<Word>(~Word{0});
    const uint32_t length = 1 + random() % this->kLongest;
    const uint32_t first = random() % (kPages - length + 1);
    free_run<Warp>(pool.view(), first, length);
    Warp warp(turn, 0);
    RunWalk<Warp> walk;
    const unsigned lane = random() % Warp::kLanes;
    walk.units[lane] = length + 1;
    if (length < this->kLongest) {
      find_runs(warp, pool.view(), 1U << lane, walk);
      ASSERT_EQ(walk.first[lane], kNoPage);
    }
    walk.units[lane] = length;
    find_runs(warp, pool.view(), 1U << lane, walk);
    ASSERT_EQ(walk.first[lane], first) << "of " << length;
  }
}

// Else each request of a nearly full pool would read the whole bitmap.
TYPED_TEST(RunWalkTest, TheNextWalkBeginsWhereAScanHasFoundARun) {
  using Warp = typename TypeParam::Warp;
  using Word = typename TypeParam::Word;
  constexpr uint32_t kPages = 1 << 20, kFree = 2000;
  PagePool<Word> pool({.pages = kPages, .page_bytes = 1, .probes = 2, .with_memory = false});
  for (uint32_t i = 0; i < pool.view().words; ++i)
    pool.view().used[i] = static_cast<Word>(~Word{0});
  free_run<Warp>(pool.view(), kPages / 3, kFree);
  Warp warp(1, 0);
  RunWalk<Warp> walk;
  walk.units[0] = 20;
  find_runs(warp, pool.view(), 1, walk);
  EXPECT_EQ(walk.first[0], kPages / 3);
  EXPECT_GT(walk.steps, 2);
  for (uint32_t given = 20; given + 20 <= kFree; given += 20) {
    find_runs(warp, pool.view(), 1, walk);
    ASSERT_EQ(walk.first[0], kPages / 3 + given);
    ASSERT_LE(walk.steps, 2);
  }
}

TYPED_TEST(RunWalkTest, ARequestThatIsTooLongIsRefusedAndTheOthersAreServed) {
  using Warp = typename TypeParam::Warp;
  PagePool<typename TypeParam::Word> pool({.pages = 9000, .page_bytes = 16});
  Warp warp(1, 0);
  RunWalk<Warp> walk;
  typename Warp::template Lanes<uint64_t> bytes;
  bytes[0] = uint64_t{16} * this->kLongest + 1;
  bytes[1] = 16 * this->kLongest;
  const auto block = rw_malloc(warp, pool.view(), walk, 3, bytes);
  EXPECT_EQ(block[0], nullptr);
  EXPECT_NE(block[1], nullptr);
  bytes[0] = UINT64_MAX;
  EXPECT_EQ(rw_malloc(warp, pool.view(), walk, 1, bytes)[0], nullptr);
}

TYPED_TEST(RunWalkTest, SmallRequestsOfAWarpShareOneRunAndAreFreedAlone) {
  using Warp = typename TypeParam::Warp;
  PagePool<typename TypeParam::Word> pool({.pages = 9000, .page_bytes = 16, .debug = true});
  Warp warp(1, 0);
  RunWalk<Warp> walk;
  typename Warp::template Lanes<uint64_t> bytes;
  for (unsigned lane = 0; lane < Warp::kLanes; ++lane) bytes[lane] = 4 + 16 * (lane % 3);
  const auto block = rw_malloc(warp, pool.view(), walk, Warp::kAll, bytes);
  for (unsigned lane = 1; lane < Warp::kLanes; ++lane) {
    EXPECT_EQ(static_cast<char*>(block[lane]) - static_cast<char*>(block[lane - 1]),
              16 * (1 + (lane - 1) % 3));
  }
  for (unsigned lane = 0; lane < Warp::kLanes; lane += 2) {
    EXPECT_EQ(rw_free<Warp>(pool.view(), block[lane], bytes[lane]), FreeResult::kFreed);
    EXPECT_EQ(rw_free<Warp>(pool.view(), block[lane], bytes[lane]), FreeResult::kDoubleFree);
  }
}

// Until memory is out, with requests of one size.
TYPED_TEST(RunWalkTest, NearlyAllMemoryIsUsedBeforeItIsOut) {
  using Warp = typename TypeParam::Warp;
  constexpr uint32_t kPages = 1 << 19;
  for (const uint32_t units : {1U, 3U, 17U, this->kLongest / 4 + 3, this->kLongest / 2 + 5}) {
    if (units > 512) continue;  // 8192 bytes
    PagePool<typename TypeParam::Word> pool(
        {.pages = kPages, .page_bytes = 16, .with_memory = false});
    std::vector<Warp> warps;
    std::vector<RunWalk<Warp>> walks(64);
    for (int i = 0; i < 64; ++i) warps.emplace_back(units, i);
    bool full = false;
    for (size_t i = 0; !full; i = (i + 1) % walks.size()) {
      warps[i].each(Warp::kAll, [&](unsigned lane) { walks[i].units[lane] = units; });
      find_runs(warps[i], pool.view(), Warp::kAll, walks[i]);
      full = walks[i].need != 0;
    }
    EXPECT_GE(double(pool.statistics().used) / kPages, 0.98) << units << " units";
  }
}

}  // namespace
}  // namespace reprise::random_walk
