// The numbers of `reprise info`, against a plain recount.
#include "trace/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tests/unit/trace/random_recording.h"

namespace reprise::trace {
namespace {

TEST(TraceStatistics, SizesRoundUp) {
  EXPECT_EQ(BlockBytes(0), 16);
  EXPECT_EQ(BlockBytes(1), 16);
  EXPECT_EQ(BlockBytes(16), 16);
  EXPECT_EQ(BlockBytes(17), 32);
  EXPECT_EQ(BlockBytes(UINT64_MAX), UINT64_MAX - 15);
  EXPECT_EQ(BlockBytes(5, 1), 5);
}

TEST(TraceStatistics, SmallExample) {
  Recording recording;
  recording.threads.resize(1);
  recording.sites.resize(2);
  recording.sites[1].offset = 8;
  recording.events = 5;
  recording.allocations.resize(3);
  recording.allocations[0] =
      Allocation{.birth = 0, .death = 2, .size = 100, .site = 0, .free_thread = 0};
  recording.allocations[1] =
      Allocation{.birth = 1, .death = 4, .size = 0, .site = 1, .free_thread = 0};
  recording.allocations[2] = Allocation{.birth = 3, .size = 50, .site = 0};
  const Statistics statistics = ComputeStatistics(recording, 10);
  EXPECT_EQ(statistics.buffers, 3);
  EXPECT_EQ(statistics.frees, 2);
  EXPECT_EQ(statistics.max_load, 112 + 16);
  EXPECT_EQ(statistics.peak_event, 1);
  EXPECT_EQ(statistics.requested_max_load, 100);
  EXPECT_EQ(statistics.sum_bytes, 150);
  EXPECT_EQ(statistics.never_freed_bytes, 50);
  EXPECT_EQ(statistics.sizes[0], 1);
  EXPECT_EQ(statistics.sizes[6], 1);
  EXPECT_EQ(statistics.sizes[7], 1);
  EXPECT_EQ(statistics.lifetimes[2], 2);
  ASSERT_EQ(statistics.top_sites.size(), 2);
  EXPECT_EQ(statistics.top_sites[0].site, 0);
  EXPECT_EQ(statistics.top_sites[0].bytes, 112);
  EXPECT_EQ(statistics.top_sites[1].blocks, 1);
}

TEST(TraceStatistics, AgainstARecount) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Recording recording = RandomRecording(seed, 400);
    uint64_t highest = 0;
    uint64_t peak = 0;
    for (uint64_t index = 0; index < recording.events; ++index) {
      uint64_t load = 0;
      for (const Allocation& a : recording.allocations) {
        if (a.birth <= index && a.death > index) load += BlockBytes(a.size);
      }
      if (load > highest) {
        highest = load;
        peak = index;
      }
    }
    const Statistics statistics = ComputeStatistics(recording, 1000);
    EXPECT_EQ(statistics.max_load, highest);
    EXPECT_EQ(statistics.peak_event, peak);
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> sites;
    for (const Allocation& a : recording.allocations) {
      if (a.birth > peak || a.death <= peak) continue;
      const Site site = a.site == kNone ? Site{.offset = UINT64_MAX} : recording.sites[a.site];
      sites[{site.module, site.offset}] += BlockBytes(a.size);
    }
    std::vector<uint64_t> expected;
    for (const auto& [site, bytes] : sites) expected.push_back(bytes);
    std::sort(expected.rbegin(), expected.rend());
    std::vector<uint64_t> actual;
    for (const SitePeak& site : statistics.top_sites) actual.push_back(site.bytes);
    EXPECT_EQ(actual, expected) << seed;
  }
}

}  // namespace
}  // namespace reprise::trace
