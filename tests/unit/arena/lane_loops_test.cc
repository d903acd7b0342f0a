// A lane with a loop, whose program goes through it more or less often than the recording did, or
// does something else in an iteration.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "replay/plan/loops.h"
#include "tests/unit/arena/live_model.h"
#include "tests/unit/plan/recordings.h"
#include "tests/unit/plan/served_plan.h"

namespace reprise::replay {
namespace {

// A thread that makes more or fewer passes than were recorded.
struct Played {
  ServedPlan& plan;
  ServedThread thread;
  LiveModel model;
  std::map<uint32_t, std::deque<std::pair<char*, uint64_t>>> live;  // by the body's allocation
  uint64_t allocations = 0;
  uint64_t differing = 0;
  uint32_t deeper = 0;  // than recorded is the stack, in units of a site's depth

  explicit Played(ServedPlan& by, uint64_t path = 1) : plan(by), thread(by, path) {}

  void Do(const trace::Recording& recording, uint32_t step, uint32_t name) {
    if ((step & kStepFrees) != 0) {
      std::deque<std::pair<char*, uint64_t>>& blocks = live[name];
      ASSERT_FALSE(blocks.empty());
      const auto [pointer, size] = blocks.front();
      blocks.pop_front();
      for (uint64_t i = 0; i < size; ++i) {
        ASSERT_EQ(pointer[i], static_cast<char>(reinterpret_cast<uint64_t>(pointer) >> 4));
      }
      model.Free(pointer);
      ASSERT_TRUE(thread.Free(pointer));
      return;
    }
    const trace::Allocation& like = recording.allocations[step];
    const uint64_t site = SiteWordOf(recording, like);
    Allocate(like.size, LiveSite(AddressOfSite(site), DepthOfSite(site) + deeper), name);
  }
  void Allocate(uint64_t size, uint64_t site, uint32_t name) {
    char* pointer = thread.Allocate(size, 4, site);
    ASSERT_NE(pointer, nullptr);
    ++allocations;
    ASSERT_NO_FATAL_FAILURE(model.Place(pointer, size, 16));
    std::memset(pointer, static_cast<char>(reinterpret_cast<uint64_t>(pointer) >> 4), size);
    live[name].emplace_back(pointer, size);
  }
};

// Steps before the loop, of one iteration, and behind, with names that are the same in every
// iteration.
struct Parts {
  std::vector<std::pair<uint32_t, uint32_t>> prefix, body, suffix;  // step, name

  // Of a recording with one thread and one loop.
  Parts(const trace::Recording& recording, const LaneLoops& lane) {
    const Loop& loop = lane.loops[0];
    std::vector<uint32_t> name(recording.allocations.size());
    for (uint32_t at = 0; at < lane.steps.size(); ++at) {
      const uint32_t step = lane.steps[at], allocation = step & ~kStepFrees;
      if (step == allocation) {
        name[allocation] = allocation;
        // Back to the first iteration that the repeat has; what the prefix carries in was like it.
        if (at >= loop.begin + loop.iteration && at < loop.end()) {
          name[allocation] = name[lane.steps[at - loop.iteration]];
        }
      }
    }
    // A block of the prefix that the body frees is called as the body's.
    for (uint32_t at = loop.begin; at < loop.begin + loop.iteration; ++at) {
      const uint32_t step = lane.steps[at];
      if ((step & kStepFrees) == 0) continue;
      name[step & ~kStepFrees] = name[(step & ~kStepFrees) + loop.allocations];
    }
    for (uint32_t at = 0; at < lane.steps.size(); ++at) {
      auto& part = at < loop.begin ? prefix : at < loop.end() ? body : suffix;
      if (&part == &body && at >= loop.begin + loop.iteration) continue;
      part.emplace_back(lane.steps[at], name[lane.steps[at] & ~kStepFrees]);
    }
  }
};

TEST(LaneLoopsTest, ServesAnyNumberOfIterationsAsPlanned) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    LoopShape shape;
    shape.body = 10 + 40 * static_cast<uint32_t>(seed % 6);
    shape.carried = 0.2;
    const trace::Recording recording = LoopRecording(shape, seed);
    const std::vector<LaneLoops> lanes = FindLoops(recording, BlockBytes(recording), false);
    ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
    ASSERT_EQ(lanes[0].loops[0].unrolled, 1u);
    const Parts parts(recording, lanes[0]);
    ServedPlan plan(recording);
    for (const uint32_t iterations : {0, 1, 2, 7, 8, 9, 10, 100, 777}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << iterations << " iterations");
      plan.Restart();
      Played run(plan);
      const auto play = [&](const auto& part) {
        for (const auto& [step, name] : part) {
          ASSERT_NO_FATAL_FAILURE(run.Do(recording, step, name));
        }
      };
      ASSERT_NO_FATAL_FAILURE(play(parts.prefix));
      for (uint32_t i = 0; i < iterations; ++i) ASSERT_NO_FATAL_FAILURE(play(parts.body));
      ASSERT_NO_FATAL_FAILURE(play(parts.suffix));
      EXPECT_EQ(plan.served(0).planned, run.allocations);
      EXPECT_EQ(plan.Elsewhere(), 0u);
      EXPECT_EQ(plan.counters(0).diverged_at, 0u);
      EXPECT_EQ(plan.served(0).iterations, iterations);
      run.thread.End();
    }
  }
}

