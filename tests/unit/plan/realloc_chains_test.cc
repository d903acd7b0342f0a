// Blocks that grow, planned with their final size.
#include "replay/plan/realloc_chains.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/core/check.h"
#include "planner/solve.h"
#include "replay/plan/plan_builder.h"
#include "tests/unit/plan/recordings.h"

namespace reprise::replay {
namespace {

using planner::Buffer;
using planner::Instance;

Instance InstanceOf(std::vector<Buffer> buffers) {
  Instance instance;
  instance.buffers = std::move(buffers);
  instance.alignment = 16;
  return instance;
}

TEST(ChainsTest, ABlockThatGrowsIsOneBuffer) {
  // 16, 32 and 64 bytes, one after the other; later 1600 bytes are live.
  const Instance instance =
      InstanceOf({{0, 1, 16}, {2, 3, 32}, {4, 5, 64}, {6, 9, 800}, {7, 9, 800}});
  const Chains chains = JoinChains(instance, {kNoBuffer, 0, 1, kNoBuffer, kNoBuffer});
  EXPECT_EQ(chains.links, 2u);
  ASSERT_EQ(chains.joined.buffers.size(), 3u);
  EXPECT_EQ(chains.joined.buffers[0].lower, 0);
  EXPECT_EQ(chains.joined.buffers[0].upper, 5);
  EXPECT_EQ(chains.joined.buffers[0].size, 64);
  EXPECT_EQ(chains.buffer_of, (std::vector<uint32_t>{0, 0, 0, 1, 2}));
}

TEST(ChainsTest, NothingIsJoinedThatWouldRaiseThePeak) {
  // While the block is short the rest of memory is full.
  const Instance instance = InstanceOf({{0, 3, 160}, {1, 3, 1600}, {4, 6, 1760}});
  EXPECT_EQ(JoinChains(instance, {kNoBuffer, kNoBuffer, 0}).links, 0u);
}

TEST(ChainsTest, TheLongestMoveComesFirst) {
  // There is room for one of two chains: the one that moves 320 bytes, not the one that moves 16.
  const Instance instance = InstanceOf(
      {{0, 4, 16}, {1, 4, 320}, {2, 3, 160}, {5, 10, 640}, {6, 10, 336}, {11, 12, 1056}});
  const Chains chains = JoinChains(instance, {kNoBuffer, kNoBuffer, kNoBuffer, 1, 0, kNoBuffer});
  EXPECT_EQ(chains.links, 1u);
  EXPECT_EQ(chains.buffer_of[1], chains.buffer_of[3]);
  EXPECT_NE(chains.buffer_of[0], chains.buffer_of[4]);
}

TEST(ChainsTest, TheStrictestAlignmentHolds) {
  Instance instance = InstanceOf({{0, 1, 64}, {2, 3, 96}, {4, 5, 4096}});
  instance.alignments = {64, 16, 16};
  const Chains chains = JoinChains(instance, {kNoBuffer, 0, kNoBuffer});
  EXPECT_EQ(chains.joined.alignments, (std::vector<int64_t>{64, 16}));
}

// As a damaged recording may have them.
TEST(ChainsTest, WhatIsNoChainIsLeftAlone) {
  const Instance instance =
      InstanceOf({{0, 9, 16}, {1, 2, 16}, {3, 4, 16}, {5, 6, 16}, {10, 11, 1600}});
  // A successor that is born too early, two successors of one buffer, a buffer that replaces a
  // later one, and one that replaces itself.
  const Chains chains = JoinChains(instance, {3, 0, 1, 1, 4});
  EXPECT_EQ(chains.links, 1u);
  EXPECT_EQ(chains.joined.buffers.size(), 4u);
}

TEST(ChainsTest, OffsetsOfChainsAreAPlan) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    RecordingShape shape;
    shape.allocations = 400;
    shape.reallocs = 0.4;
    const trace::Recording recording = RandomRecording(shape, seed);
    const Instance instance = WholeInstance(recording);
    std::vector<uint32_t> previous;
    for (const trace::Allocation& allocation : recording.allocations) {
      previous.push_back(allocation.previous == trace::kNone ? kNoBuffer : allocation.previous);
    }
    const Chains chains = JoinChains(instance, previous);
    ASSERT_GT(chains.links, 0u);
    EXPECT_EQ(chains.joined.buffers.size() + chains.links, instance.buffers.size());
    EXPECT_TRUE(planner::Validate(chains.joined).ok());
    EXPECT_EQ(planner::MaxLoad(chains.joined), planner::MaxLoad(instance));
    const auto by_birth = [](const Buffer& a, const Buffer& b) { return a.lower < b.lower; };
    EXPECT_TRUE(
        std::is_sorted(chains.joined.buffers.begin(), chains.joined.buffers.end(), by_birth));
    planner::Options options;
    options.strategy = "greedy_by_size";
    const auto plan = planner::Solve(chains.joined, options);
    ASSERT_TRUE(plan.ok());
    std::vector<int64_t> offsets;
    for (const uint32_t buffer : chains.buffer_of) offsets.push_back(plan->offsets[buffer]);
    EXPECT_TRUE(planner::Check(instance, offsets, 1).valid) << seed;
  }
}

// A plan that keeps blocks where they are needs no more memory than the one that moves them.
TEST(ChainsTest, PlansAreNoLonger) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RecordingShape shape;
    shape.allocations = 300;
    shape.reallocs = 0.3;
    trace::Recording recording = RandomRecording(shape, seed);
    planner::Options options;
    options.iterations = 2;
    options.threads = 1;
    const auto in_place = BuildPlan(recording, options, LaneMode::kThread);
    ASSERT_TRUE(in_place.ok());
    EXPECT_GT(in_place->reallocs_in_place, in_place->reallocs / 5);
    for (trace::Allocation& allocation : recording.allocations) allocation.previous = trace::kNone;
    const auto moving = BuildPlan(recording, options, LaneMode::kThread);
    ASSERT_TRUE(moving.ok());
    EXPECT_LE(in_place->makespan, moving->makespan) << seed;
  }
}

}  // namespace
}  // namespace reprise::replay
