// A lane while the program does something else than was recorded, against a model that keeps every
// live block in a map: whatever the program does, no two live blocks may share a byte, and nothing
// may be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/arena/live_model.h"
#include "tests/unit/effort.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

// A thread that does what was recorded, but for a share of its calls.
struct Deviation {
  const char* name;
  double skip = 0;        // allocations left out
  double insert = 0;      // allocations of another shape put in
  double other_site = 0;  // the same size from another place
  double late = 0;        // frees that come some events later
  double never = 0;       // frees that do not come
  double twice = 0;       // frees that come twice
  double grow = 0;        // blocks that are reallocated
};

void RunDeviating(const Deviation& deviation, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << deviation.name << ", seed " << seed);
  RecordingShape shape;
  shape.allocations = 2000;
  shape.sites = 12;
  const bool many_kinds = seed % 25 == 0;  // most of them are told
  if (many_kinds) {
    shape.allocations = 12000;
    shape.sites = 9000;
  }
  const trace::Recording recording = RandomRecording(shape, seed);
  ServedPlan plan(recording);
  ASSERT_EQ(plan.told() > 1000, many_kinds);
  ServedThread thread(plan, 1);
  ASSERT_NE(thread.lane(), nullptr);
  std::mt19937_64 random(seed);
  const auto chance = [&random](double share) {
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  };
  LiveModel model;
  struct Block {
    char* pointer;
    uint64_t bytes;
    unsigned char pattern;
  };
  std::map<uint32_t, Block> live;  // by allocation; inserted ones from 2^31 on
  std::multimap<uint64_t, uint32_t> late;
  uint64_t served = 0;
  uint32_t inserted = 1u << 31;
  const auto allocate = [&](uint32_t index, uint64_t size, unsigned log2, uint64_t site) {
    char* pointer = thread.Allocate(size, log2, site);
    ASSERT_NE(pointer, nullptr);
    ++served;
    ASSERT_NO_FATAL_FAILURE(model.Place(pointer, size, uint64_t{1} << std::max(4u, log2)));
    ASSERT_GE(thread.Usable(pointer), size);
    const auto pattern = static_cast<unsigned char>(random());
    std::memset(pointer, pattern, size);
    live[index] = {pointer, size, pattern};
  };
  const auto release = [&](uint32_t index) {
    const auto found = live.find(index);
    if (found == live.end()) return;
    const Block block = found->second;
    for (uint64_t i = 0; i < block.bytes; ++i) {
      ASSERT_EQ(static_cast<unsigned char>(block.pointer[i]), block.pattern) << "overwritten";
    }
    ASSERT_TRUE(thread.Free(block.pointer));
    model.Free(block.pointer);
    live.erase(found);
    if (chance(deviation.twice)) {
      ASSERT_FALSE(thread.Free(block.pointer));
    }
  };

  // As replay does it: freed, placed anew, and only then are the bytes moved.
  const auto reallocate = [&](uint32_t index, uint64_t size, uint64_t site) {
    const auto found = live.find(index);
    if (found == live.end()) return;
    const Block old = found->second;
    model.Free(old.pointer);
    char* pointer = thread.Reallocate(old.pointer, size, site);
    ASSERT_NE(pointer, nullptr);
    ++served;
    ASSERT_NO_FATAL_FAILURE(model.Place(pointer, size, 16));
    for (uint64_t i = 0; i < std::min(size, old.bytes); ++i) {
      ASSERT_EQ(static_cast<unsigned char>(pointer[i]), old.pattern) << "realloc lost a byte";
    }
    std::memset(pointer, old.pattern, size);
    live[index] = {pointer, size, old.pattern};
  };

  for (const auto& [when, what] : EventsOf(recording)) {
    if (chance(deviation.grow) && !live.empty()) {
      auto any = live.begin();
      std::advance(any, static_cast<std::ptrdiff_t>(random() % live.size()));
      const trace::Allocation& like =
          recording.allocations[random() % recording.allocations.size()];
      ASSERT_NO_FATAL_FAILURE(reallocate(any->first, like.size, SiteWordOf(recording, like)));
    }
    while (!late.empty() && late.begin()->first <= when) {
      ASSERT_NO_FATAL_FAILURE(release(late.begin()->second));
      late.erase(late.begin());
    }
    const uint32_t index = what & ~kDies;
    const trace::Allocation& allocation = recording.allocations[index];
    if (what != index) {
      if (chance(deviation.never)) continue;
      if (chance(deviation.late)) {
        late.emplace(when + 1 + random() % 200, index);
      } else {
        ASSERT_NO_FATAL_FAILURE(release(index));
      }
      continue;
    }
    if (chance(deviation.insert)) {
      const uint32_t other = inserted++;
      ASSERT_NO_FATAL_FAILURE(
          allocate(other, random() % 600, 4,
                   SiteWordOf(recording, recording.allocations[random() % (index + 1)])));
      late.emplace(when + 1 + random() % 300, other);
    }
    if (chance(deviation.skip)) continue;
    uint64_t site = SiteWordOf(recording, allocation);
    if (chance(deviation.other_site)) site += 64;
    // Any size that the plan takes for the same.
    const uint64_t size =
        (allocation.size + 7) / 8 * 8 - random() % std::min<uint64_t>(8, allocation.size + 1);
    ASSERT_NO_FATAL_FAILURE(
        allocate(index, allocation.size == 0 ? 0 : size, allocation.log2_alignment, site));
  }
  while (!live.empty()) ASSERT_NO_FATAL_FAILURE(release(live.begin()->first));
  thread.End();
  EXPECT_EQ(plan.served(0).planned + plan.Elsewhere(), served);
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

