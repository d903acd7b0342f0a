// A lane while the program does what was recorded, and what it says of its blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/hash.h"
#include "tests/unit/arena/live_model.h"
#include "tests/unit/effort.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

// Sizes that would look like a shape with an alignment, or wrap around, when rounded up.
TEST(LaneTest, NoSizeIsTooLongToBeCompared) {
  RecordingShape shape;
  shape.allocations = 300;
  const trace::Recording recording = RandomRecording(shape, 3);
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const trace::Allocation& first = recording.allocations[0];
  const uint64_t site = SiteWordOf(recording, first);
  for (uint64_t high = 1; high < 256; ++high) {
    EXPECT_EQ(thread.AllocateExpected((high << 56) + first.size, site), nullptr);
  }
  for (uint64_t size = 0; size < 16; ++size) {
    EXPECT_EQ(thread.AllocateExpected(UINT64_MAX - size, site), nullptr);
  }
  EXPECT_NE(thread.Allocate(first.size, first.log2_alignment, site), nullptr);
}

TEST(LaneTest, FollowsThePlanExactlyWhenTheRunDoes) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    RecordingShape shape;
    shape.allocations = 3000;
    const bool asks = seed % 2 == 0;
    if (seed % 5 == 0) shape.most_bytes = 100000;
    const bool many_kinds = seed % 4 == 0;
    if (many_kinds) {
      shape.allocations = 12000;
      shape.sites = 9000;
      shape.reallocs = 0.3;
    }
    const trace::Recording recording = RandomRecording(shape, seed);
    ServedPlan plan(recording);
    ServedThread thread(plan, 1);
    ASSERT_NE(thread.lane(), nullptr);
    EXPECT_EQ(plan.told() > 1000, many_kinds);
    std::vector<char*> blocks(recording.allocations.size());
    for (const auto& [when, what] : EventsOf(recording)) {
      const uint32_t index = what & ~kDies;
      const trace::Allocation& allocation = recording.allocations[index];
      if (what != index) {
        thread.Free(blocks[index]);
        continue;
      }
      blocks[index] = thread.Allocate(allocation.size, allocation.log2_alignment,
                                      SiteWordOf(recording, allocation));
      ASSERT_EQ(blocks[index], plan.boxes() + plan.built().offsets[index]);
      ASSERT_TRUE(!asks || thread.Usable(blocks[index]) >= allocation.size);
    }
    EXPECT_EQ(plan.served(0).planned, recording.allocations.size());
    EXPECT_EQ(plan.Elsewhere(), 0u);
    EXPECT_EQ(plan.InvalidFrees(), 0u);
  }
}

// Not even one whose key has the number that the free has for a code.
TEST(LaneTest, WhereAFreeIsExpectedNoRequestIs) {
  RecordingShape shape;
  shape.allocations = 3000;
  shape.most_bytes = 4000000;  // nearly as many keys, and few bits for their codes
  const trace::Recording recording = RandomRecording(shape, 1);
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  std::vector<char*> blocks(recording.allocations.size());
  const std::map<uint64_t, uint32_t> events = EventsOf(recording);
  for (const auto& [when, what] : events) {
    const uint32_t index = what & ~kDies;
    if (what == index) {
      const trace::Allocation& allocation = recording.allocations[index];
      blocks[index] = thread.Allocate(allocation.size, allocation.log2_alignment,
                                      SiteWordOf(recording, allocation));
      continue;
    }
    const bool another_follows = events.contains(when + 1) && events.at(when + 1) >= kDies;
    for (const trace::Allocation& other : recording.allocations) {
      const uint64_t site = SiteWordOf(recording, other);
      ASSERT_EQ(thread.AllocateExpected(other.size, site), nullptr);
      if (!another_follows) continue;
      ASSERT_EQ(thread.lane()->ReallocateExpected(blocks[index], other.size, site, true), nullptr);
    }
    ASSERT_TRUE(thread.Free(blocks[index]));
  }
  EXPECT_EQ(plan.Elsewhere(), 0u);
}

