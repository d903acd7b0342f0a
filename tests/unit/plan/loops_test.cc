// Loops: found in recordings that have them, and planned so that every pass is valid.
#include "replay/plan/loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "planner/core/check.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_file.h"
#include "replay/plan/plan_verifier.h"
#include "tests/unit/plan/recordings.h"

namespace reprise::replay {
namespace {

std::vector<LaneLoops> Find(const trace::Recording& recording, LoopMode mode = LoopMode::kAuto) {
  return FindLoops(recording, BlockBytes(recording), recording.threads.size() > 1, mode);
}

BuiltPlan Build(const trace::Recording& recording, LoopMode mode, const Learned& learned = {},
                const std::string& strategy = "auto") {
  planner::Options options;
  options.strategy = strategy;
  options.budget_seconds = 0.02;
  options.threads = 1;
  absl::StatusOr<BuiltPlan> built = BuildPlan(recording, options, LaneMode::kThread, learned, mode);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

// The file of a plan, which passes the verifier.
PlanFile Verified(const BuiltPlan& built) {
  const std::string path = testing::TempDir() + "loops_test.plan";
  EXPECT_TRUE(WritePlanFile(path, built.bytes).ok());
  absl::StatusOr<PlanFile> file = PlanFile::Read(path);
  EXPECT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(VerifyPlan(*file, path).ok()) << VerifyPlan(*file, path);
  return *std::move(file);
}

TEST(LoopsTest, FindsTheLoopAndWhatItCarries) {
  LoopShape shape;
  shape.carried = 0.2;
  const trace::Recording recording = LoopRecording(shape, 1);
  const std::vector<LaneLoops> lanes = Find(recording);
  ASSERT_EQ(lanes.size(), 1u);
  ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
  const Loop& loop = lanes[0].loops[0];
  EXPECT_EQ(loop.iteration, 2 * shape.body);
  EXPECT_EQ(loop.allocations, shape.body);
  EXPECT_EQ(loop.unrolled, 1u);
  EXPECT_GE(loop.iterations(), shape.iterations - 4);
  EXPECT_GT(loop.carried, 0u);
}

TEST(LoopsTest, FindsAShortLoopBehindALongStart) {
  LoopShape shape;
  shape.iterations = 4;
  trace::Recording recording = LoopRecording(shape, 2);
  // What the program begins with lives to its end.
  constexpr uint32_t kStart = 20'000;
  for (trace::Allocation& it : recording.allocations) {
    it.birth += kStart;
    if (it.death != trace::kNever) it.death += kStart;
  }
  std::vector<trace::Allocation> all(kStart, recording.allocations[0]);
  for (uint32_t i = 0; i < kStart; ++i) {
    all[i].birth = i;
    all[i].death = kStart + recording.events + i;
    all[i].size = 8 + i * uint64_t{2654435761} % 1000;
  }
  all.insert(all.end(), recording.allocations.begin(), recording.allocations.end());
  recording.allocations = std::move(all);
  recording.events += 2 * kStart;
  recording.marks.clear();
  const std::vector<LaneLoops> lanes = Find(recording);
  ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
  EXPECT_EQ(lanes[0].loops[0].allocations, shape.body);
  EXPECT_GE(lanes[0].loops[0].begin, kStart);
}

TEST(LoopsTest, UnrollsTheBodyWhereBlocksLiveForSeveralIterations) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LoopShape shape;
    shape.longest = 3;
    shape.carried = 0.3;
    shape.iterations = 20;
    const std::vector<LaneLoops> lanes = Find(LoopRecording(shape, seed));
    ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
    EXPECT_GE(lanes[0].loops[0].unrolled, 2u);
    EXPECT_LE(lanes[0].loops[0].unrolled, 3u);
  }
}

TEST(LoopsTest, RefusesALoopWhoseBlocksPileUp) {
  trace::Recording recording = LoopRecording({.carried = 0}, 3);
  for (trace::Allocation& allocation : recording.allocations) {
    if (allocation.site == 0) allocation.death = trace::kNever;
  }
  const std::vector<LaneLoops> lanes = Find(recording);
  EXPECT_TRUE(lanes[0].loops.empty());
  EXPECT_THAT(lanes[0].refused, testing::ContainsRegex("outlives? the loop"));
}

TEST(LoopsTest, TheBodyBeginsAtAMarkWhereMarksAreAskedFor) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LoopShape shape;
    shape.threads = 1 + seed % 3;
    shape.carried = 0;
    for (const LaneLoops& lane : Find(LoopRecording(shape, seed), LoopMode::kMarks)) {
      ASSERT_EQ(lane.loops.size(), 1u) << lane.refused;
      EXPECT_THAT(lane.marks, testing::Contains(lane.loops[0].begin));
      EXPECT_EQ(lane.loops[0].iteration, 2 * shape.body);
      EXPECT_GE(lane.loops[0].iterations(), shape.iterations - 4);
    }
  }
}