TEST(LaneTest, KeepsBlocksApartWhateverTheRunDoes) {
  const Deviation deviations[] = {
      {.name = "skip a few", .skip = 0.01},
      {.name = "insert a few", .insert = 0.01},
      {.name = "some frees late", .late = 0.05},
      {.name = "some frees never", .never = 0.02},
      {.name = "some frees twice", .twice = 0.05},
      {.name = "a bit of everything", .skip = 0.003, .insert = 0.003, .late = 0.01, .twice = 0.01},
      {.name = "much of everything",
       .skip = 0.2,
       .insert = 0.2,
       .other_site = 0.1,
       .late = 0.3,
       .never = 0.1,
       .twice = 0.1},
      {.name = "all sites differ", .other_site = 1},
      {.name = "reallocs", .grow = 0.02},
      {.name = "reallocs and a bit of everything",
       .skip = 0.02,
       .insert = 0.02,
       .late = 0.05,
       .grow = 0.3},
      {.name = "reallocs of everything", .skip = 0.3, .other_site = 0.3, .late = 0.5, .grow = 1},
      {.name = "all frees late", .late = 1},
  };
  for (const Deviation& deviation : deviations) {
    for (uint64_t seed = 1; seed <= Rounds(25); ++seed) {
      ASSERT_NO_FATAL_FAILURE(RunDeviating(deviation, seed));
    }
  }
}

TEST(LaneTest, RareDeviationsCostOnlyAFewBlocks) {
  RecordingShape shape;
  shape.allocations = 20000;
  const trace::Recording recording = RandomRecording(shape, 7);
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  uint64_t requests = 0;
  std::vector<char*> blocks(recording.allocations.size());
  for (const auto& [when, what] : EventsOf(recording)) {
    const uint32_t index = what & ~kDies;
    if (index % 1000 == 999) continue;  // one in a thousand is skipped
    const trace::Allocation& allocation = recording.allocations[index];
    if (what != index) {
      if (blocks[index] != nullptr) thread.Free(blocks[index]);
      continue;
    }
    blocks[index] = thread.Allocate(allocation.size, allocation.log2_alignment,
                                    SiteWordOf(recording, allocation));
    ++requests;
  }
  EXPECT_GE(plan.served(0).planned, requests * 98 / 100);
}

