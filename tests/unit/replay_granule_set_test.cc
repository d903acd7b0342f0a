// Sets of granules against a vector of bools, and the places that are kept against lists of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "replay/arena/granule_set.h"
#include "replay/arena/kept_places.h"
#include "replay/plan_format.h"

namespace reprise::replay {
namespace {

TEST(GranuleSetTest, RangesAreWhatTheyAre) {
  std::vector<uint64_t> words(64), start_words(64);
  GranuleSet set, starts;
  set.Attach(words.data());
  starts.Attach(start_words.data());
  std::mt19937_64 random(1);
  std::vector<bool> model(2000);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t begin = random() % 1900;
    const uint64_t end = begin + 1 + random() % 99;
    const bool any =
        std::find(model.begin() + begin, model.begin() + end, true) != model.begin() + end;
    ASSERT_EQ(set.HasAny(begin, end), any);
    if (end - begin < 64) {
      ASSERT_EQ(set.HasAnyOfFew(begin, end - begin), any);
    }
    const auto out = std::find(model.begin() + begin, model.begin() + end, false);
    ASSERT_EQ(set.RunEnd(begin, starts, end), static_cast<uint64_t>(out - model.begin()));
    ASSERT_EQ(set.ShortRun(begin, starts),
              std::min<uint64_t>(64, set.RunEnd(begin, starts, 2000) - begin));
    uint64_t gap_begin = end;
    while (gap_begin > begin && !model[gap_begin - 1]) --gap_begin;
    ASSERT_EQ(set.GapBegin(end - 1, begin), gap_begin);
    const uint64_t length = 1 + random() % 20;
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
    const bool add = random() % 2 == 0;
    std::fill(model.begin() + begin, model.begin() + end, add);
    if (add) {
      set.AddRange(begin, end);
    } else {
      set.RemoveRange(begin, end);
    }
  }
}

void KeepAndTake(uint64_t granules_in_all, size_t most) {
  const auto kept = std::make_unique<KeptPlaces>();
  std::vector<char> memory(KeptPlaces::MemoryFor(granules_in_all));
  kept->Attach(memory.data(), granules_in_all);
  size_t deepest = 0;
  std::map<uint64_t, std::vector<uint32_t>> model;  // by length
  std::mt19937_64 random(1);
  uint64_t sum = 0;
  for (uint32_t granule = 1; granule < 200000; ++granule) {
    const uint64_t granules = 1 + random() % 140;
    std::vector<uint32_t>& places = model[granules];
    switch (random() % 5) {
      case 3:
      case 4:
      case 0:
        if (!kept->Put(granule, granules)) {
          EXPECT_TRUE(granules >= 130 || places.size() == most) << granules;
          break;
        }
        places.push_back(granule);
        deepest = std::max(deepest, places.size());
        sum += granules;
        break;
      case 1: {
        uint32_t taken = 0;
        const uint64_t shape = Shape(granules * kGranule - random() % kGranule, 4);
        ASSERT_EQ(kept->Take(shape, &taken), !places.empty()) << granules;
        if (places.empty()) break;
        ASSERT_EQ(taken, places.back());
        places.pop_back();
        sum -= granules;
        break;
      }
      default:
        if (places.empty()) break;
        kept->Remove(places.back(), granules);
        places.pop_back();
        sum -= granules;
    }
    ASSERT_EQ(kept->Granules(), sum);
  }
  size_t left = 0;
  for (const auto& entry : model) left += entry.second.size();
  kept->Clear([&left](uint32_t) { --left; });
  EXPECT_EQ(left, 0u);
  uint32_t none;
  EXPECT_FALSE(kept->Take(Shape(64, 4), &none));
  EXPECT_FALSE(kept->Take(Shape(64, 8), &none)) << "aligned requests have no length of their own";
  EXPECT_EQ(deepest, most);
}

TEST(KeptPlacesTest, TheLatestOfALengthComesFirstAndNoneTwice) {
  KeepAndTake(0, 31);
  KeepAndTake(6400, 131);
}

TEST(KeptPlacesTest, AShapeHasTheLengthThatWasNoted) {
  const auto kept = std::make_unique<KeptPlaces>();
  uint32_t taken = 0;
  ASSERT_TRUE(kept->Put(7, 3));
  EXPECT_FALSE(kept->Take(Shape(32, 4), &taken));
  kept->NoteLength(Shape(32, 4), 3);
  ASSERT_TRUE(kept->Take(Shape(32, 4), &taken));
  EXPECT_EQ(taken, 7u);
}

}  // namespace
}  // namespace reprise::replay
