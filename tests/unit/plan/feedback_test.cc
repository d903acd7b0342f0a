// What a plan makes of what replays taught.
#include "replay/plan/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "planner/core/check.h"
#include "planner/solve.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_encoder.h"
#include "replay/plan/plan_format.h"
#include "tests/unit/plan/recordings.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::Recording;

uint64_t ShapeOf(const Allocation& allocation) {
  return Shape(allocation.size, allocation.log2_alignment);
}

// Which of its thread's allocations this one is.
uint64_t OrdinalOf(const Recording& recording, uint32_t index) {
  uint64_t ordinal = 0;
  for (uint32_t i = 0; i < index; ++i) {
    ordinal += recording.allocations[i].thread == recording.allocations[index].thread ? 1 : 0;
  }
  return ordinal;
}

Squatter SquatterOf(const Recording& recording, uint32_t index, uint64_t freed_before) {
  const Allocation& allocation = recording.allocations[index];
  return {recording.threads[allocation.thread].path, OrdinalOf(recording, index),
          ShapeOf(allocation), freed_before};
}

uint32_t FirstFreed(const Recording& recording) {
  return static_cast<uint32_t>(
      std::find_if(
          recording.allocations.begin(), recording.allocations.end(),
          [](const Allocation& allocation) { return allocation.death < allocation.birth + 20; }) -
      recording.allocations.begin());
}

// The end of every life, longer where that was learned.
planner::Instance Longer(const Recording& recording, const Learned& learned) {
  planner::Instance instance = WholeInstance(recording);
  for (const auto& [allocation, upper] : learned.upper) {
    instance.buffers[allocation].upper = static_cast<int64_t>(upper);
  }
  return instance;
}

BuiltPlan Build(const Recording& recording, const Learned& learned) {
  planner::Options options;
  options.budget_seconds = 0.05;
  options.threads = 1;
  absl::StatusOr<BuiltPlan> built = BuildPlan(recording, options, LaneMode::kThread, learned);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

TEST(LessonsTest, TheLongestLifeThatWasSeenCounts) {
  RecordingShape shape;
  shape.threads = 2;
  const Recording recording = RandomRecording(shape, 1);
  const uint32_t index = FirstFreed(recording);
  const uint64_t ordinal = OrdinalOf(recording, index);
  Lessons lessons;
  lessons.squatters = {SquatterOf(recording, index, ordinal + 40),
                       SquatterOf(recording, index, ordinal + 100),
                       SquatterOf(recording, index, ordinal + 1)};
  const absl::StatusOr<Learned> learned = Learn(recording, lessons);
  ASSERT_TRUE(learned.ok()) << learned.status();
  ASSERT_EQ(learned->upper.size(), 1u);
  const uint32_t thread = recording.allocations[index].thread;
  const auto next = std::find_if(
      recording.allocations.begin(), recording.allocations.end(), [&](const Allocation& other) {
        const auto at = static_cast<uint32_t>(&other - recording.allocations.data());
        return other.thread == thread && OrdinalOf(recording, at) == ordinal + 100;
      });
  EXPECT_EQ(learned->upper.at(index), next->birth);
}

TEST(LessonsTest, NothingIsPlannedOverALearnedLife) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    RecordingShape shape;
    shape.threads = seed % 3 + 1;
    const Recording recording = RandomRecording(shape, seed);
    Lessons lessons;
    for (uint32_t i = 0; i < recording.allocations.size(); i += 9) {
      const uint64_t until = i % 2 == 0 ? trace::kNever : OrdinalOf(recording, i) + i % 50;
      lessons.squatters.push_back(SquatterOf(recording, i, until));
    }
    const absl::StatusOr<Learned> learned = Learn(recording, lessons);
    ASSERT_TRUE(learned.ok()) << learned.status();
    ASSERT_GT(learned->upper.size(), 20u);
    const BuiltPlan built = Build(recording, *learned);
    EXPECT_EQ(built.learned, static_cast<int64_t>(learned->upper.size()));
    EXPECT_EQ(built.max_load, planner::MaxLoad(WholeInstance(recording)));
    EXPECT_TRUE(planner::Check(Longer(recording, *learned), built.offsets).valid);
  }
}