// A block that is kept for longer than planned is noted, with how often it was in the way and when
// it was freed.
TEST(LaneTest, NotesWhatStandsInTheWay) {
  const trace::Recording recording = RandomRecording({}, 17);
  const auto kept =
      static_cast<uint32_t>(std::find_if(recording.allocations.begin(), recording.allocations.end(),
                                         [](const auto& allocation) {
                                           return allocation.death == allocation.birth + 1;
                                         }) -
                            recording.allocations.begin());
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  ASSERT_NE(thread.lane(), nullptr);
  std::vector<char*> blocks(recording.allocations.size());
  const uint64_t freed_at = recording.allocations[kept].death + 800;
  for (const auto& [when, what] : EventsOf(recording)) {
    const uint32_t index = what & ~kDies;
    const trace::Allocation& allocation = recording.allocations[index];
    if (when == freed_at) thread.Free(blocks[kept]);
    if (what == index) {
      blocks[index] = thread.Allocate(allocation.size, allocation.log2_alignment,
                                      SiteWordOf(recording, allocation));
    } else if (index != kept) {
      thread.Free(blocks[index]);
    }
  }
  const uint64_t blocked = plan.counters(0).blocked;
  ASSERT_GT(blocked, 0u);
  uint64_t explained = 0;
  uint64_t missed = 0;
  bool found = false;
  for (const NotePage& page : plan.notes()) {
    EXPECT_EQ(page.unnamed, 0u);
    for (const auto& set : page.misses) {
      for (const MissNote& note : set) missed += note.blocked;
    }
    for (const auto& set : page.squatters) {
      for (const SquatterNote& note : set) {
        explained += note.blocked;
        // The stream has a word for every event of this recording, but for rare ones.
        found = found || (note.word > 0 && note.blocked > 0 && note.freed_at > note.word + 700);
      }
    }
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(explained, blocked);
  EXPECT_EQ(missed, blocked);
}

// Where one block is in the way of very many, some of them stand for all.
TEST(LaneTest, CountsWhatIsInTheWayOfVeryMany) {
  constexpr uint64_t kMany = 10'000;
  std::vector<Made> made = {{0, 1, 64}};
  for (uint64_t i = 1; i <= kMany; ++i) made.push_back({2 * i, 2 * i + 1, 64});
  trace::Recording recording = RecordingOf(made);
  for (trace::Allocation& it : recording.allocations) it.site = recording.allocations[1].site;
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  char* first = thread.Allocate(64, 4, site);
  for (uint64_t i = 1; i <= kMany; ++i) EXPECT_TRUE(thread.Free(thread.Allocate(64, 4, site)));
  EXPECT_TRUE(thread.Free(first));
  EXPECT_EQ(plan.counters(0).blocked, kMany);
  uint64_t most = 0;
  uint64_t missed = 0;
  for (const NotePage& page : plan.notes()) {
    EXPECT_EQ(page.unnamed, 0u);
    for (const auto& set : page.squatters) {
      for (const SquatterNote& note : set) most = std::max<uint64_t>(most, note.blocked);
    }
    for (const auto& set : page.misses) {
      for (const MissNote& note : set) missed += note.blocked;
    }
  }
  EXPECT_NEAR(static_cast<double>(most), kMany, 16);
  EXPECT_NEAR(static_cast<double>(missed), kMany, 16);
}

// Two long blocks that outlive their frees lie side by side. The planned places of the next ones
// begin far from where these do.
TEST(LaneTest, NotesALongBlockThatAPlaceBeginsWithin) {
  constexpr uint64_t kLong = 1 << 20;
  const trace::Recording recording = RecordingOf(
      {{0, 2, kLong}, {1, 3, kLong}, {4, 6, kLong + kLong / 2}, {5, 7, kLong - kLong / 2}});
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().makespan, static_cast<int64_t>(2 * kLong));
  ServedThread thread(plan, 1);
  for (const trace::Allocation& allocation : recording.allocations) {
    thread.Allocate(allocation.size, allocation.log2_alignment, SiteWordOf(recording, allocation));
  }
  ASSERT_EQ(plan.counters(0).blocked, 2u);
  for (const size_t blocked : {2, 3}) {
    const auto place = static_cast<uint64_t>(plan.built().offsets[blocked]);
    uint32_t blocker = 0;
    for (const NotePage& page : plan.notes()) {
      for (const auto& set : page.misses) {
        for (const MissNote& miss : set) {
          if (miss.shape == Shape(recording.allocations[blocked].size, 4)) blocker = miss.blocker;
        }
      }
    }
    EXPECT_EQ(blocker, place / kLong * kLong / kGranule + 1) << blocked;
  }
}

