// Sets of blocks against a vector of bools and a map, and the places that are kept against lists of
// them.
#include "replay/arena/block_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "replay/arena/kept_places.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {
namespace {

// A set in which each granule that is taken is a block, or a kept place, of its own.
class Granules {
 public:
  explicit Granules(uint64_t granules) : memory_(BlockSet::MemoryFor(granules)), model(granules) {
    set.Attach(memory_.data());
  }

  void Fill(uint64_t begin, uint64_t end, bool take) {
    for (uint64_t at = begin; at < end; ++at) {
      if (model[at] == take) continue;
      model[at] = take;
      if (!take) {
        set.Remove(at, 1);
      } else if (at % 3 == 0) {
        set.AddKept(at, 1);
      } else {
        set.Add(at, 1);
      }
    }
  }

 private:
  std::vector<char> memory_;

 public:
  BlockSet set;
  std::vector<bool> model;
};

TEST(BlockSetTest, WhatIsFreeIsFound) {
  Granules granules(2000);
  const BlockSet& set = granules.set;
  const std::vector<bool>& model = granules.model;
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t begin = random() % 1900;
    const uint64_t end = begin + 1 + random() % 99;
    const bool any =
        std::find(model.begin() + begin, model.begin() + end, true) != model.begin() + end;
    ASSERT_EQ(set.HasAny(begin, end), any);
    if (end - begin <= BlockSet::kFew) {
      ASSERT_EQ(set.HasAnyOfFew(begin, end - begin), any);
    }
    uint64_t gap_begin = end;
    while (gap_begin > begin && !model[gap_begin - 1]) --gap_begin;
    ASSERT_EQ(set.GapBegin(end - 1, begin), gap_begin);
    uint64_t gap_end = end;
    while (gap_end < model.size() && !model[gap_end]) ++gap_end;
    if (!any && gap_end - set.GapBegin(begin, 0) >= BlockSet::kHasAUnit) {
      ASSERT_TRUE(set.CanBeInALongGap(begin, end));
    }
    uint64_t run_begin = end;
    while (run_begin > begin && model[run_begin - 1]) --run_begin;
    ASSERT_EQ(set.TakenBegin(end - 1, begin), run_begin);
    const uint64_t length = 1 + random() % (round % 2 == 0 ? 20 : 126);
    int32_t effort = 1 << 20;
    uint64_t gap = begin;
    if (!set.FindGap(&gap, end, length, 1, &effort)) gap = end;
    uint64_t expected = end;
    for (uint64_t at = begin; at + length <= end && expected == end; ++at) {
      if (std::find(model.begin() + at, model.begin() + at + length, true) ==
          model.begin() + at + length) {
        expected = at;
      }
    }
    ASSERT_EQ(gap, expected);
    granules.Fill(begin, end, random() % 2 == 0);
    const uint64_t asked = random() % model.size();
    ASSERT_EQ(set.Has(asked), model[asked]);
  }
}

// Gaps that are looked for by units of the bitmaps.
TEST(BlockSetTest, LongGapsAreTheFirstOnesThatAreLongEnough) {
  constexpr uint64_t kGranules = 3000;
  Granules granules(kGranules);
  const BlockSet& set = granules.set;
  const std::vector<bool>& model = granules.model;
  std::mt19937_64 random(1);
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint64_t granule = random() % kGranules;
    const uint64_t behind = granule + 1 + random() % std::min<uint64_t>(300, kGranules - granule);
    if (random() % 4 != 0) {
      granules.Fill(granule, granule + 1, true);
    } else {
      granules.Fill(granule, behind, false);
    }
    const uint64_t begin = random() % kGranules;
    const uint64_t end = begin + random() % (kGranules - begin) + 1;
    const uint64_t length = 120 + random() % 150;
    const uint64_t step = random() % 2 == 0 ? 1 : 16;
    uint64_t expected = end;
    uint64_t free = 0;
    for (uint64_t at = (begin + step - 1) / step * step; at < end; ++at) {
      free = model[at] ? 0 : free + 1;
      expected = at + 1 - length;
      if (free >= length && expected % step == 0) break;
      expected = end;
    }
    int32_t effort = 1 << 20;
    uint64_t gap = begin;
    const bool any = set.FindGap(&gap, end, length, step, &effort);
    found += any ? 1 : 0;
    ASSERT_EQ(any ? gap : end, expected);
  }
  EXPECT_GT(found, 1000);
}

