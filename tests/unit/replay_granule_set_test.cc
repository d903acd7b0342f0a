// Sets of granules against a vector of bools, sets of blocks against a map, and the places that are
// kept against lists of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
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
    if (end - begin < 64) {
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
        block.kept ? set.Reuse(granule) : set.Keep(granule);
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
    // Of blocks and places that begin below, all but the last end there for sure.
    auto before = model.lower_bound(asked);
    if (before != model.begin() &&
        std::prev(before)->first + std::prev(before)->second.granules > asked) {
      --before;
    }
    ASSERT_EQ(set.LastEnd(asked), before == model.begin() ? 0
                                                          : std::prev(before)->first +
                                                                std::prev(before)->second.granules);
  }
}

// Places above kFirstInAnnex are of the annex.
void KeepAndTake(uint64_t granules_in_all, size_t most) {
  constexpr uint32_t kFirstInAnnex = 1 << 20;
  const auto kept = std::make_unique<KeptPlaces>();
  std::vector<char> memory(KeptPlaces::MemoryFor(granules_in_all));
  kept->Attach(memory.data(), granules_in_all);
  size_t deepest = 0;
  for (uint64_t shape = 0; shape < 1000; ++shape) kept->NoteLength(shape, ShapeGranules(shape));
  struct Places {
    std::vector<uint32_t> of_box;
    std::set<uint32_t> of_annex;
    size_t size() const { return of_box.size() + of_annex.size(); }
  };
  std::map<uint64_t, Places> model;  // by length
  std::mt19937_64 random(1);
  uint64_t sum = 0;
  for (uint32_t number = 1; number < 400000; ++number) {
    const uint64_t granules = 1 + random() % 140;
    Places& places = model[granules];
    const uint64_t shape = Shape(granules * kGranule - random() % kGranule, 4);
    const bool in_annex = random() % 8 == 0;
    const uint32_t granule = number + (in_annex ? kFirstInAnnex : 0);
    uint32_t taken = 0;
    std::vector<uint32_t>& box = places.of_box;
    switch (random() % 12) {
      default:
        if (!kept->Put(granule, granules, in_annex)) {
          EXPECT_TRUE(granules >= 130 || places.size() == most) << granules;
          break;
        }
        if (in_annex) {
          // It takes the place of the box's earliest, which becomes the latest.
          places.of_annex.insert(granule);
          if (!box.empty()) std::rotate(box.begin(), box.begin() + 1, box.end());
        } else {
          box.push_back(granule);
        }
        deepest = std::max(deepest, places.size());
        sum += granules;
        break;
      case 1:
      case 2:
        ASSERT_EQ(kept->Take(shape, &taken), !box.empty()) << granules;
        if (box.empty()) break;
        ASSERT_EQ(taken, box.back());
        box.pop_back();
        sum -= granules;
        break;
      case 3:
        ASSERT_EQ(kept->TakeFromAnnex(shape, &taken), box.empty() && !places.of_annex.empty());
        if (taken == 0) break;
        ASSERT_EQ(places.of_annex.erase(taken), 1u);
        sum -= granules;
        break;
      case 4:
        if (box.empty()) break;
        kept->Remove(box.back(), granules);
        box.pop_back();
        sum -= granules;
        break;
      case 5:
        if (places.of_annex.empty()) break;
        kept->Remove(*places.of_annex.begin(), granules);
        places.of_annex.erase(places.of_annex.begin());
        if (!box.empty()) std::rotate(box.begin(), box.end() - 1, box.end());
        sum -= granules;
    }
    ASSERT_EQ(kept->Granules(), sum);
  }
  size_t left = 0;
  for (const auto& entry : model) left += entry.second.size();
  EXPECT_EQ(kept->Count(), left);
  kept->Clear([&](uint32_t granule, uint64_t granules) {
    --left;
    const Places& places = model[granules];
    if (granule > kFirstInAnnex) {
      EXPECT_EQ(places.of_annex.count(granule), 1u);
    } else {
      EXPECT_THAT(places.of_box, testing::Contains(granule));
    }
  });
  EXPECT_EQ(left, 0u);
  uint32_t none;
  EXPECT_FALSE(kept->Take(Shape(64, 4), &none));
  EXPECT_FALSE(kept->TakeFromAnnex(Shape(64, 4), &none));
  EXPECT_FALSE(kept->Take(Shape(64, 8), &none)) << "aligned requests have no length of their own";
  EXPECT_EQ(deepest, most);
}

TEST(KeptPlacesTest, TheLatestOfTheBoxComesFirstAndNoneTwice) {
  KeepAndTake(0, 30);
  KeepAndTake(6400, 130);
}

TEST(KeptPlacesTest, AShapeHasTheLengthThatWasNoted) {
  const auto kept = std::make_unique<KeptPlaces>();
  uint32_t taken = 0;
  ASSERT_TRUE(kept->Put(7, 3, /*in_annex=*/false));
  EXPECT_FALSE(kept->Take(Shape(32, 4), &taken));
  kept->NoteLength(Shape(32, 4), 3);
  ASSERT_TRUE(kept->Take(Shape(32, 4), &taken));
  EXPECT_EQ(taken, 7u);
}

}  // namespace
}  // namespace reprise::replay