TEST(LaneTest, PointersThatAreNoBlocksAreRefused) {
  const trace::Recording recording = RandomRecording({}, 11);
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const trace::Allocation& first = recording.allocations[0];
  char* block = thread.Allocate(first.size, first.log2_alignment, SiteWordOf(recording, first));
  ASSERT_NE(block, nullptr);
  EXPECT_FALSE(thread.Free(block + 1));
  EXPECT_FALSE(thread.Free(block + 16));
  EXPECT_FALSE(thread.Free(plan.boxes() + plan.built().arena_bytes - 16));
  EXPECT_TRUE(thread.Free(block));
  EXPECT_FALSE(thread.Free(block));
}

// Freed by another thread and by its owner, and then written to.
TEST(LaneTest, AListOfFreesThatWasOverwrittenDoesNoHarm) {
  const trace::Recording recording = RandomRecording({}, 12);
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const trace::Allocation& first = recording.allocations[0];
  const uint64_t site = SiteWordOf(recording, first);
  char* block = thread.Allocate(std::max<uint64_t>(8, first.size), first.log2_alignment, site);
  EXPECT_TRUE(thread.lane()->FreeRemotely(block));
  EXPECT_TRUE(thread.Free(block));
  std::memset(block, 0x5a, 8);
  thread.End();
  EXPECT_EQ(plan.InvalidFrees(), 1u);
}

TEST(LaneTest, ReviveUndoesAFree) {
  const trace::Recording recording = RandomRecording({}, 12);
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const trace::Allocation& first = recording.allocations[0];
  char* block = thread.Allocate(first.size, first.log2_alignment, SiteWordOf(recording, first));
  const uint64_t usable = thread.Usable(block);
  thread.Free(block);
  thread.lane()->Revive(block, usable);
  EXPECT_GE(thread.Usable(block), first.size);
  thread.Free(block);
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

// The free of a block tells that the request before stood for a planned one of another length. What
// was planned in between goes by: the block's own free, and the next block at its place.
TEST(LaneTest, ABlockThatOutlivedItsFreeIsTheOneThatIsFreed) {
  const trace::Recording recording = RecordingOf({{0, 2, 16}, {1, 3, 320, 12}, {4, 5, 320, 12}});
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[1], plan.built().offsets[2]);
  ServedThread thread(plan, 1);
  char* first = thread.Allocate(16, 4, SiteWordOf(recording, recording.allocations[0]));
  char* second = thread.Allocate(320, 12, SiteWordOf(recording, recording.allocations[1]));
  char* longer = thread.Allocate(400, 4, SiteWordOf(recording, recording.allocations[2]));
  EXPECT_TRUE(thread.Free(second));
  EXPECT_TRUE(thread.Free(longer));
  EXPECT_TRUE(thread.Free(first));
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

// A block whose place is taken is as long as planned all the same: a program that asks how long its
// block is, and lets it grow that far, would else ask for a longer one where the recorded one did
// not, again and again (redis' lists).
TEST(LaneTest, ABlockThatLiesElsewhereIsAsLongAsPlanned) {
  trace::Recording recording = RecordingOf({{0, 2, 16}, {1, 3, 320, 12}, {4, 5, 320, 12}});
  recording.usable_answers = {{2, 1000}};
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[1], plan.built().offsets[2]);
  const auto site = [&](uint32_t number) {
    return SiteWordOf(recording, recording.allocations[number]);
  };
  ServedThread thread(plan, 1);
  char* first = thread.Allocate(16, 4, site(0));
  char* kept = thread.Allocate(320, 12, site(1));
  EXPECT_TRUE(thread.Free(first));
  char* elsewhere = thread.Allocate(320, 12, site(2));
  EXPECT_NE(elsewhere, kept);
  EXPECT_EQ(plan.counters(0).blocked, 1u);
  EXPECT_EQ(reinterpret_cast<uint64_t>(elsewhere) % 4096, 0u);
  EXPECT_GE(thread.Usable(elsewhere), 1000u);
  EXPECT_TRUE(thread.Free(elsewhere));
  EXPECT_TRUE(thread.Free(kept));
}

