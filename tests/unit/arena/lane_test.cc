// A lane while the program does what was recorded, and what it says of its blocks.
#include <gtest/gtest.h>

#include <algorithm>
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

// Sizes that would look like a shape with an alignment, or wrap around, when rounded up.
TEST(LaneTest, NoSizeIsTooLongToBeCompared) {
  RecordingShape shape;
  shape.allocations = 300;
  const trace::Recording recording = RandomRecording(shape, 3);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const trace::Allocation& first = recording.allocations[0];
  const uint64_t site = SiteWordOf(recording, first);
  for (uint64_t high = 1; high < 256; ++high) {
    EXPECT_EQ(AllocateExpected(lane, (high << 56) + first.size, site), nullptr);
  }
  for (uint64_t size = 0; size < 16; ++size) {
    EXPECT_EQ(AllocateExpected(lane, UINT64_MAX - size, site), nullptr);
  }
  EXPECT_NE(Allocate(lane, first.size, first.log2_alignment, site), nullptr);
}

TEST(LaneTest, FollowsThePlanExactlyWhenTheRunDoes) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    RecordingShape shape;
    shape.allocations = 3000;
    const bool asks = seed % 2 == 0;
    const bool crowded = seed % 3 == 0;
    const bool large = seed % 5 == 0;  // the lane looks ahead
    if (large) shape.most_bytes = 100000;
    const bool many_kinds = seed % 4 == 0;
    if (many_kinds) {
      shape.allocations = 12000;
      shape.sites = 9000;
      shape.reallocs = 0.3;
    }
    const trace::Recording recording = RandomRecording(shape, seed);
    ServedPlan plan(recording, {}, crowded ? uint64_t{33} << 30 : 8 << 20);
    Lane* lane = plan.arena().Take(1, 0, 0);
    ASSERT_NE(lane, nullptr);
    EXPECT_EQ(lane->room().crowded, crowded);
    EXPECT_EQ(plan.told() > 1000, many_kinds);
    std::vector<char*> blocks(recording.allocations.size());
    for (const auto& [when, what] : EventsOf(recording)) {
      const uint32_t index = what & ~kDies;
      const trace::Allocation& allocation = recording.allocations[index];
      if (what != index) {
        lane->Free(blocks[index]);
        continue;
      }
      blocks[index] = Allocate(lane, allocation.size, allocation.log2_alignment,
                               SiteWordOf(recording, allocation));
      ASSERT_EQ(blocks[index], plan.blocks() + plan.built().offsets[index]);
      ASSERT_TRUE(!asks || lane->Usable(blocks[index]) >= allocation.size);
      ASSERT_TRUE(asks || lane->TakesCare() == large);
    }
    EXPECT_EQ(plan.served(0).allocations, recording.allocations.size());
    EXPECT_EQ(plan.counters(0).Improvised(), 0u);
    EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
  }
}