TEST(BlockSetTest, OnlyLiveBlocksHaveALength) {
  constexpr uint64_t kGranules = 3000;
  struct Block {
    uint64_t granules;
    bool kept;
  };
  std::vector<char> memory(BlockSet::MemoryFor(kGranules));
  BlockSet set;
  set.Attach(memory.data());
  std::map<uint64_t, Block> model;  // by the first granule
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t granule = random() % kGranules;
    const auto next = model.lower_bound(granule);
    const uint64_t room = (next == model.end() ? kGranules : next->first) - granule;
    const bool in_one = next != model.begin() &&
                        std::prev(next)->first + std::prev(next)->second.granules > granule;
    if (next != model.end() && next->first == granule) {
      Block& block = next->second;
      if (random() % 3 == 0) {
        set.Remove(granule, block.granules);
        model.erase(next);
      } else {
        block.kept ? set.Reuse(granule, block.granules) : set.Keep(granule, block.granules);
        block.kept = !block.kept;
      }
    } else if (room > 0 && !in_one) {
      const uint64_t granules = 1 + random() % std::min<uint64_t>(room, random() % 8 ? 20 : 200);
      set.Add(granule, granules);
      model[granule] = {granules, false};
    }
    const uint64_t asked = random() % kGranules;
    const auto at = model.find(asked);
    const uint64_t length = at == model.end() || at->second.kept ? 0 : at->second.granules;
    ASSERT_EQ(set.BeginsAt(asked), length != 0);
    ASSERT_EQ(set.LengthAt(asked, kGranules), length);
    const uint64_t short_length = set.ShortLengthAt(asked);
    ASSERT_TRUE(short_length == length || (short_length == 0 && length > 64));
    const auto behind = model.upper_bound(asked);
    ASSERT_EQ(set.Has(asked),
              behind != model.begin() &&
                  std::prev(behind)->first + std::prev(behind)->second.granules > asked);
    // Of blocks and places that begin below, all but the last end there for sure.
    auto before = model.lower_bound(asked);
    if (before != model.begin() &&
        std::prev(before)->first + std::prev(before)->second.granules > asked) {
      --before;
    }
    const uint64_t last_end =
        before == model.begin() ? 0 : std::prev(before)->first + std::prev(before)->second.granules;
    const uint64_t lowest = random() % (asked + 1);
    ASSERT_EQ(set.LastEnd(asked, lowest), std::max(last_end, lowest));
  }
}

// A block between others that come and go, about which a signal handler asks that may interrupt
// any of that.
struct Asked {
  static constexpr uint64_t kGranule = 128;  // the first of a unit: the one before lies in another
  static constexpr uint64_t kGranules = 70;

  BlockSet set;
  std::atomic<int> times{0};
  std::atomic<int> wrong{0};

  static Asked* only;
  static void Ask(int) {
    only->times.fetch_add(1);
    if (only->set.LengthAt(kGranule, 4096) != kGranules) only->wrong.fetch_add(1);
  }
};
Asked* Asked::only;

TEST(BlockSetTest, WhoInterruptsAChangeIsToldOfTheBlocksBesideIt) {
  constexpr int kTimes = 5000;
  std::vector<char> memory(BlockSet::MemoryFor(4096));
  Asked asked;
  asked.set.Attach(memory.data());
  asked.set.Add(Asked::kGranule, Asked::kGranules);
  Asked::only = &asked;
  struct sigaction before;
  struct sigaction action = {};
  action.sa_handler = Asked::Ask;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  constexpr timeval kPause{0, 50};
  constexpr itimerval kOften{kPause, kPause};
  ASSERT_EQ(setitimer(ITIMER_REAL, &kOften, nullptr), 0);
  const uint64_t behind = Asked::kGranule + Asked::kGranules;
  for (uint64_t granules = 1; asked.times.load() < kTimes; granules = granules % 100 + 1) {
    const uint64_t below = Asked::kGranule - granules;
    asked.set.Add(below, granules);
    asked.set.Add(behind, granules);
    asked.set.Keep(below, granules);
    asked.set.Keep(behind, granules);
    asked.set.Reuse(below, granules);
    asked.set.Remove(below, granules);
    asked.set.Remove(behind, granules);
  }
  constexpr itimerval kNever{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &kNever, nullptr), 0);
  ASSERT_EQ(sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_EQ(asked.wrong.load(), 0);
}