// Requests that differ from the expected ones in nothing but their lengths: a shorter one lies
// where that one was to lie, a longer one elsewhere, and the lane follows its stream before and
// behind.
TEST(LaneTest, ARequestOfAnotherLengthTakesTheTurnOfTheExpectedOne) {
  const trace::Recording recording =
      RecordingOf({{0, 4, 64}, {1, 5, 64}, {2, 6, 320}, {3, 7, 64}, {8, 9, 64}});
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const auto site = [&](uint32_t number) {
    return SiteWordOf(recording, recording.allocations[number]);
  };
  const auto planned = [&](uint32_t number) { return plan.boxes() + plan.built().offsets[number]; };
  char* shorter = thread.Allocate(30, 4, site(0));
  EXPECT_EQ(shorter, planned(0));
  EXPECT_EQ(thread.Usable(shorter), 64u);
  EXPECT_EQ(thread.AllocateExpected(64, site(1)), planned(1));
  char* longer = thread.Allocate(500, 4, site(2));
  EXPECT_FALSE(thread.lane()->Contains(longer));
  EXPECT_GE(thread.Usable(longer), 500u);
  EXPECT_EQ(thread.AllocateExpected(64, site(3)), planned(3));
  EXPECT_TRUE(thread.lane()->FreeExpected(shorter));
  EXPECT_TRUE(thread.lane()->FreeExpected(planned(1)));
  EXPECT_TRUE(thread.Free(longer));
  EXPECT_TRUE(thread.Free(planned(3)));
  EXPECT_EQ(thread.AllocateExpected(64, site(4)), planned(4));
  EXPECT_TRUE(thread.lane()->FreeExpected(planned(4)));
  EXPECT_EQ(plan.counters(0).unmatched, 2u);
  EXPECT_EQ(plan.Elsewhere(), 1u);
  EXPECT_EQ(plan.counters(0).skipped, 1u);
}

// The same kinds of request in another order are no requests of other lengths, although each of
// them could take the turn of the expected one.
TEST(LaneTest, AnotherOrderOfTheSameKindsIsGivenUp) {
  std::vector<Made> blocks;
  for (uint64_t i = 0; i < 2000; ++i) blocks.push_back({2 * i, 2 * i + 1, 16 * (1 + i % 8)});
  trace::Recording recording = RecordingOf(blocks);
  for (trace::Allocation& allocation : recording.allocations) allocation.site = 0;
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(thread.Free(thread.Allocate(16 * (1 + i * i % 8 * 3 % 8), 4, site)));
  }
  EXPECT_TRUE(thread.lane()->is_off_plan());
}

