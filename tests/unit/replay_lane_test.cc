// The lane against a model that keeps every live block in a map: whatever the program does, no two
// live blocks may share a byte, and nothing may be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/replay_recordings.h"
#include "tests/unit/replay_served_plan.h"

namespace reprise::replay {
namespace {

// What must be true of every block that a lane gives out.
class Model {
 public:
  void Place(char* pointer, uint64_t bytes, uint64_t alignment) {
    ASSERT_EQ(reinterpret_cast<uint64_t>(pointer) % alignment, 0u);
    const auto begin = reinterpret_cast<uint64_t>(pointer);
    const uint64_t end = begin + std::max<uint64_t>(bytes, 1);
    const auto after = live_.lower_bound(begin);
    if (after != live_.end()) {
      ASSERT_LE(end, after->first) << "overlaps the block above";
    }
    if (after != live_.begin()) {
      ASSERT_LE(std::prev(after)->second, begin) << "overlaps the block below";
    }
    live_[begin] = end;
  }
  void Free(char* pointer) { live_.erase(reinterpret_cast<uint64_t>(pointer)); }
  size_t size() const { return live_.size(); }

 private:
  std::map<uint64_t, uint64_t> live_;  // begin -> end
};

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
    const trace::Recording recording = RandomRecording(shape, seed);
    ServedPlan plan(recording, {}, crowded ? uint64_t{33} << 30 : 8 << 20);
    Lane* lane = plan.arena().Take(1, 0, 0);
    ASSERT_NE(lane, nullptr);
    EXPECT_EQ(lane->room().crowded, crowded);
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
    EXPECT_EQ(plan.counters(0).improvised, 0u);
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
  EXPECT_EQ(plan.counters(0).improvised, 0u);
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
    Model model;
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
  for (const uint32_t way : {0, 1, 2, 3}) {
    const bool noting = way % 2 == 1;
    const bool one_step = way / 2 == 1;
    RecordingShape shape;
    shape.allocations = 3000;
    shape.reallocs = 0.5;
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
  const trace::Recording recording = RandomRecording(shape, seed);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  ASSERT_NE(lane, nullptr);
  std::mt19937_64 random(seed);
  const auto chance = [&random](double share) {
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  };
  Model model;
  struct Block {
    char* pointer;
    uint64_t bytes;
    unsigned char pattern;
  };
  std::map<uint32_t, Block> live;  // by allocation; inserted ones from 2^31 on
  std::multimap<uint64_t, uint32_t> late;
  uint64_t served = 0;
  uint64_t invalid = 0;
  uint32_t inserted = 1u << 31;
  const auto allocate = [&](uint32_t index, uint64_t size, unsigned log2, uint64_t site) {
    char* pointer = Allocate(lane, size, log2, site);
    if (pointer == nullptr) return;  // the fallback's
    ++served;
    ASSERT_NO_FATAL_FAILURE(model.Place(pointer, size, uint64_t{1} << std::max(4u, log2)));
    ASSERT_GE(lane->Usable(pointer), size);
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
    lane->Free(block.pointer);
    model.Free(block.pointer);
    live.erase(found);
    if (chance(deviation.twice)) {
      ++invalid;
      lane->Free(block.pointer);
    }
  };

  // As replay does it: freed, placed anew, and only then are the bytes moved.
  const auto reallocate = [&](uint32_t index, uint64_t size, uint64_t site) {
    const auto found = live.find(index);
    if (found == live.end()) return;
    const Block old = found->second;
    char* pointer = old.pointer;
    const bool stays = ReallocateInPlace(lane, pointer, size, site);
    model.Free(old.pointer);
    if (!stays) {
      lane->Free(old.pointer);
      pointer = Allocate(lane, size, 4, site);
    }
    if (pointer == nullptr) {
      live.erase(found);
      return;
    }
    ++served;
    ASSERT_NO_FATAL_FAILURE(model.Place(pointer, size, 16));
    const uint64_t kept = std::min(size, old.bytes);
    std::memmove(pointer, old.pointer, kept);
    for (uint64_t i = 0; i < kept; ++i) {
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
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.served(0).allocations, served);
  EXPECT_EQ(plan.counters(0).invalid_frees, invalid);
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
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      ASSERT_NO_FATAL_FAILURE(RunDeviating(deviation, seed));
    }
  }
}

TEST(LaneTest, RareDeviationsCostOnlyAFewBlocks) {
  RecordingShape shape;
  shape.allocations = 20000;
  const trace::Recording recording = RandomRecording(shape, 7);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  uint64_t requests = 0;
  std::vector<char*> blocks(recording.allocations.size());
  for (const auto& [when, what] : EventsOf(recording)) {
    const uint32_t index = what & ~kDies;
    if (index % 1000 == 999) continue;  // one in a thousand is skipped
    const trace::Allocation& allocation = recording.allocations[index];
    if (what != index) {
      if (blocks[index] != nullptr) lane->Free(blocks[index]);
      continue;
    }
    blocks[index] = Allocate(lane, allocation.size, allocation.log2_alignment,
                             SiteWordOf(recording, allocation));
    ++requests;
  }
  EXPECT_GE(plan.served(0).allocations - plan.counters(0).improvised, requests * 98 / 100);
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
  Lane* lane = plan.arena().Take(1, 0, 0);
  ASSERT_NE(lane, nullptr);
  std::vector<char*> blocks(recording.allocations.size());
  const uint64_t freed_at = recording.allocations[kept].death + 800;
  for (const auto& [when, what] : EventsOf(recording)) {
    const uint32_t index = what & ~kDies;
    const trace::Allocation& allocation = recording.allocations[index];
    if (when == freed_at) lane->Free(blocks[kept]);
    if (what == index) {
      blocks[index] = static_cast<char*>(lane->Allocate(
          Shape(allocation.size, allocation.log2_alignment), SiteWordOf(recording, allocation)));
    } else if (index != kept) {
      lane->Free(blocks[index]);
    }
  }
  const uint64_t blocked = plan.counters(0).blocked;
  ASSERT_GT(blocked, 0u);
  uint64_t explained = 0;
  uint64_t missed = 0;
  bool found = false;
  for (const NotePage& page : plan.notes()) {
    EXPECT_EQ(page.ran_free_at, 0u);
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

TEST(LaneTest, PointersThatAreNoBlocksAreCountedAndIgnored) {
  const trace::Recording recording = RandomRecording({}, 11);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const trace::Allocation& first = recording.allocations[0];
  char* block = Allocate(lane, first.size, first.log2_alignment, SiteWordOf(recording, first));
  ASSERT_NE(block, nullptr);
  lane->Free(block + 1);
  lane->Free(lane->room().box + lane->room().annex_bytes / 2 / 16 * 16);
  lane->Free(lane->room().annex);
  EXPECT_EQ(plan.counters(0).invalid_frees, 3u);
  lane->Free(block);
  lane->Free(block);
  EXPECT_EQ(plan.counters(0).invalid_frees, 4u);
  EXPECT_TRUE(lane->Empty());
}

// Freed by another thread and by its owner, and then written to.
TEST(LaneTest, AListOfFreesThatWasOverwrittenDoesNoHarm) {
  const trace::Recording recording = RandomRecording({}, 12);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const trace::Allocation& first = recording.allocations[0];
  const uint64_t site = SiteWordOf(recording, first);
  char* block = Allocate(lane, std::max<uint64_t>(8, first.size), first.log2_alignment, site);
  lane->FreeRemotely(block);
  lane->Free(block);
  std::memset(block, 0x5a, 8);
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.counters(0).invalid_frees, 2u);
}

TEST(LaneTest, ReviveUndoesAFree) {
  const trace::Recording recording = RandomRecording({}, 12);
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const trace::Allocation& first = recording.allocations[0];
  char* block = Allocate(lane, first.size, first.log2_alignment, SiteWordOf(recording, first));
  const uint64_t usable = lane->Usable(block);
  lane->Free(block);
  lane->Revive(block, usable);
  EXPECT_GE(lane->Usable(block), first.size);
  EXPECT_FALSE(lane->Empty());
  lane->Free(block);
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

// The free of a block tells that the request before stood for a planned one of another length. What
// was planned in between goes by: the block's own free, and the next block at its place.
TEST(LaneTest, ABlockThatOutlivedItsFreeIsTheOneThatIsFreed) {
  const trace::Recording recording = RecordingOf({{0, 2, 16}, {1, 3, 320, 12}, {4, 5, 320, 12}});
  ServedPlan plan(recording);
  ASSERT_EQ(plan.built().offsets[1], plan.built().offsets[2]);
  Lane* lane = plan.arena().Take(1, 0, 0);
  char* first = Allocate(lane, 16, 4, SiteWordOf(recording, recording.allocations[0]));
  char* second = Allocate(lane, 320, 12, SiteWordOf(recording, recording.allocations[1]));
  char* longer = Allocate(lane, 400, 4, SiteWordOf(recording, recording.allocations[2]));
  EXPECT_TRUE(lane->Free(second));
  EXPECT_TRUE(lane->Free(longer));
  EXPECT_TRUE(lane->Free(first));
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.counters(0).invalid_frees, 0u);
}

// Requests that differ from the expected ones in nothing but their lengths: a shorter one lies
// where that one was to lie, a longer one elsewhere, and the lane follows its stream before and
// behind.
TEST(LaneTest, ARequestOfAnotherLengthTakesTheTurnOfTheExpectedOne) {
  const trace::Recording recording =
      RecordingOf({{0, 4, 64}, {1, 5, 64}, {2, 6, 320}, {3, 7, 64}, {8, 9, 64}});
  ServedPlan plan(recording);
  Lane* lane = plan.arena().Take(1, 0, 0);
  const auto site = [&](uint32_t number) {
    return SiteWordOf(recording, recording.allocations[number]);
  };
  const auto planned = [&](uint32_t number) {
    return plan.blocks() + plan.built().offsets[number];
  };
  char* shorter = Allocate(lane, 30, 4, site(0));
  EXPECT_EQ(shorter, planned(0));
  EXPECT_EQ(lane->Usable(shorter), 64u);
  EXPECT_EQ(AllocateExpected(lane, 64, site(1)), planned(1));
  char* longer = Allocate(lane, 500, 4, site(2));
  EXPECT_FALSE(lane->Contains(longer));
  EXPECT_GE(lane->Usable(longer), 500u);
  EXPECT_EQ(AllocateExpected(lane, 64, site(3)), planned(3));
  EXPECT_FALSE(lane->TakesCare());
  EXPECT_TRUE(lane->FreeExpected(shorter));
  EXPECT_TRUE(lane->FreeExpected(planned(1)));
  EXPECT_TRUE(lane->Free(longer));
  EXPECT_TRUE(lane->FreeExpected(planned(3)));
  EXPECT_EQ(AllocateExpected(lane, 64, site(4)), planned(4));
  EXPECT_TRUE(lane->FreeExpected(planned(4)));
  EXPECT_TRUE(lane->Empty());
  EXPECT_EQ(plan.counters(0).unmatched, 2u);
  EXPECT_EQ(plan.counters(0).improvised, 1u);
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
  Lane* lane = plan.arena().Take(1, 0, 0);
  const uint64_t site = SiteWordOf(recording, recording.allocations[0]);
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(lane->Free(Allocate(lane, 16 * (1 + i * i % 8 * 3 % 8), 4, site)));
  }
  EXPECT_TRUE(lane->running_free());
  EXPECT_TRUE(lane->Empty());
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