// Whether a lane takes care is a part of the comparison: none of what differs is taken for it, on
// stacks that are not aligned neither.
TEST(LaneTest, NoOtherCallSiteIsTakenForTheExpectedOne) {
  struct Frame {
    uint64_t at, address;
    uint64_t slot() const { return at; }
    uint64_t return_address() const { return address; }
  };
  constexpr uint64_t kHighest = (uint64_t{1} << kAddressBits) - 1;
  for (const bool mapped : {false, true}) {
    const trace::Recording recording = RecordingOf({{0, 2, 64}, {1, 4, 64}, {3, 5, 64}});
    ServedPlan plan(recording);
    ServedThread thread(plan, 1);
    char* first = thread.Allocate(64, 4, SiteWordOf(recording, recording.allocations[0]));
    if (mapped) {  // a free that is not planned yet
      EXPECT_TRUE(thread.Free(first));
    }
    const CallerAt caller{SiteWordOf(recording, recording.allocations[1])};
    ASSERT_EQ(thread.lane()->Differs(thread.lane()->Next(), 64, caller),
              mapped ? Lane::kGuarded : 0);
    const auto is_another = [&](const Frame& frame, uint64_t size = 64) {
      const uint64_t differs = thread.lane()->Differs(thread.lane()->Next(), size, frame);
      return differs != 0 && differs != Lane::kGuarded;
    };
    const Frame same{caller.slot(), caller.return_address()};
    EXPECT_TRUE(is_another(same, 65));
    EXPECT_TRUE(is_another(same, 56));
    EXPECT_TRUE(is_another(same, 0));
    EXPECT_TRUE(is_another(same, UINT64_MAX));
    for (int64_t away = -kDepths * 16 + 1; away < int64_t{kDepths} * 16; ++away) {
      if (away == 0) continue;
      ASSERT_TRUE(is_another({same.at + static_cast<uint64_t>(away), same.address})) << away;
      ASSERT_TRUE(is_another({same.at, same.address + static_cast<uint64_t>(away)})) << away;
    }
    for (uint64_t bit = 1; bit < kHighest; bit *= 2) {
      EXPECT_TRUE(is_another({same.at, same.address ^ bit})) << bit;
      EXPECT_TRUE(is_another({same.at + 8, same.address ^ bit})) << bit;
    }
    EXPECT_TRUE(is_another({same.at, 0}));
    EXPECT_TRUE(is_another({same.at, kHighest}));
  }
}

#if !REPRISE_SANITIZED  // minutes
// The words behind the cursor are given back.
TEST(LaneTest, FewWordsOfThePlanAreResident) {
  // In no order that repeats: that would be a loop.
  const auto size_of = [](uint64_t i) { return 48 + (i == 0 ? 0 : base::MixBits(i) & 16); };
  trace::Recording recording = RecordingOf({{0, 1, 48}});
  const uint64_t pairs = 32 * kTurnWords;
  for (uint64_t i = 1; i < pairs; ++i) {
    recording.allocations.push_back(recording.allocations[0]);
    recording.allocations.back().size = size_of(i);
    recording.allocations.back().birth = 2 * i;
    recording.allocations.back().death = 2 * i + 1;
  }
  recording.events = 2 * pairs;
  ServedPlan plan(recording);
  ServedThread thread(plan, recording.threads[0].path);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  uint64_t most_resident = 0;
  for (uint64_t i = 0; i < pairs; ++i) {
    char* block = thread.Allocate(size_of(i), 4, site);
    ASSERT_EQ(block, plan.boxes());
    ASSERT_TRUE(thread.Free(block));
    if (i % (pairs / 64) == 0) most_resident = std::max(most_resident, plan.ResidentBytes());
  }
  EXPECT_EQ(plan.served(0).planned, pairs);
  EXPECT_LE(most_resident, 6 * kPlanStretch);
}
#endif

