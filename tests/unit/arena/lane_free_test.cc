// Where a lane puts what its stream does not tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

// A lane's box and annex need be no more aligned than to pages: one of these two boxes is not.
TEST(LaneTest, ABlockThatIsImprovisedIsAlignedToMoreThanAPage) {
  trace::Recording recording = RecordingOf({{0, 3, 17 << 12}, {1, 2, 17 << 12}});
  recording.threads.push_back({2, trace::kNone, 0, 0});
  recording.allocations[1].thread = recording.allocations[1].free_thread = 1;
  ServedPlan plan(recording);
  for (const uint64_t path : {1, 2}) {
    Lane* lane = plan.arena().Take(path, 0, 0);
    ASSERT_NE(lane, nullptr);
    const auto allocate_some = [lane] {
      for (const uint64_t size : {16, 4096, 8192}) {
        for (unsigned log2 = 13; log2 < 17; ++log2) {
          char* block = Allocate(lane, size, log2, 0x7000);
          EXPECT_EQ(reinterpret_cast<uint64_t>(block) % (uint64_t{1} << log2), 0u) << log2;
          EXPECT_TRUE(block == nullptr || lane->Free(block));
        }
      }
    };
    // Places that were freed in the annex, while the lane follows its stream.
    std::vector<char*> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(lane, 8192, 4, 0x7000));
    for (char* block : blocks) EXPECT_TRUE(lane->Free(block));
    allocate_some();
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x7000)));
    ASSERT_TRUE(lane->running_free());
    allocate_some();
    EXPECT_TRUE(lane->Empty());
  }
}

