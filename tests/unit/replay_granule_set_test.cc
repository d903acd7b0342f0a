// Sets of granules against a vector of bools, sets of blocks against a map, and the places that are
// kept against lists of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "replay/arena/block_set.h"
#include "replay/arena/granule_set.h"
#include "replay/arena/kept_places.h"
#include "replay/plan_format.h"

namespace reprise::replay {
namespace {

TEST(GranuleSetTest, RangesAreWhatTheyAre) {
  std::vector<uint64_t> words(64);
  GranuleSet set;
  set.Attach(words.data());
  std::mt19937_64 random(1);
  std::vector<bool> model(2000);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t begin = random() % 1900;
    const uint64_t end = begin + 1 + random() % 99;
    const bool any =
        std::find(model.begin() + begin, model.begin() + end, true) != model.begin() + end;
    ASSERT_EQ(set.HasAny(begin, end), any);
    if (end - begin <= GranuleSet::kFew) {
      ASSERT_EQ(set.HasAnyOfFew(begin, end - begin), any);
    }
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
    ASSERT_EQ(set.BeginsAt(asked), at != model.end());
    ASSERT_EQ(set.LengthAt(asked, kGranules), length);
    ASSERT_EQ(set.ShortLengthAt(asked), length <= 64 ? length : 0);
    const auto behind = model.upper_bound(asked);
    if (behind != model.begin()) {
      ASSERT_EQ(set.LastBeginning(asked), std::prev(behind)->first);
    }
  }
}

void KeepAndTake(uint64_t granules_in_all, size_t most) {
  const auto kept = std::make_unique<KeptPlaces>();
  std::vector<char> memory(KeptPlaces::MemoryFor(granules_in_all));
  kept->Attach(memory.data(), granules_in_all);
  size_t deepest = 0;
  for (uint64_t shape = 0; shape < 1000; ++shape) kept->NoteLength(shape, ShapeGranules(shape));
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
        uint64_t length = 0;
        const uint64_t shape = Shape(granules * kGranule - random() % kGranule, 4);
        ASSERT_EQ(kept->Take(shape, &taken, &length), !places.empty()) << granules;
        if (places.empty()) break;
        ASSERT_EQ(length, granules);
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
  EXPECT_EQ(kept->Count(), left);
  kept->Clear([&](uint32_t granule, uint64_t granules) {
    --left;
    EXPECT_THAT(model[granules], testing::Contains(granule));
  });
  EXPECT_EQ(left, 0u);
  uint32_t none;
  uint64_t length;
  EXPECT_FALSE(kept->Take(Shape(64, 4), &none, &length));
  EXPECT_FALSE(kept->Take(Shape(64, 8), &none, &length))
      << "aligned requests have no length of their own";
  EXPECT_EQ(deepest, most);
}

TEST(KeptPlacesTest, TheLatestOfALengthComesFirstAndNoneTwice) {
  KeepAndTake(0, 31);
  KeepAndTake(6400, 131);
}

TEST(KeptPlacesTest, AShapeHasTheLengthThatWasNoted) {
  const auto kept = std::make_unique<KeptPlaces>();
  uint32_t taken = 0;
  uint64_t length = 0;
  ASSERT_TRUE(kept->Put(7, 3));
  EXPECT_FALSE(kept->Take(Shape(32, 4), &taken, &length));
  kept->NoteLength(Shape(32, 4), 3);
  ASSERT_TRUE(kept->Take(Shape(32, 4), &taken, &length));
  EXPECT_EQ(taken, 7u);
  EXPECT_EQ(length, 3u);
}

}  // namespace
}  // namespace reprise::replay