TEST(LoopsTest, MarksFurtherApartMakeALongerIteration) {
  LoopShape shape;
  shape.iterations = 12;
  trace::Recording recording = LoopRecording(shape, 5);
  for (size_t i = 0; i < 4; ++i) recording.marks[i] = recording.marks[3 * i];
  recording.marks.resize(4);
  const std::vector<LaneLoops> lanes = Find(recording, LoopMode::kMarks);
  ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
  EXPECT_EQ(lanes[0].loops[0].iteration, 3 * 2 * shape.body);
  EXPECT_EQ(Find(recording)[0].loops[0].iteration, 2 * shape.body);
}

TEST(LoopsTest, MarksBetweenWhichNothingRepeatsAreRefused) {
  RecordingShape shape;
  trace::Recording recording = RandomRecording(shape, 4);
  EXPECT_EQ(Find(recording, LoopMode::kMarks)[0].refused, "the recording has no marks");
  recording.marks = {{100, 0}};
  EXPECT_EQ(Find(recording, LoopMode::kMarks)[0].refused, "there is one mark only");
  for (uint64_t event = 200; event < 1000; event += 100) recording.marks.push_back({event, 0});
  const LaneLoops lane = Find(recording, LoopMode::kMarks)[0];
  EXPECT_EQ(lane.refused, "no iterations between the 9 marks follow each other and are the same");
  EXPECT_TRUE(lane.loops.empty());
}

TEST(LoopsTest, RandomRecordingsHaveNone) {
  RecordingShape shape;
  shape.allocations = 20'000;
  for (const LaneLoops& lane : Find(RandomRecording(shape, 4))) EXPECT_TRUE(lane.loops.empty());
}

// The plan of a loop holds every pass of the recording, and its file passes the verifier.
TEST(LoopsTest, PlansAreValidForEveryPass) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    LoopShape shape;
    shape.threads = 1 + seed % 3;
    shape.longest = 1 + seed % 4;
    shape.iterations = 4 + seed % 30;
    shape.body = 10 + 7 * (seed % 40);
    shape.carried = 0.1 * static_cast<double>(seed % 5);
    const trace::Recording recording = LoopRecording(shape, seed);
    const BuiltPlan built = Build(recording, seed % 2 == 0 ? LoopMode::kAuto : LoopMode::kMarks);
    EXPECT_TRUE(planner::Check(WholeInstance(recording), built.offsets).valid);
    const auto offsets = PlanOffsets(Verified(built), recording);
    ASSERT_TRUE(offsets.ok()) << offsets.status();
    EXPECT_EQ(*offsets, built.offsets);
    if (shape.iterations >= 2 * shape.longest + 2) {
      EXPECT_EQ(built.loops.loops.size(), shape.threads);
    }
  }
}

TEST(LoopsTest, FreesThatFollowEachOtherComeInAnyOrder) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    LoopShape shape;
    shape.longest = 1 + seed % 2;
    shape.iterations = 12;
    shape.body = 40 + 7 * seed;
    shape.carried = 0.1 * static_cast<double>(seed % 3);
    trace::Recording recording = LoopRecording(shape, seed);
    ShuffleFrees(recording, seed);
    for (const LoopMode mode : {LoopMode::kAuto, LoopMode::kMarks}) {
      const BuiltPlan built = Build(recording, mode);
      ASSERT_FALSE(built.loops.loops.empty());
      EXPECT_GE(built.loops.loops[0].loop.iterations(), shape.iterations - 5);
      EXPECT_TRUE(planner::Check(WholeInstance(recording), built.offsets).valid);
      Verified(built);
    }
  }
}

// A carried block that was seen to live longer keeps its offset for as long.
TEST(LoopsTest, LearnsThatCarriedBlocksLiveLongerInTheNextIteration) {
  int learned_blocks = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    LoopShape shape;
    shape.carried = 0.4;
    shape.body = 60;
    const trace::Recording recording = LoopRecording(shape, seed);
    const LaneLoops lane = Find(recording)[0];
    ASSERT_EQ(lane.loops.size(), 1u) << lane.refused;
    // One that no clock changes.
    const std::string strategy = "greedy_by_size";
    const BuiltPlan before = Build(recording, LoopMode::kAuto, {}, strategy);
    for (const auto& [former, latter] : lane.same_offset) {
      planner::Instance lives = WholeInstance(recording);
      const uint64_t until = recording.allocations[latter].birth;
      lives.buffers[former].upper = static_cast<int64_t>(until);
      if (planner::Check(lives, before.offsets).valid) continue;
      Learned learned;
      learned.upper[former] = until;
      const BuiltPlan after = Build(recording, LoopMode::kAuto, learned, strategy);
      EXPECT_EQ(after.loops.loops.size(), 1u);
      EXPECT_TRUE(planner::Check(lives, after.offsets).valid) << seed << ": " << former;
      if (++learned_blocks % 3 == 0) break;  // one plan after the other takes its time
    }
  }
  EXPECT_GT(learned_blocks, 5);
}

}  // namespace
}  // namespace reprise::replay