// Frees that follow each other come in another order in each iteration, and every block lies where
// the plan has it all the same. At the end one iteration may be begun in vain.
TEST(LaneLoopsTest, ServesIterationsThatFreeInAnotherOrderAsPlanned) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    LoopShape shape;
    shape.body = 100 + 40 * static_cast<uint32_t>(seed % 6);
    shape.carried = 0.2;
    trace::Recording recording = LoopRecording(shape, seed);
    ShuffleFrees(recording, seed);
    const std::vector<LaneLoops> lanes = FindLoops(recording, BlockBytes(recording), false);
    ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
    ASSERT_EQ(lanes[0].loops[0].unrolled, 1u);
    const Parts parts(recording, lanes[0]);
    ServedPlan plan(recording);
    std::mt19937_64 random(seed);
    for (const uint32_t iterations : {1, 2, 9, 100}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << iterations << " iterations");
      plan.Restart();
      Played run(plan);
      const auto play = [&](auto part) {
        const auto frees = [](const auto& it) { return (it.first & kStepFrees) != 0; };
        for (auto first = part.begin(); first != part.end();) {
          const auto end = std::find_if_not(first, part.end(), frees);
          std::shuffle(first, end, random);
          first = end != part.end() ? end + 1 : end;
        }
        for (const auto& [step, name] : part) {
          ASSERT_NO_FATAL_FAILURE(run.Do(recording, step, name));
        }
      };
      ASSERT_NO_FATAL_FAILURE(play(parts.prefix));
      for (uint32_t i = 0; i < iterations; ++i) ASSERT_NO_FATAL_FAILURE(play(parts.body));
      ASSERT_NO_FATAL_FAILURE(play(parts.suffix));
      EXPECT_GE(plan.served(0).planned + shape.body, run.allocations);
      EXPECT_GE(plan.served(0).iterations, iterations);
      run.thread.End();
    }
  }
}

TEST(LaneLoopsTest, ServesCallsOfALoopFromAnotherDepthAsPlanned) {
  const LoopShape shape;
  const trace::Recording recording = LoopRecording(shape, 3);
  const std::vector<LaneLoops> lanes = FindLoops(recording, BlockBytes(recording), false);
  ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
  const Parts parts(recording, lanes[0]);
  ServedPlan plan(recording);
  Played run(plan);
  const auto play = [&](const auto& part) {
    for (const auto& [step, name] : part) {
      ASSERT_NO_FATAL_FAILURE(run.Do(recording, step, name));
    }
  };
  ASSERT_NO_FATAL_FAILURE(play(parts.prefix));
  for (uint32_t i = 0; i < 50; ++i) {
    run.deeper = i < 4 ? 0 : i % 3;
    ASSERT_NO_FATAL_FAILURE(play(parts.body));
  }
  run.deeper = 0;
  ASSERT_NO_FATAL_FAILURE(play(parts.suffix));
  EXPECT_EQ(plan.served(0).planned, run.allocations);
  EXPECT_EQ(plan.Elsewhere(), 0u);
  EXPECT_EQ(plan.served(0).iterations, 50u);
  run.thread.End();
}

TEST(LaneLoopsTest, AnIterationThatDiffersCostsThatIterationOnly) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    LoopShape shape;
    shape.body = 300;
    shape.carried = 0.05;
    const trace::Recording recording = LoopRecording(shape, seed);
    const std::vector<LaneLoops> lanes = FindLoops(recording, BlockBytes(recording), false);
    ASSERT_EQ(lanes[0].loops.size(), 1u) << lanes[0].refused;
    const Parts parts(recording, lanes[0]);
    ServedPlan plan(recording);
    Played run(plan);
    std::mt19937_64 random(seed);
    const auto play = [&](const auto& part) {
      for (const auto& [step, name] : part) {
        ASSERT_NO_FATAL_FAILURE(run.Do(recording, step, name));
      }
    };
    ASSERT_NO_FATAL_FAILURE(play(parts.prefix));
    for (uint32_t i = 0; i < 50; ++i) ASSERT_NO_FATAL_FAILURE(play(parts.body));
    // Between two iterations, or in the middle of one: 400 requests that the plan does not have.
    const size_t middle = seed % 2 == 0 ? 0 : random() % parts.body.size();
    for (size_t at = 0; at < parts.body.size(); ++at) {
      if (at == middle) {
        for (uint32_t k = 0; k < 400; ++k) {
          ASSERT_NO_FATAL_FAILURE(run.Allocate(1 + random() % 900, 0x999990 + k % 7, trace::kNone));
        }
      }
      ASSERT_NO_FATAL_FAILURE(run.Do(recording, parts.body[at].first, parts.body[at].second));
    }
    const uint64_t elsewhere = plan.Elsewhere();
    EXPECT_GE(elsewhere, 400u);
    EXPECT_LE(elsewhere, 400u + shape.body);
    ASSERT_NO_FATAL_FAILURE(play(parts.body));
    const uint64_t then = plan.Elsewhere();
    for (uint32_t i = 0; i < 50; ++i) ASSERT_NO_FATAL_FAILURE(play(parts.body));
    EXPECT_LE(then, elsewhere + 20);
    EXPECT_EQ(plan.Elsewhere(), then);
    EXPECT_TRUE(run.thread.Follows());
    EXPECT_EQ(plan.served(0).planned + plan.Elsewhere(), run.allocations);
    ASSERT_NO_FATAL_FAILURE(play(parts.suffix));
    run.thread.End();
  }
}

}  // namespace
}  // namespace reprise::replay
