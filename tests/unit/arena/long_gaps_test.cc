// Long gaps against a look at all that is free.
#include "replay/arena/long_gaps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "replay/arena/block_set.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kLeast = LongGaps::kLeast;

// A part of a lane: what is taken, and its long gaps.
class Part {
 public:
  explicit Part(uint64_t granules)
      : units_(BlockSet::MemoryFor(granules) / sizeof(uint64_t)),
        entries_(LongGaps::MemoryFor() / sizeof(uint64_t)),
        part_{0, granules} {
    cover_.Attach(units_.data());
    gaps_.Attach(entries_.data(), &cover_);
    gaps_.AddAll(part_);
  }

  LongGaps& gaps() { return gaps_; }
  BlockSet& cover() { return cover_; }

  // Something for which nobody asked the gaps; any part of it may be freed.
  void Place(uint64_t begin, uint64_t granules) {
    for (uint64_t at = begin; at < begin + granules; ++at) cover_.Add(at, 1);
  }
  void NoteAnew() {
    gaps_.Clear();
    gaps_.AddAll(part_);
  }
  // The place of a block, from a multiple of `step` on; UINT64_MAX: there is none.
  uint64_t Take(uint64_t granules, uint64_t step = 1) {
    const auto align = [step](uint64_t from) { return (from + step - 1) / step * step; };
    uint64_t place;
    if (!gaps_.Take(granules, align, &place)) return UINT64_MAX;
    EXPECT_FALSE(cover_.HasAny(place, place + granules)) << "it is taken";
    Place(place, granules);
    return place;
  }
  void Free(uint64_t begin, uint64_t granules) {
    for (uint64_t at = begin; at < begin + granules; ++at) cover_.Remove(at, 1);
    gaps_.Freed({begin, begin + granules}, part_);
  }

  // The length of the shortest gap that is no shorter; UINT64_MAX: there is none.
  uint64_t Shortest(uint64_t granules) const {
    uint64_t shortest = UINT64_MAX;
    int32_t effort = INT32_MAX;
    for (uint64_t at = 0; cover_.FindGap(&at, part_.end, granules, 1, &effort);) {
      const uint64_t end = EndOfGap(at);
      shortest = std::min(shortest, end - at);
      at = end;
    }
    return shortest;
  }
  uint64_t EndOfGap(uint64_t at) const { return std::min(cover_.NextIn(at, part_.end), part_.end); }

 private:
  std::vector<uint64_t> units_;
  std::vector<uint64_t> entries_;
  BlockSet cover_;
  LongGaps gaps_;
  LongGaps::Range part_;
};

// Where there is a gap it is found; the shortest, where nothing else is placed.
TEST(LongGapsTest, ABlockTakesTheShortestThatIsLongEnough) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const bool others = seed % 2 != 0;
    Part part(1 << 14);  // no gap is longer than what is looked at around a block
    std::mt19937_64 random(seed);
    std::map<uint64_t, uint64_t> blocks;
    uint64_t taken = 0;
    for (int round = 0; round < 100000; ++round) {
      const uint64_t granules = kLeast + random() % 700;
      const uint64_t kind = random() % 8;
      if (kind < 2 && others) {  // a short block somewhere
        const uint64_t begin = random() % ((1 << 14) - 50);
        const uint64_t length = 1 + random() % 50;
        if (part.cover().HasAny(begin, begin + length)) continue;
        part.Place(begin, length);
        blocks[begin] = length;
      } else if (kind < 4) {
        const uint64_t shortest = part.Shortest(granules);
        const uint64_t place = part.Take(granules);
        ASSERT_EQ(place == UINT64_MAX, shortest == UINT64_MAX);
        if (place == UINT64_MAX) continue;
        if (!others) {
          ASSERT_TRUE(place == 0 || part.cover().Has(place - 1));
          ASSERT_EQ(part.EndOfGap(place + granules) - place, shortest);
        }
        blocks[place] = granules;
        ++taken;
      } else if (!blocks.empty()) {
        const auto which = std::next(blocks.begin(), random() % blocks.size());
        part.Free(which->first, which->second);
        blocks.erase(which);
      }
    }
    EXPECT_GT(taken, 10000u);
    for (const auto& [begin, granules] : blocks) part.Free(begin, granules);
    if (!others) {
      EXPECT_EQ(part.gaps().Count(), 1u);
    }
    EXPECT_EQ(part.Take(1 << 14), 0u);
    EXPECT_EQ(part.Take(kLeast), UINT64_MAX);
    EXPECT_EQ(part.gaps().Count(), 0u);
  }
}

// What is noted and was taken since is never given out, and what is left of it is found.
TEST(LongGapsTest, WhatWasTakenSinceIsNotGivenOut) {
  Part part(10 * kLeast);
  part.Place(2 * kLeast, 3);
  EXPECT_EQ(part.Take(4 * kLeast), 2 * kLeast + 3);
  EXPECT_EQ(part.Take(4 * kLeast), UINT64_MAX);
  EXPECT_EQ(part.Take(2 * kLeast), 0u);
  EXPECT_EQ(part.Take(3 * kLeast), 6 * kLeast + 3);
  EXPECT_EQ(part.gaps().Count(), 0u) << "what is left is short";
}

