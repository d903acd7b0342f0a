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

TEST(LessonsTest, LessonsOfAnotherRecordingAreRefused) {
  const Recording recording = RandomRecording({}, 7);
  Squatter squatter = SquatterOf(recording, 100, trace::kNever);
  squatter.shape += 1;
  const auto code = [&](const Lessons& lessons) {
    return Learn(recording, lessons).status().code();
  };
  EXPECT_EQ(code({{squatter}}), absl::StatusCode::kInvalidArgument);
  squatter = SquatterOf(recording, 100, trace::kNever);
  squatter.allocation = recording.allocations.size();
  EXPECT_EQ(code({{squatter}}), absl::StatusCode::kInvalidArgument);
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
