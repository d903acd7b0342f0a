// Sets of granules against a vector of bools.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "replay/arena/granule_set.h"

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
    const auto out = std::find(model.begin() + begin, model.begin() + end, false);
    ASSERT_EQ(set.RunEnd(begin, starts, end), static_cast<uint64_t>(out - model.begin()));
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

}  // namespace
}  // namespace reprise::replay