// The places of one length stand in segments of kSegment, of which each length can have one.
void KeepAndTake(uint64_t granules_in_all, bool all) {
  constexpr size_t kSegment = 30;
  std::vector<char> memory(KeptPlaces::MemoryFor(granules_in_all));
  auto kept = std::make_unique<KeptPlaces>();
  kept->Attach(memory.data(), granules_in_all);
  for (uint64_t shape = 0; shape < 1000; ++shape) kept->NoteLength(shape, ShapeGranules(shape));
  std::map<uint64_t, std::vector<uint32_t>> model;  // by length
  std::mt19937_64 random(1);
  uint64_t sum = 0;
  uint64_t count = 0;
  size_t deepest = 0;
  for (uint32_t granule = 1; granule < 400000; ++granule) {
    // Now more and more, now fewer and fewer.
    const uint64_t of_eight = granule / 50000 % 2 == 0 ? 5 : 3;
    const uint64_t granules = 1 + random() % 210;
    std::vector<uint32_t>& places = model[granules];
    const uint64_t shape = Shape(granules * kGranule - random() % kGranule, 4);
    const bool quickly = granules <= KeptPlaces::kLongest && random() % 2 == 0;
    uint32_t taken = 0;
    if (random() % 8 < of_eight) {
      if ((quickly && kept->PutQuickly(granule, granules)) || kept->Put(granule, granules)) {
        places.push_back(granule);
        deepest = std::max(deepest, places.size());
        sum += granules;
        ++count;
      } else {
        const bool full = !places.empty() && places.size() % kSegment == 0;
        ASSERT_TRUE(granules > KeptPlaces::kLongest || (!all && full));
      }
      continue;
    }
    if (places.empty()) {
      ASSERT_FALSE(kept->Take(kept->LengthOf(shape), &taken));
      continue;
    }
    if (random() % 8 == 0) {
      const size_t which = random() % places.size();
      kept->Remove(places[which], granules);
      places[which] = places.back();
    } else {
      ASSERT_TRUE((quickly && kept->TakeQuickly(kept->LengthOf(shape), &taken)) ||
                  kept->Take(kept->LengthOf(shape), &taken));
      ASSERT_EQ(taken, places.back());
    }
    places.pop_back();
    sum -= granules;
    --count;
    if (granule % 64 == 0) {
      ASSERT_EQ(kept->Granules(), sum);
      ASSERT_EQ(kept->Count(), count);
    }
  }
  std::set<uint32_t> foretold;
  uint64_t told = 0;
  kept->Clear([&](uint32_t granule) { foretold.insert(granule); },
              [&](uint32_t granule, uint64_t granules) {
                --count;
                told += foretold.count(granule);
                std::vector<uint32_t>& places = model[granules];
                const auto found = std::find(places.begin(), places.end(), granule);
                ASSERT_NE(found, places.end()) << "not kept, or visited before";
                places.erase(found);
              });
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(told, foretold.size());
  EXPECT_GT(told, 0u);
  EXPECT_EQ(kept->Count(), 0u);
  uint32_t none;
  EXPECT_FALSE(kept->Take(4, &none));
  EXPECT_EQ(kept->LengthOf(Shape(64, 8)), 0u) << "aligned requests have no length of their own";
  EXPECT_GE(deepest, kSegment);
  EXPECT_LE(deepest, kSegment + granules_in_all / 64);
}

TEST(KeptPlacesTest, TheLatestOfALengthComesFirstAndNoneTwice) {
  KeepAndTake(0, /*all=*/false);
  KeepAndTake(12800, /*all=*/false);
  KeepAndTake(1 << 20, /*all=*/true);
}

TEST(KeptPlacesTest, ALengthThatComesLastHasRoomAsWell) {
  constexpr uint64_t kGranules = 12800;
  std::vector<char> memory(KeptPlaces::MemoryFor(kGranules));
  auto kept = std::make_unique<KeptPlaces>();
  kept->Attach(memory.data(), kGranules);
  uint32_t granule = 0;
  for (uint64_t granules = 1; granules <= KeptPlaces::kLongest; ++granules) {
    const uint64_t before = kept->Count();
    while (kept->Put(granule, granules)) ++granule;
    EXPECT_GE(kept->Count() - before, 30u) << granules;
  }
}

// Of short ones only, because most of what is made for one length may never be asked for.
TEST(KeptPlacesTest, BatchesGrowUntilAllIsForgotten) {
  std::vector<char> memory(KeptPlaces::MemoryFor(0));
  auto kept = std::make_unique<KeptPlaces>();
  kept->Attach(memory.data(), 0);
  const auto next = [&](uint64_t granules) {
    std::vector<uint64_t> batches;
    for (int i = 0; i < 6; ++i) batches.push_back(kept->NextBatch(granules));
    return batches;
  };
  EXPECT_EQ(next(1), (std::vector<uint64_t>{8, 16, 32, 64, 128, 128}));
  EXPECT_EQ(next(8), (std::vector<uint64_t>{8, 16, 16, 16, 16, 16}));
  EXPECT_EQ(next(9), (std::vector<uint64_t>{8, 8, 8, 8, 8, 8}));
  kept->Clear([](uint32_t) {}, [](uint32_t, uint64_t) {});
  EXPECT_EQ(kept->NextBatch(1), 8u);
}

TEST(KeptPlacesTest, AShapeHasTheLengthThatItNeedsOrThatWasNoted) {
  std::vector<char> memory(KeptPlaces::MemoryFor(0));
  auto kept = std::make_unique<KeptPlaces>();
  kept->Attach(memory.data(), 0);
  uint32_t taken = 0;
  ASSERT_TRUE(kept->Put(7, 3));
  EXPECT_FALSE(kept->Take(kept->LengthOf(Shape(32, 4)), &taken));
  kept->NoteLength(Shape(16, 4), 1);
  EXPECT_EQ(kept->LengthOf(Shape(33, 4)), 3u);
  kept->NoteLength(Shape(32, 4), 3);
  ASSERT_TRUE(kept->Take(kept->LengthOf(Shape(32, 4)), &taken));
  EXPECT_EQ(taken, 7u);
  EXPECT_EQ(kept->LengthOf(Shape(16, 4)), 1u);
  EXPECT_EQ(kept->LengthOf(Shape(33, 4)), 0u) << "some blocks have more: this may be one";
}

}  // namespace
}  // namespace reprise::replay