// The only gap for a long block is full of short ones that were freed. It is used all the same, and
// noted as no miss of the plan's, which was not asked.
TEST(LaneTest, KeptPlacesGiveWayToALongBlock) {
  constexpr uint64_t kLong = 3 << 20;
  constexpr uint64_t kOtherSite = 0x7000;
  const trace::Recording recording = RecordingOf({{0, 1, kLong}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  const auto unexpected = [&] {
    uint64_t sum = 0;
    for (const NotePage& page : plan.notes()) {
      for (const auto& set : page.misses) {
        for (const MissNote& miss : set) {
          sum += miss.site == kOtherSite && miss.shape == Shape(kLong, 4) ? miss.unexpected : 0;
        }
      }
    }
    return sum;
  };
  for (const uint64_t site : {SiteWordOf(recording, recording.allocations[0]), kOtherSite}) {
    std::vector<char*> blocks;
    for (uint64_t granules = 40; granules < 64; ++granules) {
      for (int i = 0; i < 40; ++i) {
        blocks.push_back(Allocate(lane, granules * kGranule, 4, 0x8000));
      }
    }
    for (char* block : blocks) EXPECT_TRUE(lane->Free(block));
    const uint64_t improvised = plan.counters(0).Improvised();
    char* block = Allocate(lane, kLong, 4, site);
    EXPECT_EQ(block, lane->room().box);
    EXPECT_EQ(plan.counters(0).Improvised() - improvised, 1u);
    EXPECT_EQ(unexpected(), 0u);
    EXPECT_TRUE(lane->Free(block));
  }
  EXPECT_TRUE(lane->Empty());
}

// The one gap of the box that is long enough lies behind many that are not.
TEST(LaneTest, LooksForAGapBeforeItUsesMoreOfTheAnnex) {
  constexpr uint64_t kBlock = 4096;
  const trace::Recording recording = RecordingOf({{0, 1, 1024 * kBlock}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  std::map<char*, size_t> in_box;
  while (in_box.size() < 1000) {
    char* block = Allocate(lane, kBlock, 4, 0x7000);
    ASSERT_NE(block, nullptr);
    if (lane->Contains(block)) in_box[block];
  }
  size_t number = 0;
  for (const auto& [block, unused] : in_box) {
    const bool in_long_gap = number >= 900 && number < 940;
    if (in_long_gap || (number < 800 && number % 2 == 0)) {
      EXPECT_TRUE(lane->Free(block));
    }
    ++number;
  }
  const uint64_t annex_bytes = plan.counters(0).annex_bytes;
  EXPECT_TRUE(lane->Contains(Allocate(lane, 32 * kBlock, 4, 0x7000)));
  EXPECT_EQ(plan.counters(0).annex_bytes, annex_bytes);
}

// The plan has a short block behind a long one, which the run does not have. In a small lane that
// place would cut in two what is free.
TEST(LaneTest, AShortBlockOfASmallLaneLeavesLongGapsWhole) {
  constexpr uint64_t kBox = 1 << 20;
  const trace::Recording recording = RecordingOf({{0, 2, kBox / 4}, {1, 3, 48}, {4, 5, kBox}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  const uint64_t annex_bytes = plan.counters(0).annex_bytes;
  char* block = Allocate(lane, 48, 4, SiteWordOf(recording, recording.allocations[1]));
  EXPECT_TRUE(lane->Contains(block));
  EXPECT_TRUE(lane->Contains(Allocate(lane, kBox - 4096, 4, 0x8000)));
  EXPECT_EQ(plan.counters(0).annex_bytes, annex_bytes);
}

// The box is full but for short blocks that were freed: such a share of it, in which a block of so
// many bytes has room that is asked for next. The annex that it uses.
uint64_t AnnexUsedBehindFreed(uint64_t share, uint64_t bytes) {
  constexpr uint64_t kBox = 4 << 20;
  const trace::Recording recording = RecordingOf({{0, 1, kBox}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  EXPECT_TRUE(lane->running_free());
  std::map<char*, size_t> in_box;
  for (bool more = true; more;) {
    char* block = Allocate(lane, 64, 4, 0x7000);
    if (block == nullptr) return UINT64_MAX;
    more = lane->Contains(block) || in_box.empty();
    if (lane->Contains(block)) in_box[block];
  }
  size_t number = 0;
  for (const auto& [block, unused] : in_box) {
    if (++number <= kBox / 64 / share) {
      EXPECT_TRUE(lane->Free(block));
    }
  }
  const uint64_t annex_bytes = plan.counters(0).annex_bytes;
  EXPECT_NE(Allocate(lane, bytes, 4, 0x7000), nullptr);
  return plan.counters(0).annex_bytes - annex_bytes;
}

// Much less than an eighth, for short blocks and long ones; but not very little.
TEST(LaneTest, ReleasesKeptPlacesBeforeItUsesMoreOfTheAnnex) {
  for (const uint64_t bytes : {1008, 2064}) {
    EXPECT_EQ(AnnexUsedBehindFreed(64, bytes), 0u) << bytes;
    EXPECT_GT(AnnexUsedBehindFreed(256, bytes), 0u) << bytes;
  }
  EXPECT_EQ(AnnexUsedBehindFreed(16, 128 << 10), 0u);
}

// A box full of holes that are too short: to look through them for each request is more than the
// budget allows.
TEST(LaneTest, ARequestWithoutABudgetTakesUnusedAnnex) {
  const trace::Recording recording = RecordingOf({{0, 1, 2 << 20}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  EXPECT_TRUE(lane->running_free());
  std::vector<char*> in_box;
  for (bool more = true; more;) {
    char* block = Allocate(lane, 32, 4, 0x7000);
    more = lane->Contains(block) || in_box.empty();
    if (lane->Contains(block)) in_box.push_back(block);
  }
  std::sort(in_box.begin(), in_box.end());
  for (size_t i = 0; i < in_box.size(); i += 2) EXPECT_TRUE(lane->Free(in_box[i]));
  // What the box's pages took of the budget, which were idle at first, is earned again: else the
  // lane rests sooner.
  for (int i = 0; i < 100'000; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 32, 4, 0x7000)));
  for (int i = 0; i < 1000; ++i) {
    char* block = Allocate(lane, 33 * kGranule, 4, 0x7000);
    ASSERT_NE(block, nullptr) << i;
    EXPECT_FALSE(lane->Contains(block));
  }
}

// Where nothing else is asked for, too, their places in the annex are taken again and again.
TEST(LaneTest, LongBlocksInTheAnnexTakeNoMoreOfIt) {
  constexpr uint64_t kBlock = 160 * kGranule;
  ServedPlan plan(RecordingOf({{0, 1, 4 << 20}}));
  Lane* lane = plan.arena().Take(1, 0, 0);
  while (!lane->running_free()) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  std::vector<char*> blocks;
  while (blocks.empty() || lane->Contains(blocks.back())) {
    blocks.push_back(Allocate(lane, kBlock, 4, 0x7000));
  }
  const uint64_t used = plan.counters(0).annex_bytes;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_TRUE(lane->Free(blocks.back()));
    blocks.back() = Allocate(lane, kBlock, 4, 0x7000);
  }
  EXPECT_EQ(plan.counters(0).annex_bytes, used);
}

// What lies free at the end of the annex is a part of the next longer block.
TEST(LaneTest, ALongerBlockTakesWhatIsFreeAtTheEndOfTheAnnex) {
  constexpr uint64_t kBox = 4 << 20;
  constexpr uint64_t kBlock = 256 << 10;
  ServedPlan plan(RecordingOf({{0, 1, kBox}}));
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  ASSERT_TRUE(lane->Contains(Allocate(lane, kBox, 4, 0x7000)));
  char* const first = Allocate(lane, kBlock, 4, 0x7000);
  char* const last = Allocate(lane, kBlock, 4, 0x7000);
  const uint64_t used = plan.counters(0).annex_bytes;
  EXPECT_TRUE(lane->Free(last));
  EXPECT_EQ(Allocate(lane, 2 * kBlock, 4, 0x7000), last);
  EXPECT_EQ(plan.counters(0).annex_bytes, used + kBlock);
  EXPECT_EQ(Allocate(lane, kBlock, 4, 0x7000), last + 2 * kBlock);
  EXPECT_TRUE(lane->Free(first));
  EXPECT_EQ(Allocate(lane, kBlock, 4, 0x7000), first);
  EXPECT_EQ(plan.counters(0).annex_bytes, used + 2 * kBlock);
}

// All of them in what is free, one behind the other.
TEST(LaneTest, MorePlacesAreMadeOfAGapEachTime) {
  const trace::Recording recording = RecordingOf({{0, 1, 3 << 20}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  while (!lane->running_free()) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  std::vector<uint64_t> batches;
  uint64_t latest = plan.counters(0).Improvised();
  std::map<char*, size_t> blocks;
  for (int i = 0; i < 3 * 32; ++i) {
    char* block = Allocate(lane, 48, 4, 0x7000);
    if (plan.counters(0).Improvised() != latest) {
      batches.push_back(plan.counters(0).Improvised() - latest);
      latest = plan.counters(0).Improvised();
    }
    if (blocks.size() % 8 != 0) {
      EXPECT_EQ(blocks.count(block - 48), 1u) << i;
    }
    EXPECT_TRUE(blocks.emplace(block, 48).second);
  }
  EXPECT_EQ(batches, (std::vector<uint64_t>{8, 16, 32, 32, 32}));
  for (const auto& [block, length] : blocks) EXPECT_TRUE(lane->Free(block));
  EXPECT_TRUE(lane->Empty());
}

// The longest request that the hooks pass on: no gap can be noted that is as long.
TEST(LaneTest, ARequestThatNoArenaHasRoomForIsRefused) {
  const trace::Recording recording = RecordingOf({{0, 1, 64}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  constexpr uint64_t kLongest = uint64_t{1} << 39;
  EXPECT_EQ(Allocate(lane, kLongest, 4, 0x7000), nullptr);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  EXPECT_EQ(Allocate(lane, kLongest, 4, 0x7000), nullptr);
  EXPECT_TRUE(lane->Empty());
}

// Nothing is live in an annex in which a short block was freed.
TEST(LaneTest, KeptPlacesOfTheAnnexGiveWay) {
  const trace::Recording recording = RecordingOf({{0, 1, 64}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  char* shorter = Allocate(lane, 16, 4, 0x7000);
  ASSERT_EQ(shorter, lane->room().annex);
  EXPECT_TRUE(lane->Free(shorter));
  char* longer = Allocate(lane, lane->room().annex_bytes, 4, 0x7000);
  EXPECT_EQ(longer, lane->room().annex);
  EXPECT_FALSE(lane->running_free());
  EXPECT_TRUE(lane->Free(longer));
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

// Aligned requests get no place that is kept. Those that their blocks leave must not fill the
// annex.
TEST(LaneTest, PlacesOfALengthThatIsOnlyFreedGiveWay) {
  const trace::Recording recording = RecordingOf({{0, 1, 1024}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  for (int i = 0; i < 100'000; ++i) {
    char* block = Allocate(lane, 64, 6, 0x7000);
    ASSERT_NE(block, nullptr) << i;
    ASSERT_TRUE(lane->Free(block));
  }
  EXPECT_LT(plan.counters(0).annex_bytes, lane->room().annex_bytes / 4);
  EXPECT_TRUE(lane->Empty());
}

// With the first block of a kind the next places that the plan has for it are kept, and none twice.
TEST(LaneTest, PlacesOfThePlanAreKeptAhead) {
  constexpr uint64_t kBlocks = 40;
  std::vector<Made> made;
  for (uint64_t i = 0; i < kBlocks; ++i) made.push_back({i, kBlocks + i, 48});
  trace::Recording recording = RecordingOf(made);
  for (trace::Allocation& allocation : recording.allocations) allocation.site = 0;
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  ASSERT_TRUE(lane->running_free());
  const uint64_t improvised = plan.counters(0).Improvised();
  std::set<char*> blocks;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    char* block = Allocate(lane, 48, 4, SiteWordOf(recording, recording.allocations[0]));
    EXPECT_TRUE(lane->Contains(block)) << i;
    EXPECT_TRUE(blocks.insert(block).second) << i;
  }
  // What was improvised before stands on one or two of them.
  EXPECT_LE(plan.counters(0).Improvised(), improvised + 8);
  for (char* block : blocks) EXPECT_TRUE(lane->Free(block));
  EXPECT_TRUE(lane->Empty());
}

// Blocks that another thread frees later than planned are in the way of the next ones, which need
// memory beside the box. Where that is much the lane leaves its stream: most of the box is free, as
// the plan needs it for something else later. What the thread itself keeps is no reason to.
TEST(LaneTest, ManyBlocksThatOtherThreadsAreLateToFreeOpenTheBox) {
  constexpr uint64_t kBlocks = 64;
  std::vector<Made> made;
  for (uint64_t i = 0; i < 2 * kBlocks; ++i) {
    const uint64_t birth = i < kBlocks ? i : kBlocks + i;
    made.push_back({birth, birth + kBlocks, 4096});
  }
  made.push_back({4 * kBlocks, 4 * kBlocks + 1, 8 << 20});
  for (const bool own : {false, true}) {
    trace::Recording recording = RecordingOf(made);
    recording.threads.push_back({2, trace::kNone, 0, 0});
    for (uint64_t i = 0; i < kBlocks && !own; ++i) recording.allocations[i].free_thread = 1;
    for (const uint64_t late : {kBlocks / 16, kBlocks}) {
      ServedPlan plan(recording);
      Lane* lane = plan.arena().Take(1, 0, 0);
      std::vector<char*> live;
      const auto free_latest = [&] {
        if (own) {
          EXPECT_TRUE(lane->Free(live.back()));
        } else {
          lane->FreeRemotely(live.back());
        }
        live.pop_back();
      };
      for (uint64_t i = 0; i < 2 * kBlocks; ++i) {
        while (i == kBlocks && live.size() > late) free_latest();
        live.push_back(
            Allocate(lane, made[i].size, 4, SiteWordOf(recording, recording.allocations[i])));
      }
      EXPECT_EQ(lane->running_free(), late == kBlocks && !own);
      EXPECT_LE(plan.counters(0).annex_bytes, own ? late * 4096 : (16 << 10) + 4096);
      std::sort(live.begin(), live.end());
      for (size_t i = 1; i < live.size(); ++i) EXPECT_GE(live[i], live[i - 1] + 4096);
      while (!live.empty()) free_latest();
      EXPECT_TRUE(lane->Empty());
      EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
    }
  }
}

// Where a thread does something else from its beginning, the words so far are few and the
// placements many: which blocks are live is told by the words.
TEST(LaneTest, LeavesItsStreamWithoutALookAtThePlacements) {
  std::vector<Made> made = {{0, 9, 48},      {1, 3, 3 << 20}, {2, 9, 48},
                            {4, 9, 1 << 20}, {5, 9, 48},      {6, 9, 48}};
  for (uint64_t i = 10; made.size() < 2 * kSampled; i += 2) made.push_back({i, i + 1, 48});
  const trace::Recording recording = RecordingOf(made);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const auto allocate = [&](size_t i) {
    const trace::Allocation& allocation = recording.allocations[i];
    return Allocate(lane, allocation.size, 4, SiteWordOf(recording, allocation));
  };
  std::map<char*, uint64_t> live;  // and their lengths
  char* first = allocate(0);
  char* passing = allocate(1);
  live[allocate(2)] = 48;
  EXPECT_TRUE(lane->Free(passing));
  live[allocate(3)] = 1 << 20;
  EXPECT_TRUE(lane->Free(first)) << "earlier than planned";
  live[allocate(5)] = 48;  // not the one before
  plan.HidePlacements();
  for (int i = 0; !lane->running_free(); ++i) {
    ASSERT_LT(i, 200);
    live[Allocate(lane, 64, 4, 0x8000)] = 64;
  }
  for (int i = 0; i < 1000; ++i) live[Allocate(lane, 32 << (i % 9), 4, 0x8000)] = 32 << (i % 9);
  char* end = nullptr;
  for (const auto& [block, length] : live) {
    EXPECT_GE(block, end);
    EXPECT_EQ(lane->Usable(block), length);
    end = block + length;
  }
  for (const auto& [block, length] : live) EXPECT_TRUE(lane->Free(block));
  EXPECT_FALSE(lane->Free(first));
  EXPECT_TRUE(lane->Empty());
}

// Short or long, in the box or in the annex; no other address is taken for a block's.
TEST(LaneTest, ABlockOfALaneThatRunsFreeIsToldByItsAddress) {
  ServedPlan plan(RecordingOf({{0, 1, 3 << 20}}));
  for (const bool spare : {true, false}) {
    plan.Restart(spare);
    Lane* lane = plan.arena().Take(1, 0, 0);
    while (!lane->running_free()) {
      char* block = Allocate(lane, 16, 4, 0x8000);
      EXPECT_TRUE(block == nullptr || lane->Free(block));
    }
    char* const annex = lane->room().annex;
    char* const annex_end = annex + lane->room().annex_bytes;
    bool in_annex = false;
    for (uint64_t i = 0; i < 40 * 210; ++i) {
      const uint64_t granules = 1 + i % 210;
      const uint64_t length = granules * kGranule;
      char* block = Allocate(lane, length, 4, 0x8000);
      if (block == nullptr) continue;
      in_annex = in_annex || block >= annex;
      EXPECT_EQ(lane->Usable(block), length);
      EXPECT_EQ(lane->UsableFreely(block), granules <= 64 ? length : lane->UsableFreely(block));
      for (char* none : {block + 1, block + 8, block + length - 8}) {
        EXPECT_EQ(lane->UsableFreely(none), 0u);
        EXPECT_FALSE(lane->FreeFreely(none));
      }
      if (i / 210 % 4 != 0) continue;  // it stays
      EXPECT_TRUE(lane->FreeFreely(block)) << granules;
      EXPECT_FALSE(lane->Free(block)) << granules;
    }
    EXPECT_EQ(in_annex, spare);
    for (char* none : {lane->room().box - kGranule, annex_end}) {
      EXPECT_EQ(lane->UsableFreely(none), 0u);
      EXPECT_FALSE(lane->FreeFreely(none));
      EXPECT_FALSE(lane->FreeKeptQuickly(none));
    }
  }
}

// The place that was freed last stands apart: nobody may free it again, whoever freed it, and two
// blocks never have it.
TEST(LaneTest, ThePlaceFreedLastIsFreedOnceAndTakenOnce) {
  constexpr uint64_t kLength = 64;
  const uint64_t shape = PlainShape(kLength);
  ServedPlan plan(RecordingOf({{0, 1, 3 << 20}}));
  Lane* lane = plan.arena().Take(1, 0, 0);
  while (!lane->running_free()) {
    EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
  }
  std::vector<char*> others;
  for (int i = 0; i < 8; ++i) others.push_back(Allocate(lane, kLength, 4, 0x8000));
  char* block = others.back();
  others.pop_back();
  const auto invalid_frees = [&] { return plan.counters(0).invalid_frees; };
  const auto is_freed = [&] {
    EXPECT_FALSE(lane->FreeKeptQuickly(block));
    EXPECT_FALSE(lane->Free(block));
    lane->FreeRemotely(block);
    const uint64_t before = invalid_frees();
    lane->Drain();
    EXPECT_EQ(invalid_frees(), before + 1);
    std::set<char*> blocks(others.begin(), others.end());
    for (int i = 0; i < 40; ++i) {
      auto* next = static_cast<char*>(lane->AllocateKeptQuickly(shape));
      if (next == nullptr) next = Allocate(lane, kLength, 4, 0x8000);
      EXPECT_TRUE(blocks.insert(next).second) << "two blocks have one place";
    }
    for (char* other : others) blocks.erase(other);
    for (char* other : blocks) EXPECT_TRUE(lane->Free(other));
  };
  // Freed as itself, or taken in between and then freed in each of the ways that there are.
  const auto take_again = [&] {
    EXPECT_TRUE(lane->FreeKeptQuickly(block));
    EXPECT_EQ(lane->AllocateKeptQuickly(shape), block);
    EXPECT_EQ(lane->Usable(block), kLength);
  };
  const auto allocate = [&] {
    block = Allocate(lane, kLength, 4, 0x8000);
    ASSERT_NE(block, nullptr);
  };
  EXPECT_TRUE(lane->FreeKeptQuickly(block));
  is_freed();
  allocate();
  take_again();
  EXPECT_TRUE(lane->FreeKeptQuickly(block));
  is_freed();
  allocate();
  take_again();
  EXPECT_TRUE(lane->Free(block));
  is_freed();
  allocate();
  take_again();
  lane->FreeRemotely(block);
  lane->Drain();
  is_freed();
  // While it stands apart, by another thread.
  allocate();
  EXPECT_TRUE(lane->FreeKeptQuickly(block));
  lane->FreeRemotely(block);
  const uint64_t before = invalid_frees();
  lane->Drain();
  EXPECT_EQ(invalid_frees(), before + 1);
  is_freed();
  for (char* other : others) EXPECT_TRUE(lane->FreeKeptQuickly(other));
  EXPECT_TRUE(lane->Empty());
}

// Once the place freed last is part of a longer block, that one is freed as what it is.
TEST(LaneTest, ThePlaceFreedLastBecomesPartOfOthers) {
  constexpr uint64_t kLong = 3 << 20;
  const trace::Recording recording = RecordingOf({{0, 1, kLong}});
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  for (const bool taken : {false, true}) {
    ServedPlan plan(recording);
    Lane* lane = plan.arena().Take(1, 0, 0);
    while (!lane->running_free()) {
      EXPECT_TRUE(lane->Free(Allocate(lane, 16, 4, 0x8000)));
    }
    // So many that places of theirs give way to the long block.
    std::map<char*, uint64_t> blocks;
    for (uint64_t granules = 40; granules < 64; ++granules) {
      for (int i = 0; i < 40; ++i) {
        blocks[Allocate(lane, granules * kGranule, 4, 0x8000)] = granules;
      }
    }
    const auto [first, granules] = *blocks.begin();
    ASSERT_EQ(first, lane->room().box);
    blocks.erase(first);
    for (const auto& [block, unused] : blocks) EXPECT_TRUE(lane->Free(block));
    EXPECT_TRUE(lane->FreeKeptQuickly(first));
    if (taken) {
      EXPECT_EQ(lane->AllocateKeptQuickly(PlainShape(granules * kGranule)), first);
      EXPECT_TRUE(lane->Free(first));
    }
    char* block = Allocate(lane, kLong, 4, site);
    EXPECT_EQ(block, first);
    EXPECT_FALSE(lane->FreeKeptQuickly(block)) << "it is longer";
    char* other = Allocate(lane, 64, 4, 0x8000);
    EXPECT_FALSE(lane->Contains(other));
    EXPECT_TRUE(lane->Free(other));
    EXPECT_TRUE(lane->Free(block));
    EXPECT_TRUE(lane->Empty());
  }
}

// The places of a kind of request have the length that its first key has, which may be too long for
// one at the end of the box. No block is in the way there.
TEST(LaneTest, NothingIsInTheWayBehindTheBox) {
  trace::Recording recording = RecordingOf({{0, 1, 4090}, {2, 3, 4090}, {4, 5, 4090}});
  for (trace::Allocation& allocation : recording.allocations) allocation.site = 0;
  recording.usable_answers = {{0, 4100}, {1, 4100}};
  recording.threads.push_back({2, trace::kNone, 0, 0});
  recording.allocations[2].thread = recording.allocations[2].free_thread = 1;
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(2, 0, 0);
  ASSERT_EQ(lane->plan()->box_bytes, 4096u);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(lane->Free(Allocate(lane, 5000, 4, 0x7000)));
  ASSERT_TRUE(lane->running_free());
  EXPECT_TRUE(lane->Empty());
  char* block = Allocate(lane, 4090, 4, SiteWordOf(recording, recording.allocations[0]));
  EXPECT_NE(block, nullptr);
  for (const NotePage& page : plan.notes()) {
    for (const auto& set : page.misses) {
      for (const MissNote& miss : set) EXPECT_EQ(miss.blocker, 0u);
    }
  }
}

}  // namespace
}  // namespace reprise::replay