// Not even one whose key has the number that the free has for a code.
TEST(LaneTest, WhereAFreeIsExpectedNoRequestIs) {
  RecordingShape shape;
  shape.allocations = 3000;
  shape.most_bytes = 4000000;  // nearly as many keys, and few bits for their codes
  const trace::Recording recording = RandomRecording(shape, 1);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  std::vector<char*> blocks(recording.allocations.size());
  const std::map<uint64_t, uint32_t> events = EventsOf(recording);
  for (const auto& [when, what] : events) {
    const uint32_t index = what & ~kDies;
    if (what == index) {
      const trace::Allocation& allocation = recording.allocations[index];
      blocks[index] = Allocate(lane, allocation.size, allocation.log2_alignment,
                               SiteWordOf(recording, allocation));
      continue;
    }
    const bool another_follows = events.contains(when + 1) && events.at(when + 1) >= kDies;
    for (const trace::Allocation& other : recording.allocations) {
      const uint64_t site = SiteWordOf(recording, other);
      ASSERT_EQ(AllocateExpected(lane, other.size, site), nullptr);
      if (!another_follows) continue;
      ASSERT_EQ(lane->ReallocateExpected(blocks[index], other.size, site, true), nullptr);
    }
    ASSERT_TRUE(lane->Free(blocks[index]));
  }
  EXPECT_EQ(plan.counters(0).Improvised(), 0u);
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
  for (const bool careful : {false, true}) {
    const trace::Recording recording = RecordingOf({{0, 2, 64}, {1, 4, 64}, {3, 5, 64}});
    ServedPlan plan(recording);
    Lane* lane = plan.arena().Take(1, 0, 0);
    char* first = Allocate(lane, 64, 4, SiteWordOf(recording, recording.allocations[0]));
    // A program that asks often gets its blocks noted.
    for (int asks = 0; careful && asks < 100; ++asks) EXPECT_EQ(lane->Usable(first), 64u);
    const CallerAt caller{SiteWordOf(recording, recording.allocations[1])};
    ASSERT_EQ(lane->Differs(lane->Next(), 64, caller), careful ? Lane::kWithCare : 0);
    const auto is_another = [&](const Frame& frame, uint64_t size = 64) {
      const uint64_t differs = lane->Differs(lane->Next(), size, frame);
      return differs != 0 && differs != Lane::kWithCare;
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

// In lanes so long that a block is looked for between samples, wherever those of a lane begin. What
// is read of the plan does not stay in memory.
TEST(LaneTest, FindsEveryBlockAmongManyPlacements) {
  for (const uint32_t threads : {1, 3}) {
    RecordingShape shape;
    shape.allocations = 30000;
    shape.threads = threads;
    shape.usable_asked = 0;
    const trace::Recording recording = RandomRecording(shape, 6);
    ServedPlan plan(recording);
    std::vector<Lane*> lanes;
    for (const trace::Thread& thread : recording.threads) {
      lanes.push_back(plan.arena().Take(thread.path, 0, 0));
    }
    const auto lane_of = [&](uint32_t index) { return lanes[recording.allocations[index].thread]; };
    std::map<uint32_t, char*> live;
    std::mt19937_64 random(threads);
    uint64_t most_resident = 0;
    for (const auto& [when, what] : EventsOf(recording)) {
      const uint32_t index = what & ~kDies;
      const trace::Allocation& allocation = recording.allocations[index];
      if (what != index) {
        ASSERT_TRUE(lane_of(index)->Free(live[index]));
        live.erase(index);
      } else {
        live[index] = Allocate(lane_of(index), allocation.size, allocation.log2_alignment,
                               SiteWordOf(recording, allocation));
      }
      if (live.empty() || random() % 16 != 0) continue;
      auto asked = live.lower_bound(static_cast<uint32_t>(random() % recording.allocations.size()));
      if (asked == live.end()) asked = live.begin();
      const uint64_t bytes = (recording.allocations[asked->first].size + 15) / 16 * 16;
      // Without notes, which would tell it otherwise.
      EXPECT_EQ(lane_of(asked->first)->UsableIfQuiet(asked->second), std::max(bytes, kGranule));
      most_resident = std::max(most_resident, plan.ResidentBytes());
    }
    EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
    // Around the words that each lane has come to, a few stretches.
    EXPECT_LE(most_resident, 4 * threads * kPlanStretch) << "of " << plan.built().bytes.size();
  }
}

// Blocks that are freed a little earlier than planned are told by the words ahead, and how long
// those are that stay for longer by the notes, once there are any: a look at the placements maps a
// stretch of the file.
TEST(LaneTest, FreesEarlyAndLateWithoutALookAtThePlacements) {
  std::vector<Made> made;
  for (uint64_t i = 0; made.size() < 2 * kSampled; i += 6) {
    made.insert(made.end(), {{i, i + 3, 48}, {i + 1, i + 4, 80}, {i + 2, i + 5, 32}});
  }
  trace::Recording recording = RecordingOf(made);
  for (size_t i = 3; i < made.size(); ++i) recording.allocations[i].site = i % 3;
  recording.threads.push_back({.path = 2});
  for (size_t i = 5; i < made.size(); i += 6) recording.allocations[i].free_thread = 1;
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  char* late = nullptr;
  for (uint32_t i = 0; i + 2 < made.size(); i += 3) {
    char* blocks[3];
    for (uint32_t k = 0; k < 3; ++k) {
      const uint64_t size = made[i + k].size;
      blocks[k] = Allocate(lane, size, 4, SiteWordOf(recording, recording.allocations[i + k]));
      ASSERT_NE(blocks[k], nullptr);
      ASSERT_GE(lane->Usable(blocks[k]), size);
      if (late == nullptr) continue;
      ASSERT_TRUE(blocks[k] >= late + 48 || blocks[k] + size <= late);
    }
    constexpr uint32_t kBegin = 300;
    if (i == kBegin) plan.HidePlacements();
    if (late != nullptr) {
      EXPECT_TRUE(lane->Free(late));
    }
    late = i < kBegin ? nullptr : blocks[0];
    if (i % 2 == 0) {
      EXPECT_TRUE(lane->Free(blocks[2]));
    } else {
      lane->FreeRemotely(blocks[2]);
      lane->Drain();
    }
    EXPECT_TRUE(lane->Free(blocks[1]));
    if (late == nullptr) {
      EXPECT_TRUE(lane->Free(blocks[0]));
    }
  }
  EXPECT_TRUE(lane->Free(late));
  EXPECT_FALSE(lane->running_free());
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

// The free of a block by another thread tells how long it is, and what the thread itself allocated
// a moment ago is told by the latest words.
TEST(LaneTest, WhatBecomesLateIsToldByTheWords) {
  constexpr uint64_t kPairs = 2 * kSampled;
  constexpr uint64_t kDies = 700;  // the long block; then another one gets its place
  std::vector<Made> made = {{0, 2 * kDies - 1, 4096}};
  for (uint64_t i = 1; i < kPairs; ++i) {
    const uint64_t birth = i < kDies ? 2 * i - 1 : 2 * i;
    made.push_back({birth, birth + 1, i % 100 == 50 ? uint64_t{4096} : 48});
  }
  trace::Recording recording = RecordingOf(made);
  recording.threads.push_back({.path = 2});
  recording.allocations[0].free_thread = 1;
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[0], plan.built().offsets[kDies + 50]);
  Lane* lane = plan.arena().Take(1, 0, 0);
  plan.HidePlacements();
  LiveModel model;
  std::vector<char*> late;
  const auto allocate = [&](uint64_t i) {
    char* block = Allocate(lane, made[i].size, 4, SiteWordOf(recording, recording.allocations[i]));
    model.Place(block, made[i].size, 16);
    return block;
  };
  const auto free = [&](char* block) {
    EXPECT_TRUE(lane->Free(block));
    model.Free(block);
  };
  late.push_back(allocate(0));
  for (uint64_t i = 1; i < kPairs; ++i) {
    char* block = allocate(i);
    if (i % 64 == 0 && i / 64 < 20) {
      late.push_back(block);
      continue;
    }
    free(block);
    if (i == 2 * kDies) {
      for (char* each : late) free(each);
      late.clear();
    }
  }
  EXPECT_TRUE(late.empty());
  EXPECT_FALSE(lane->running_free());
  EXPECT_GT(plan.counters(0).blocked, 0u);
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

#if !REPRISE_SANITIZED  // minutes
// The words of a lane that is followed for millions of events begin with a huge piece of the file,
// and those behind the cursor are given back by huge pieces: none is asked for twice.
TEST(LaneTest, ManyWordsLieInHugePieces) {
  trace::Recording recording = RecordingOf({{0, 1, 64}});
  const uint64_t pairs = kManyWords / 2;
  for (uint64_t i = 1; i < pairs; ++i) {
    recording.allocations.push_back(recording.allocations[0]);
    recording.allocations.back().birth = 2 * i;
    recording.allocations.back().death = 2 * i + 1;
  }
  recording.events = 2 * pairs;
  ServedPlan plan(recording);
  PlanHeader header;
  std::memcpy(&header, plan.built().bytes.data(), sizeof(header));
  EXPECT_NE(header.flags & kPlanHugeWords, 0u);
  EXPECT_EQ(header.words.offset % kPlanHugePiece, 0u);
  EXPECT_EQ(header.placements.offset % kPlanHugePiece, 0u);
  Lane* lane = plan.arena().Take(recording.threads[0].path, 0, 0);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  uint64_t most_resident = 0;
  for (uint64_t i = 0; i < pairs; ++i) {
    char* block = Allocate(lane, 64, 4, site);
    ASSERT_EQ(block, plan.blocks());
    ASSERT_TRUE(lane->Free(block));
    if (i % (pairs / 64) == 0) most_resident = std::max(most_resident, plan.ResidentBytes());
  }
  EXPECT_EQ(plan.served(0).allocations, pairs);
  EXPECT_LE(most_resident, 2 * kPlanHugePiece + 4 * kPlanStretch);
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
  const auto allocate = [&](Lane* lane, uint32_t number) {
    return Allocate(lane, recording.allocations[number].size, 4,
                    SiteWordOf(recording, recording.allocations[number]));
  };
  for (const bool late : {false, true}) {
    plan.Restart();
    Lane* lane = plan.arena().Take(1, 0, 0);
    ASSERT_EQ(lane->plan()->box_bytes, (kMostLaneGranules + 255) / 256 * kBoxAlignment);
    LiveModel model;
    std::vector<char*> blocks(recording.allocations.size());
    for (const auto& [when, what] : EventsOf(recording)) {
      const uint32_t index = what & ~kDies;
      const uint64_t size = recording.allocations[index].size;
      if (what != index) {
        EXPECT_EQ(lane->UsableRemotely(blocks[index]), size);
        EXPECT_TRUE((late && index == 0) || lane->Free(blocks[index]));
        if (!late || index != 0) model.Free(blocks[index]);
        continue;
      }
      blocks[index] = allocate(lane, index);
      // Where the long one lies for longer, nothing else of its length can.
      ASSERT_EQ(blocks[index] == nullptr, late && index == 5);
      if (blocks[index] == nullptr) break;
      EXPECT_TRUE(late || blocks[index] == plan.blocks() + plan.built().offsets[index]);
      ASSERT_NO_FATAL_FAILURE(model.Place(blocks[index], size, 16));
    }
    if (late) {
      EXPECT_TRUE(lane->Free(blocks[4]));
      EXPECT_TRUE(lane->Free(blocks[0]));
    }
    EXPECT_TRUE(lane->Empty());
    EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
  }
}
#endif

// Pages that the plan leaves idle for long are given back, but for those of a block that has
// outlived its free.
TEST(LaneTest, PagesOfABlockThatIsLateAreNotGivenBack) {
  constexpr uint64_t kLong = 1 << 20;
  std::vector<Made> made = {{0, 1, kLong}};
  for (uint64_t i = 1; i <= 150'000; ++i) made.push_back({2 * i, 2 * i + 1, 16});
  trace::Recording recording = RecordingOf(made);
  for (trace::Allocation& allocation : recording.allocations) allocation.site = 0;
  ServedPlan plan(recording);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  for (const bool late : {false, true}) {
    plan.Restart();
    Lane* lane = plan.arena().Take(1, 0, 0);
    char* block = Allocate(lane, kLong, 4, site);
    std::memset(block, 1, kLong);
    EXPECT_TRUE(late || lane->Free(block));
    for (uint64_t i = 1; i <= 150'000; ++i) ASSERT_TRUE(lane->Free(Allocate(lane, 16, 4, site)));
    EXPECT_EQ(block[kLong / 2], late ? 1 : 0);
    EXPECT_EQ(plan.counters(0).blocked, late ? 150'000u : 0u);
    EXPECT_TRUE(!late || lane->Free(block));
    EXPECT_TRUE(lane->Empty());
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
    Lane* lane = plan.arena().Take(1, 0, 0);
    std::vector<char*> blocks(recording.allocations.size());
    uint64_t in_place = 0;
    const std::map<uint64_t, uint32_t> events = EventsOf(recording);
    for (auto event = events.begin(); event != events.end(); ++event) {
      const uint32_t index = event->second & ~kDies;
      const auto next = std::next(event);
      if (event->second != index) {
        const bool replaced = next != events.end() && (next->second & kDies) == 0 &&
                              recording.allocations[next->second].previous == index;
        if (!replaced) lane->Free(blocks[index]);
        continue;
      }
      const trace::Allocation& allocation = recording.allocations[index];
      const uint64_t site = SiteWordOf(recording, allocation);
      char* const planned = plan.blocks() + plan.built().offsets[index];
      if (allocation.previous == trace::kNone) {
        blocks[index] = Allocate(lane, allocation.size, allocation.log2_alignment, site);
      } else {
        blocks[index] = blocks[allocation.previous];
        const bool stays = planned == blocks[index];
        ASSERT_EQ(ReallocateInPlace(lane, blocks[index], allocation.size, site), stays);
        in_place += stays;
        if (!stays && one_step) {
          blocks[index] = static_cast<char*>(
              lane->ReallocateExpected(blocks[index], allocation.size, site, /*may_move=*/true));
        } else if (!stays) {
          lane->Free(blocks[index]);
          blocks[index] = Allocate(lane, allocation.size, 4, site);
        }
      }
      ASSERT_EQ(blocks[index], planned);
      ASSERT_TRUE(!noting || lane->Usable(blocks[index]) >= allocation.size);
    }
    EXPECT_EQ(plan.served(0).allocations, recording.allocations.size());
    EXPECT_EQ(static_cast<int64_t>(in_place), plan.built().reallocs_in_place);
    EXPECT_GT(in_place, 100u);
    EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
  }
}

// Between two blocks of 24 bytes is room for 32, but nobody would be told that all of them are
// there.
TEST(LaneTest, ABlockIsAsLongAsItsUsableSizeWhereverItLies) {
  const trace::Recording recording = RecordingOf({{0, 2, 24}, {1, 3, 24}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  for (const uint32_t number : {0, 1}) {
    char* block = Allocate(lane, 32, 4, SiteWordOf(recording, recording.allocations[number]));
    EXPECT_GE(lane->Usable(block), 32u);
  }
}

// Some allocators say that a block that was asked for with no bytes has none. It takes room all the
// same, when it outlives its free as well.
TEST(LaneTest, ABlockWithoutBytesTakesRoom) {
  trace::Recording recording = RecordingOf({{0, 2, 0}, {1, 6, 1000}, {3, 5, 16}, {4, 7, 16}});
  recording.usable_answers = {{0, 0}};
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[0], plan.built().offsets[2]);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const auto allocate = [&](uint32_t number) {
    const trace::Allocation& allocation = recording.allocations[number];
    return Allocate(lane, allocation.size, 4, SiteWordOf(recording, allocation));
  };
  char* empty = allocate(0);
  EXPECT_NE(allocate(1), nullptr);
  char* third = allocate(2);
  EXPECT_NE(third, empty);
  char* fourth = allocate(3);
  EXPECT_EQ(fourth, plan.blocks() + plan.built().offsets[3]);
  EXPECT_TRUE(lane->Free(empty));
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

// Nor is a block told to have fewer bytes than were asked for, because the recorded one, which took
// the same place and turn, had fewer.
TEST(LaneTest, WhatIsUsableIsEnoughForEveryRequestOfAShape) {
  trace::Recording recording = RecordingOf({{0, 1, 17}});
  recording.usable_answers = {{0, 17}};
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  char* block = Allocate(lane, 24, 4, SiteWordOf(recording, recording.allocations[0]));
  EXPECT_EQ(block, plan.blocks() + plan.built().offsets[0]);
  EXPECT_EQ(lane->Usable(block), 24u);
}

// A realloc that fails because its planned place, which begins where the old block does, is taken.
TEST(LaneTest, ReviveKeepsTheLengthOfItsBlock) {
  // An alignment of 8192 is too much for an annex.
  const trace::Recording recording = RecordingOf({{0, 2, 32}, {1, 3, 320, 13}, {4, 5, 640, 13}});
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[1], plan.built().offsets[2]);
  const auto site = [&](uint32_t number) {
    return SiteWordOf(recording, recording.allocations[number]);
  };
  Lane* lane = plan.arena().Take(1, 0, 0);
  char* kept = Allocate(lane, 32, 4, site(0));
  char* block = Allocate(lane, 320, 13, site(1));
  const uint64_t usable = lane->Usable(block);
  EXPECT_TRUE(lane->Free(block));
  ASSERT_EQ(Allocate(lane, 640, 13, site(2)), nullptr);
  lane->Revive(block, usable);
  EXPECT_EQ(lane->Usable(block), usable);
  EXPECT_TRUE(lane->Free(block));
  EXPECT_TRUE(lane->Free(kept));
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

}  // namespace
}  // namespace reprise::replay