#if !REPRISE_SANITIZED  // minutes
// As long as a lane can be: the last blocks have the highest offsets that words can say, next to
// the special ones. Whatever the long block does, all are known.
TEST(LaneTest, TheLongestLaneIsServedToItsEnd) {
  constexpr uint64_t kLong = (kMostLaneGranules - 1 - 2) * kGranule;
  const trace::Recording recording =
      RecordingOf({{0, 5, kLong}, {1, 3, 16}, {2, 4, 16}, {6, 8, 16}, {7, 10, 16}, {9, 11, kLong}});
  ServedPlan plan(recording);
  const auto allocate = [&](ServedThread& thread, uint32_t number) {
    return thread.Allocate(recording.allocations[number].size, 4,
                           SiteWordOf(recording, recording.allocations[number]));
  };
  for (const bool late : {false, true}) {
    plan.Restart();
    ServedThread thread(plan, 1);
    LiveModel model;
    std::vector<char*> blocks(recording.allocations.size());
    for (const auto& [when, what] : EventsOf(recording)) {
      const uint32_t index = what & ~kDies;
      const uint64_t size = recording.allocations[index].size;
      if (what != index) {
        EXPECT_EQ(thread.Usable(blocks[index]), size);
        EXPECT_TRUE((late && index == 0) || thread.Free(blocks[index]));
        if (!late || index != 0) model.Free(blocks[index]);
        continue;
      }
      blocks[index] = allocate(thread, index);
      // Where the long one lies for longer, nothing else of its length can.
      ASSERT_EQ(blocks[index] == nullptr, late && index == 5);
      if (blocks[index] == nullptr) break;
      EXPECT_TRUE(late || blocks[index] == plan.boxes() + plan.built().offsets[index]);
      ASSERT_NO_FATAL_FAILURE(model.Place(blocks[index], size, 16));
    }
    if (late) {
      EXPECT_TRUE(thread.Free(blocks[4]));
      EXPECT_TRUE(thread.Free(blocks[0]));
    }
    EXPECT_EQ(plan.InvalidFrees(), 0u);
  }
}
#endif

// Pages that the plan leaves idle for long are given back, but for those of a block that has
// outlived its free.
TEST(LaneTest, PagesOfABlockThatIsLateAreNotGivenBack) {
  constexpr uint64_t kLong = 1 << 20;
  constexpr uint64_t kShort = 40'000;
  std::vector<Made> made = {{0, 1, kLong}};
  for (uint64_t i = 1; i <= kShort; ++i) made.push_back({2 * i, 2 * i + 1, 16});
  trace::Recording recording = RecordingOf(made);
  for (trace::Allocation& allocation : recording.allocations) allocation.site = 0;
  ServedPlan plan(recording);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  for (const bool late : {false, true}) {
    plan.Restart();
    ServedThread thread(plan, 1);
    char* block = thread.Allocate(kLong, 4, site);
    std::memset(block, 1, kLong);
    EXPECT_TRUE(late || thread.Free(block));
    for (uint64_t i = 1; i <= kShort; ++i) ASSERT_TRUE(thread.Free(thread.Allocate(16, 4, site)));
    EXPECT_EQ(block[kLong / 2], late ? 1 : 0);
    EXPECT_EQ(plan.counters(0).blocked, late ? kShort : 0);
    EXPECT_TRUE(!late || thread.Free(block));
  }
}

// Every realloc whose blocks the plan has at one place leaves the block there; the others go where
// the plan has them, in one step or in two.
TEST(LaneTest, ReallocatesInPlaceWhereThePlanDoes) {
  for (const uint32_t way : {0, 1, 2, 3, 4, 6}) {
    const bool noting = way % 2 == 1;
    const bool one_step = way / 2 % 2 == 1;
    RecordingShape shape;
    shape.allocations = 3000;
    shape.reallocs = 0.5;
    if (way >= 4) {  // most keys are rare
      shape.sites = 3000;
      shape.most_bytes = 1 << 20;
    }
    const trace::Recording recording = RandomRecording(shape, 4);
    ServedPlan plan(recording);
    ServedThread thread(plan, 1);
    std::vector<char*> blocks(recording.allocations.size());
    uint64_t in_place = 0;
    const std::map<uint64_t, uint32_t> events = EventsOf(recording);
    for (auto event = events.begin(); event != events.end(); ++event) {
      const uint32_t index = event->second & ~kDies;
      const auto next = std::next(event);
      if (event->second != index) {
        const bool replaced = next != events.end() && (next->second & kDies) == 0 &&
                              recording.allocations[next->second].previous == index;
        if (!replaced) thread.Free(blocks[index]);
        continue;
      }
      const trace::Allocation& allocation = recording.allocations[index];
      const uint64_t site = SiteWordOf(recording, allocation);
      char* const planned = plan.boxes() + plan.built().offsets[index];
      if (allocation.previous == trace::kNone) {
        blocks[index] = thread.Allocate(allocation.size, allocation.log2_alignment, site);
      } else {
        blocks[index] = blocks[allocation.previous];
        const bool stays = planned == blocks[index];
        const void* same =
            thread.lane()->ReallocateExpected(blocks[index], allocation.size, site, false);
        ASSERT_EQ(same != nullptr, stays);
        in_place += stays;
        if (!stays && one_step) {
          blocks[index] = static_cast<char*>(thread.lane()->ReallocateExpected(
              blocks[index], allocation.size, site, /*may_move=*/true));
        } else if (!stays) {
          thread.Free(blocks[index]);
          blocks[index] = thread.Allocate(allocation.size, 4, site);
        }
      }
      ASSERT_EQ(blocks[index], planned);
      ASSERT_TRUE(!noting || thread.Usable(blocks[index]) >= allocation.size);
    }
    EXPECT_EQ(plan.served(0).planned, recording.allocations.size());
    EXPECT_EQ(static_cast<int64_t>(in_place), plan.built().reallocs_in_place);
    EXPECT_GT(in_place, 100u);
    EXPECT_EQ(plan.InvalidFrees(), 0u);
  }
}