TEST(LongGapsTest, APlaceIsAlignedAsAskedFor) {
  Part part(4096);
  part.Place(0, 1);
  part.Place(700, 1);
  part.NoteAnew();  // gaps of 699 granules, and from 701 on
  EXPECT_EQ(part.Take(256, 512), 1024u) << "only the longer one has it";
  EXPECT_EQ(part.Take(256, 256), 768u) << "the shortest: what is before that block";
  EXPECT_EQ(part.Take(256, 256), 256u);
  EXPECT_EQ(part.Take(255), 1u) << "what is before an aligned block";
  EXPECT_EQ(part.Take(188), 512u) << "and behind it";
  EXPECT_EQ(part.Take(4096, 4096), UINT64_MAX);
  EXPECT_EQ(part.Take(1, uint64_t{1} << 50), UINT64_MAX);
}

// What is free behind a part's end or before its beginning is not the part's.
TEST(LongGapsTest, APartBeginsAndEnds) {
  Part part(1000);
  LongGaps& gaps = part.gaps();
  gaps.Clear();
  gaps.AddAll({0, 500});
  gaps.Freed({400, 600}, {0, 500});
  gaps.Freed({600, 800}, {0, 500});
  EXPECT_EQ(gaps.Count(), 1u);
  EXPECT_EQ(part.Take(501), UINT64_MAX);
  EXPECT_EQ(part.Take(500), 0u);

  Part longer(1 << 15);
  longer.gaps().Clear();
  longer.gaps().Freed({18000, 18200}, {1000, 1 << 15});
  EXPECT_EQ(longer.Take(kLeast), 1000u);
}

TEST(LongGapsTest, TheShortestAreForgottenWhenThereAreTooMany) {
  constexpr uint64_t kGaps = LongGaps::kMost + 100;
  Part part(kGaps * (kLeast + kGaps));
  std::vector<uint64_t> begins;
  uint64_t begin = 0;
  for (uint64_t i = 0; i < kGaps; ++i) {  // the i-th is i granules longer than the shortest
    begin += kLeast + i;
    part.Place(begin++, 1);
  }
  part.NoteAnew();
  EXPECT_EQ(part.gaps().Count(), LongGaps::kMost);
  EXPECT_FALSE(part.gaps().HasAll());
  EXPECT_NE(part.Take(kLeast + kGaps - 1), UINT64_MAX);
  EXPECT_NE(part.Take(kLeast), UINT64_MAX) << "of one that is longer";
  part.Free(kLeast, 1);
  EXPECT_EQ(part.Take(2 * kLeast + 2), 0u) << "the first two, now one";
  EXPECT_FALSE(part.gaps().HasAll()) << "although there is room again";
  part.Place(0, kGaps * kLeast);
  part.NoteAnew();
  EXPECT_TRUE(part.gaps().HasAll());
}

TEST(LongGapsTest, TheLongestAreToldFirst) {
  Part part(10000);
  for (const uint64_t at : {1000, 1500, 4500, 6500}) part.Place(at, 1);
  part.NoteAnew();
  std::vector<uint64_t> begins;
  part.gaps().EachLongest(1000, [&](LongGaps::Range gap) {
    EXPECT_EQ(gap.end, part.EndOfGap(gap.begin));
    begins.push_back(gap.begin);
    return true;
  });
  EXPECT_EQ(begins, (std::vector<uint64_t>{6501, 1501, 4501, 0}));
  begins.clear();
  part.gaps().EachLongest(1, [&](LongGaps::Range gap) {
    begins.push_back(gap.begin);
    return begins.size() < 2;
  });
  EXPECT_EQ(begins, (std::vector<uint64_t>{6501, 1501}));
}

// Far and wide everything is freed, one block behind the other: that is one gap, not one for each
// block, although all of it is not looked at each time.
TEST(LongGapsTest, WhatIsFreedInARowIsOneGap) {
  constexpr uint64_t kGranules = 1 << 20;
  constexpr uint64_t kBlock = 200;
  constexpr uint64_t kBlocks = kGranules / kBlock;
  for (const bool upwards : {true, false}) {
    Part part(kGranules);
    part.Place(0, kGranules);
    part.NoteAnew();
    for (uint64_t i = 0; i < kBlocks; ++i) {
      part.Free((upwards ? i : kBlocks - 1 - i) * kBlock, kBlock);
    }
    EXPECT_LE(part.gaps().Count(), kGranules / (1 << 14) + 1);
    EXPECT_NE(part.Take(1 << 14), UINT64_MAX);
  }
}

}  // namespace
}  // namespace reprise::replay