// Lengths that are drawn by lot, as those of the nodes of a skip list, are no other order: what
// comes between them is as planned.
TEST(LaneTest, LengthsThatAreDrawnByLotAreNoOtherOrder) {
  constexpr uint64_t kEach = 6;  // one of so many blocks is such a node
  std::vector<Made> blocks;
  std::mt19937_64 random(1);
  const auto drawn = [&random] { return 40 + 16 * (std::countr_zero(random() | 1 << 8) / 2); };
  for (uint64_t i = 0; i < 12000; ++i) {
    const uint64_t size = i % kEach == 0 ? drawn() : 24 + i % kEach * 32;
    blocks.push_back({2 * i, 2 * i + 1, size});
  }
  trace::Recording recording = RecordingOf(blocks);
  for (uint32_t i = 0; i < blocks.size(); ++i) recording.allocations[i].site = i % kEach;
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  uint64_t as_planned = 0;
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const uint64_t size = i % kEach == 0 ? drawn() : blocks[i].size;
    char* block = thread.Allocate(size, 4, SiteWordOf(recording, recording.allocations[i]));
    as_planned += block == plan.boxes() + plan.built().offsets[i] ? 1 : 0;
    ASSERT_TRUE(thread.Free(block));
  }
  EXPECT_FALSE(thread.lane()->is_off_plan());
  EXPECT_GT(as_planned, blocks.size() * 8 / 10);
}

// A table of blocks that is taken down in another order each time, as hash tables are: once enough
// was asked, by the program or by such frees, it is noted what lives, and nobody looks at the
// placements any more.
TEST(LaneTest, FreesInAnotherOrderAreFoundWithoutALookAtThePlacements) {
  constexpr uint32_t kTable = 12288;
  std::vector<Made> made;
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kTable; ++i) {
      const uint64_t birth = 2 * kTable * round + i;
      made.push_back({birth, birth + kTable, 16 + 16 * (i % 150)});
    }
  }
  trace::Recording recording = RecordingOf(made);
  for (uint32_t i = 0; i < made.size(); ++i) recording.allocations[i].site = i % 150;
  for (const bool asks : {false, true}) {
    ServedPlan plan(recording);
    ServedThread thread(plan, 1);
    std::mt19937_64 random(asks);
    std::vector<char*> blocks(kTable);
    for (uint32_t i = 0; i < made.size(); i += kTable) {
      for (uint32_t k = 0; k < kTable; ++k) {
        const uint64_t site = SiteWordOf(recording, recording.allocations[i + k]);
        blocks[k] = thread.Allocate(made[i + k].size, 4, site);
        ASSERT_EQ(blocks[k], plan.boxes() + plan.built().offsets[i + k]);
        ASSERT_TRUE(!asks || thread.Usable(blocks[k]) >= made[i + k].size);
      }
      std::shuffle(blocks.begin(), blocks.end(), random);
      for (char* block : blocks) ASSERT_TRUE(thread.Free(block));
    }
    EXPECT_FALSE(thread.lane()->is_off_plan());
    EXPECT_EQ(plan.InvalidFrees(), 0u);
  }
}

// A late block somewhere is nothing to a long block that is reallocated elsewhere.
TEST(LaneTest, ReallocatesALongBlockAmongLateOnesInOneStep) {
  trace::Recording recording = RecordingOf({{0, 2, 64}, {1, 4, 2000}, {3, 6, 80}, {5, 7, 3000}});
  recording.allocations[3].kind = trace::AllocationKind::kRealloc;
  recording.allocations[3].previous = 1;
  ServedPlan plan(recording);
  const std::vector<int64_t>& offsets = plan.built().offsets;
  ASSERT_TRUE(offsets[0] + 64 <= offsets[3] || offsets[3] + 3000 <= offsets[0]);
  ServedThread thread(plan, 1);
  char* blocks[3];
  for (uint32_t i = 0; i < 3; ++i) {  // the first stays for longer
    blocks[i] = thread.Allocate(recording.allocations[i].size, 4,
                                SiteWordOf(recording, recording.allocations[i]));
  }
  void* longer = thread.lane()->ReallocateExpected(
      blocks[1], 3000, SiteWordOf(recording, recording.allocations[3]), /*may_move=*/true);
  EXPECT_EQ(longer, plan.boxes() + offsets[3]);
  EXPECT_TRUE(thread.Free(blocks[0]));
  EXPECT_TRUE(thread.Free(blocks[2]));
  EXPECT_TRUE(thread.Free(static_cast<char*>(longer)));
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

}  // namespace
}  // namespace reprise::replay
