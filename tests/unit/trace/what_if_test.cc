#include "trace/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "trace/reader.h"
#include "trace/statistics.h"

namespace reprise::trace {
namespace {

Recording RandomSites(unsigned seed) {
  std::mt19937 random(seed);
  Recording recording;
  recording.modules = {{"/bin/x", "", 0}};
  recording.sites = {{0, 16, 1}, {0, 16, 2}, {0, 32, 1}, {0, 48, 1}};
  recording.threads = {{1, kNone, {}, 0, 0}};
  std::vector<uint32_t> live;
  for (uint64_t event = 0; event < 400; ++event) {
    if (!live.empty() && random() % 5 < 2) {
      const size_t i = random() % live.size();
      recording.allocations[live[i]].death = event;
      recording.allocations[live[i]].free_thread = 0;
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      live.push_back(static_cast<uint32_t>(recording.allocations.size()));
      Allocation it;
      it.birth = event;
      it.size = random() % 1000;
      it.site = static_cast<uint32_t>(random() % 5);
      if (it.site == 4) it.site = kNone;
      recording.allocations.push_back(it);
    }
  }
  recording.events = 400;
  return recording;
}

// The most bytes of blocks for which `counts` holds, over `from` <= event <= `to`.
template <typename Counts>
uint64_t Most(const Recording& recording, uint64_t from, uint64_t to, Counts counts) {
  uint64_t most = 0;
  for (uint64_t event = from; event <= to && event < recording.events; ++event) {
    uint64_t load = 0;
    for (const Allocation& it : recording.allocations) {
      if (it.birth <= event && event < it.death && counts(it, event)) load += BlockBytes(it.size);
    }
    most = std::max(most, load);
  }
  return most;
}

TEST(WhatIfTest, AgreesWithCountingEveryBlockAtEveryEvent) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const Recording recording = RandomSites(seed);
    WhatIfBuilder builder(recording, {0, 2, kNone, 1, 3});  // 0 and 1 are one place
    ForEachEvent(recording, [&](const Event& event) { builder.Add(event); });
    const std::vector<WhatIf> results = builder.Finish();
    ASSERT_EQ(results.size(), 3u);
    for (const WhatIf& it : results) {
      const uint64_t place = recording.sites[it.site].offset;
      const auto own = [&](const Allocation& block) {
        return block.site != kNone && recording.sites[block.site].offset == place;
      };
      uint64_t begin = recording.events, end = 0;
      for (const Allocation& block : recording.allocations) {
        if (!own(block)) continue;
        begin = std::min(begin, block.birth);
        end = std::max(end, block.death == kNever ? recording.events : block.death);
      }
      const auto mine = [&](const Allocation& block, uint64_t) { return own(block); };
      const auto others = [&](const Allocation& block, uint64_t) { return !own(block); };
      const auto at_once = [&](const Allocation& block, uint64_t event) {
        return !own(block) || block.birth == event;
      };
      const uint64_t last = recording.events - 1;
      const uint64_t peak = Most(recording, 0, last, mine);
      EXPECT_EQ(it.peak_bytes, peak);
      EXPECT_EQ(it.freed_at_once, Most(recording, 0, last, at_once));
      EXPECT_EQ(it.pooled, peak + Most(recording, 0, last, others));
      EXPECT_EQ(it.own_lane, std::max(Most(recording, 0, last, others),
                                      peak + Most(recording, begin, end, others)));
    }
  }
}

TEST(WhatIfTest, NothingAskedNothingAnswered) {
  const Recording recording = RandomSites(1);
  WhatIfBuilder builder(recording, {});
  ForEachEvent(recording, [&](const Event& event) { builder.Add(event); });
  EXPECT_TRUE(builder.Finish().empty());
}

}  // namespace
}  // namespace reprise::trace