// A crowded kind's places overlap with nobody else's, at whatever time.
TEST(LessonsTest, ReservedPlacesAreNobodyElses) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    RecordingShape shape;
    shape.threads = seed % 2 + 1;
    const Recording recording = RandomRecording(shape, seed);
    const Allocation& like = recording.allocations[10 * seed];
    const uint64_t lane = recording.threads[like.thread].path;
    Lessons lessons;
    lessons.kinds = {{lane, ShapeOf(like), recording.sites[like.site], 1000}};
    lessons.annex_bytes[lane] = 1 << 20;
    const absl::StatusOr<Learned> learned = Learn(recording, lessons);
    ASSERT_TRUE(learned.ok()) << learned.status();
    const BuiltPlan built = Build(recording, *learned);
    EXPECT_EQ(built.learned, static_cast<int64_t>(learned->kind.size()));
    EXPECT_TRUE(planner::Check(WholeInstance(recording), built.offsets).valid);
    const BlockBytes bytes(recording);
    for (const auto& [own, kind] : learned->kind) {
      for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
        if (recording.allocations[i].thread != like.thread || learned->kind.contains(i)) continue;
        const bool apart = built.offsets[i] >= built.offsets[own] + int64_t(bytes[own]) ||
                           built.offsets[own] >= built.offsets[i] + int64_t(bytes[i]);
        ASSERT_TRUE(apart) << own << " and " << i;
      }
    }
  }
}

TEST(LessonsTest, NoMoreIsReservedThanWasImprovised) {
  const Recording recording = RandomRecording({}, 5);
  Lessons lessons;
  for (const Allocation& allocation : recording.allocations) {
    lessons.kinds.push_back({1, ShapeOf(allocation), recording.sites[allocation.site], 3});
  }
  planner::Instance instance = WholeInstance(recording);
  std::vector<uint32_t> members(recording.allocations.size());
  for (uint32_t i = 0; i < members.size(); ++i) members[i] = i;
  const absl::StatusOr<Learned> learned = Learn(recording, lessons);
  ASSERT_TRUE(learned.ok()) << learned.status();
  int64_t before = -1;
  for (const uint64_t most : {0, 1000, 10000, 1 << 30}) {
    const Reserved reserved = ReservePlaces(instance, *learned, members, most);
    EXPECT_LE(reserved.bytes, static_cast<int64_t>(most));
    EXPECT_GT(reserved.bytes, before);
    before = reserved.bytes;
    const auto stay =
        std::count(reserved.offset.begin(), reserved.offset.end(), Reserved::kNotReserved);
    EXPECT_EQ(static_cast<size_t>(stay), reserved.others.buffers.size());
  }
  EXPECT_EQ(Build(recording, *learned).learned, 0) << "nothing was improvised";
}

TEST(LessonsTest, LessonsOfAnotherRecordingAreRefused) {
  const Recording recording = RandomRecording({}, 7);
  Squatter squatter = SquatterOf(recording, 100, trace::kNever);
  squatter.shape += 1;
  const auto code = [&](const Lessons& lessons) {
    return Learn(recording, lessons).status().code();
  };
  EXPECT_EQ(code({{squatter}, {}, {}}), absl::StatusCode::kInvalidArgument);
  squatter = SquatterOf(recording, 100, trace::kNever);
  squatter.allocation = recording.allocations.size();
  EXPECT_EQ(code({{squatter}, {}, {}}), absl::StatusCode::kInvalidArgument);
  // A kind alone may just be unknown.
  const absl::StatusOr<Learned> none =
      Learn(recording, {{}, {{1, Shape(12345, 4), recording.sites[0], 5}}, {}});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->kind.empty());
}

TEST(LessonsTest, RecordingsAreToldApart) {
  Recording recording = RandomRecording({}, 9);
  const uint64_t hash = HashRecording(recording);
  EXPECT_EQ(hash, HashRecording(RandomRecording({}, 9)));
  recording.allocations[500].size += 1;
  EXPECT_NE(hash, HashRecording(recording));
  EXPECT_NE(hash, HashRecording(RandomRecording({}, 10)));
}

}  // namespace
}  // namespace reprise::replay