// Between two blocks of 24 bytes is room for 32, but nobody would be told that all of them are
// there.
TEST(LaneTest, ABlockIsAsLongAsItsUsableSizeWhereverItLies) {
  const trace::Recording recording = RecordingOf({{0, 2, 24}, {1, 3, 24}});
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  for (const uint32_t number : {0, 1}) {
    char* block = thread.Allocate(32, 4, SiteWordOf(recording, recording.allocations[number]));
    EXPECT_GE(thread.Usable(block), 32u);
  }
}

// Some allocators say that a block that was asked for with no bytes has none. It takes room all the
// same, when it outlives its free as well.
TEST(LaneTest, ABlockWithoutBytesTakesRoom) {
  trace::Recording recording = RecordingOf({{0, 2, 0}, {1, 6, 1000}, {3, 5, 16}, {4, 7, 16}});
  recording.usable_answers = {{0, 0}};
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[0], plan.built().offsets[2]);
  ServedThread thread(plan, 1);
  const auto allocate = [&](uint32_t number) {
    const trace::Allocation& allocation = recording.allocations[number];
    return thread.Allocate(allocation.size, 4, SiteWordOf(recording, allocation));
  };
  char* empty = allocate(0);
  EXPECT_NE(allocate(1), nullptr);
  char* third = allocate(2);
  EXPECT_NE(third, empty);
  char* fourth = allocate(3);
  EXPECT_EQ(fourth, plan.boxes() + plan.built().offsets[3]);
  EXPECT_TRUE(thread.Free(empty));
  EXPECT_EQ(plan.InvalidFrees(), 0u);
}

// Nor is a block told to have fewer bytes than were asked for, because the recorded one, which took
// the same place and turn, had fewer.
TEST(LaneTest, WhatIsUsableIsEnoughForEveryRequestOfAShape) {
  trace::Recording recording = RecordingOf({{0, 1, 17}});
  recording.usable_answers = {{0, 17}};
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  char* block = thread.Allocate(24, 4, SiteWordOf(recording, recording.allocations[0]));
  EXPECT_EQ(block, plan.boxes() + plan.built().offsets[0]);
  EXPECT_EQ(thread.Usable(block), 24u);
}

// The planned place of the new block begins where the old block does, and is taken by another one:
// when there is no place elsewhere either the old block stays.
TEST(LaneTest, ReviveKeepsTheLengthOfItsBlock) {
  trace::Recording recording = RecordingOf({{0, 2, 24}, {1, 3, 320, 13}, {4, 5, 640, 13}});
  recording.usable_answers = {{0, 24}};
  ServedPlan plan(recording);
  ServedThread thread(plan, 1);
  const auto site = [&](uint32_t number) {
    return SiteWordOf(recording, recording.allocations[number]);
  };
  char* kept = thread.Allocate(24, 4, site(0));
  char* block = thread.Allocate(320, 13, site(1));
  EXPECT_EQ(thread.Usable(kept), 24u);
  for (char* each : {block, kept}) {
    const uint64_t usable = thread.Usable(each);
    EXPECT_TRUE(thread.Free(each));
    EXPECT_EQ(thread.Usable(each), 0u);
    thread.lane()->Revive(each, usable);
    EXPECT_EQ(thread.Usable(each), usable);
  }
  EXPECT_TRUE(thread.Free(block));
  EXPECT_TRUE(thread.Free(kept));
}

}  // namespace
}  // namespace reprise::replay
