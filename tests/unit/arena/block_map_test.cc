#include "replay/arena/block_map.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/effort.h"

namespace reprise::replay {
namespace {

TEST(BlockMapTest, TellsOfBlocksAsAMapOfIntervalsDoes) {
  constexpr uint64_t kGranules = 2000;
  for (uint64_t seed = 1; seed <= Rounds(20); ++seed) {
    std::vector<uint64_t> memory(BlockMap::MemoryFor(kGranules) / 8);
    BlockMap map;
    map.Attach(memory.data());
    std::map<uint64_t, MappedBlock> model;
    std::mt19937_64 random(seed);
    const uint64_t most = seed % 2 == 0 ? 300 : 20;
    const auto next_in = [&](uint64_t from, uint64_t end) {
      auto next = model.upper_bound(from);
      if (next != model.begin()) {
        const auto& [begin, block] = *std::prev(next);
        if (begin + block.granules > from) return from;
      }
      return next == model.end() || next->first > end ? end : next->first;
    };
    for (int step = 0; step < 3000; ++step) {
      const uint64_t begin = random() % kGranules;
      const uint64_t granules = std::min(1 + random() % most, kGranules - begin);
      const bool is_free = next_in(begin, begin + granules) == begin + granules;
      ASSERT_EQ(map.HasAny(begin, begin + granules), !is_free);
      ASSERT_EQ(map.NextIn(begin, begin + granules), next_in(begin, begin + granules));
      if (granules <= BlockMap::kUnit) {
        ASSERT_EQ(map.HasAnyOfFew(begin, granules), !is_free);
      }
      if (is_free && random() % 3 != 0) {
        const bool marked = random() % 2 == 0;
        map.Add(begin, granules, marked);
        model[begin] = {granules, marked};
      } else if (!model.empty()) {
        auto any = model.lower_bound(begin);
        if (any == model.end()) any = model.begin();
        map.Remove(any->first, any->second.granules);
        model.erase(any);
      }
      const uint64_t asked = random() % kGranules;
      const MappedBlock block = random() % 2 == 0 ? map.At(asked) : map.SeenAt(asked);
      const auto known = model.find(asked);
      ASSERT_EQ(block.granules, known == model.end() ? 0 : known->second.granules) << asked;
      ASSERT_TRUE(known == model.end() || known->second.marked == block.marked) << asked;
    }
  }
}

TEST(BlockMapTest, FindsRunsInAWord) {
  std::mt19937_64 random(1);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t free =
        (random() & random()) | (step % 5 == 0 ? ~uint64_t{0} << random() % 64 : 0);
    uint64_t longest = 0;
    for (uint64_t length = 1; length <= 64; ++length) {
      uint64_t runs = 0;
      for (uint64_t at = 0; at + length <= 64; ++at) {
        const uint64_t mask = ~uint64_t{0} >> (64 - length) << at;
        if ((free & mask) == mask) runs |= uint64_t{1} << at;
      }
      ASSERT_EQ(BlockMap::Runs(free, length), runs) << length;
      if (runs != 0) longest = length;
    }
    ASSERT_EQ(BlockMap::LongestRun(free), longest);
  }
}

}  // namespace
}  // namespace reprise::replay
