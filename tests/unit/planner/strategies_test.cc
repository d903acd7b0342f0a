// Every strategy, on every small instance, against brute force; and what must not change an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <thread>

#include "planner/core/check.h"
#include "planner/core/parallel.h"
#include "planner/solve.h"
#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

std::string NameOf(const testing::TestParamInfo<std::string>& info) { return info.param; }

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const StrategyInfo& info : Strategies()) {
    if (info.alias_of.empty()) names.emplace_back(info.name);
  }
  return names;
}

class StrategyTest : public testing::TestWithParam<std::string> {
 protected:
  Options options() const {
    Options options;
    options.strategy = GetParam();
    options.budget_seconds = 0.02;
    options.iterations = 8;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(All, StrategyTest, testing::ValuesIn(Names()), NameOf);

TEST_P(StrategyTest, IsValidAndNeverBelowTheOptimum) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 1 + static_cast<int>(seed % 8);
    const Instance instance = RandomInstance(seed, shape);
    const auto plan = Solve(instance, options());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(OverlapsByBrute(instance, plan->offsets).empty());
    EXPECT_EQ(plan->max_load, MaxLoadByBrute(instance));
    const int64_t optimum = OptimumByBrute(instance).makespan();
    EXPECT_GE(plan->makespan, optimum);
    EXPECT_LE(plan->lower_bound, optimum);
    if (plan->proven_optimal) {
      EXPECT_EQ(plan->makespan, optimum);
    }
  }
}

TEST_P(StrategyTest, KeepsGapsAlignmentsAndFixedOffsets) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 1 + static_cast<int>(seed % 12);
    shape.constrained = true;
    const Instance instance = RandomInstance(seed, shape);
    const auto plan = Solve(instance, options());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(OverlapsByBrute(instance, plan->offsets).empty());
    EXPECT_EQ(plan->max_load, MaxLoadByBrute(instance));
    EXPECT_TRUE(Check(instance, plan->offsets).valid);
    EXPECT_GE(plan->makespan, plan->lower_bound);
  }
}

// Half of an earlier plan is given: the searches that know given addresses grow around them.
TEST_P(StrategyTest, KeepsWhatAnEarlierPlanSays) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 2 + static_cast<int>(seed % 20);
    Instance instance = RandomInstance(seed, shape);
    Options exact = options();
    exact.strategy = "exact_search";
    const auto before = Solve(instance, exact);
    ASSERT_TRUE(before.ok()) << before.status();
    instance.fixed_offsets = before->offsets;
    for (size_t i = seed % 2; i < instance.buffers.size(); i += 2) {
      instance.fixed_offsets[i] = Instance::kFree;
    }
    const auto plan = Solve(instance, options());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(OverlapsByBrute(instance, plan->offsets).empty());
    EXPECT_TRUE(Check(instance, plan->offsets).valid);
  }
}

TEST_P(StrategyTest, NothingToPlan) {
  const auto plan = Solve({}, options());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->makespan, 0);
  EXPECT_TRUE(plan->offsets.empty());
}

TEST_P(StrategyTest, SizesNearTheLimit) {
  Instance instance;
  instance.buffers = {{0, 10, int64_t{1} << 59}, {5, 15, int64_t{1} << 59}, {12, 20, 1}};
  const auto plan = Solve(instance, options());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GE(plan->makespan, int64_t{1} << 60);
}

// A lifetime may be longer than any time.
TEST_P(StrategyTest, AllOfTime) {
  Instance instance;
  for (int64_t i = 0; i < 40; ++i) {
    instance.buffers.push_back({INT64_MIN + i % 3, INT64_MAX - i % 5, 1 + i * i % 7});
    instance.buffers.push_back({i * (INT64_MAX / 40), (i + 1) * (INT64_MAX / 40), 1 + i});
  }
  const auto plan = Solve(instance, options());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(Check(instance, plan->offsets).valid);
}

TEST_P(StrategyTest, TheSameSeedGivesTheSamePlan) {
  Shape shape;
  shape.buffers = 60;
  shape.horizon = 40;
  shape.most = 100;
  if (GetParam() == "mip") {  // CBC's cuts before the first branch take their time
    shape.buffers = 14;
    shape.horizon = 20;
  }
  Options first = options();
  first.budget_seconds = kAmple;
  first.threads = 1;
  Options second = first;
  second.threads = 4;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    shape.constrained = seed >= 4;
    const Instance instance = RandomInstance(seed, shape);
    EXPECT_EQ(Solve(instance, first)->offsets, Solve(instance, second)->offsets);
  }
}

// What a worker throws ends the others, and comes out of the call.
TEST(ParallelForTest, Throws) {
  for (const int64_t thrower : {0, 1, 7, 50}) {
    std::atomic<int64_t> started = 0;
    EXPECT_THROW(ParallelFor(4, 1'000'000'000,
                             [&](int64_t index, int) {
                               ++started;
                               if (index == thrower) throw std::bad_alloc();
                               return true;
                             }),
                 std::bad_alloc);
    EXPECT_LT(started, 1'000'000'000);
  }
}

// Large enough for every stage of `auto`, too hard to be solved by the first one.
TEST(SolveTest, ThreadsDoNotChangeThePlanOfAPortfolio) {
  Shape shape;
  shape.buffers = 700;
  shape.horizon = 1500;
  shape.most = 100'000;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Instance instance = RandomInstance(seed, shape);
    Options options;
    options.iterations = 40;
    options.budget_seconds = 1000;
    options.seed = seed;
    options.threads = 1;
    const auto one = Solve(instance, options);
    options.threads = 3;
    const auto three = Solve(instance, options);
    ASSERT_TRUE(one.ok() && three.ok());
    EXPECT_EQ(one->offsets, three->offsets);
    EXPECT_EQ(one->strategy, three->strategy);
    EXPECT_EQ(one->lower_bound, three->lower_bound);
  }
}

// Parts that never meet in time are searched one by one, in slices.
TEST(SolveTest, ThreadsDoNotChangeThePlanOfParts) {
  Shape shape;
  shape.buffers = 250;
  shape.horizon = 500;
  shape.most = 100'000;
  Instance instance;
  for (uint64_t part = 0; part < 3; ++part) {
    for (Buffer b : RandomInstance(part + 7, shape).buffers) {
      b.lower += 1000 * static_cast<int64_t>(part);
      b.upper += 1000 * static_cast<int64_t>(part);
      b.size *= 16 << part;  // each in units of its own
      instance.buffers.push_back(b);
    }
  }
  Options options;
  options.iterations = 100;
  options.budget_seconds = 1000;
  options.threads = 1;
  const auto one = Solve(instance, options);
  options.threads = 3;
  const auto three = Solve(instance, options);
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->offsets, three->offsets);
  EXPECT_EQ(one->strategy, three->strategy);
  EXPECT_EQ(one->lower_bound, three->lower_bound);
}

TEST_P(StrategyTest, CancelledBeforeItStartsStillHasAPlan) {
  const std::atomic<bool> cancel = true;
  Shape shape;
  shape.buffers = 2000;
  shape.horizon = 1000;
  Options cancelled = options();
  cancelled.cancel = &cancel;
  const auto plan = Solve(RandomInstance(1, shape), cancelled);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GE(plan->makespan, plan->max_load);
}

// The one instance in half a million random ones of eight buffers whose optimum is not its max
// load.
TEST(BoundTest, AnOptimumAboveTheMaxLoadIsProven) {
  Instance instance;
  instance.buffers = {{3, 4, 7},  {4, 10, 4},  {2, 6, 5},  {0, 3, 3},
                      {9, 14, 7}, {10, 12, 8}, {6, 10, 2}, {4, 8, 5}};
  ASSERT_EQ(OptimumByBrute(instance).makespan(), 16);
  const auto plan = Solve(instance, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_load, 15);
  EXPECT_EQ(plan->lower_bound, 16);
  EXPECT_EQ(plan->makespan, 16);
  EXPECT_TRUE(plan->proven_optimal);
}

// What is true of the optimum is true of every bound and of what a full search finds.
TEST(MetamorphicTest, ShiftingTimeAndPermutingBuffersKeepLoadAndOptimum) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Shape shape;
    shape.buffers = 6;
    const Instance instance = RandomInstance(seed, shape);
    Instance moved = instance;
    for (Buffer& b : moved.buffers) {
      b.lower = b.lower * 1000 - 77'000;
      b.upper = b.upper * 1000 - 77'000;
    }
    std::mt19937_64 random(seed);
    std::shuffle(moved.buffers.begin(), moved.buffers.end(), random);
    // A stranger that meets nobody.
    moved.buffers.push_back({1'000'000, 2'000'000, 1});
    EXPECT_EQ(MaxLoad(instance), MaxLoad(moved));
    const auto a = Solve(instance, {});
    const auto b = Solve(moved, {});
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->lower_bound, b->lower_bound);
    if (a->proven_optimal && b->proven_optimal) {
      EXPECT_EQ(a->makespan, b->makespan);
    }
  }
}

// Parts that never meet are planned as if alone: the whole needs what the greatest part needs.
TEST(MetamorphicTest, SplittingAtZeroLoadKeepsTheMaximum) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Shape shape;
    shape.buffers = 6;
    const Instance first = RandomInstance(seed, shape);
    const Instance second = RandomInstance(seed + 1000, shape);
    Instance both = first;
    for (Buffer b : second.buffers) both.buffers.push_back({b.lower + 100, b.upper + 100, b.size});
    EXPECT_EQ(MaxLoad(both), std::max(MaxLoad(first), MaxLoad(second)));
    const auto plan = Solve(both, {});
    ASSERT_TRUE(plan.ok());
    const int64_t optimum =
        std::max(OptimumByBrute(first).makespan(), OptimumByBrute(second).makespan());
    EXPECT_GE(plan->makespan, optimum);
    if (plan->proven_optimal) {
      EXPECT_EQ(plan->makespan, optimum);
    }
  }
}

// Closed [b, d] is [b, d + 1); open (b, d), with deaths before births, is [b, d) already. The pairs
// that meet and the max load are those of the source.
TEST(MetamorphicTest, OtherLifetimesBecomeHalfOpen) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Shape shape;
    shape.buffers = 10;
    const Instance source = RandomInstance(seed, shape);
    for (const bool closed : {true, false}) {
      // Twice as many instants: the odd ones lie between the ends.
      const auto live = [&](const Buffer& b, int64_t t) {
        return closed ? 2 * b.lower <= t && t <= 2 * b.upper : 2 * b.lower < t && t < 2 * b.upper;
      };
      int64_t most = 0;
      for (int64_t t = 0; t <= 2 * shape.horizon; ++t) {
        int64_t load = 0;
        for (const Buffer& b : source.buffers) load += live(b, t) ? b.size : 0;
        most = std::max(most, load);
      }
      Instance half_open = source;
      for (Buffer& b : half_open.buffers) b.upper += closed ? 1 : 0;
      EXPECT_EQ(MaxLoad(half_open), most);
      for (size_t i = 0; i < source.buffers.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          bool meet = false;
          for (int64_t t = 0; t <= 2 * shape.horizon; ++t) {
            meet = meet || (live(source.buffers[i], t) && live(source.buffers[j], t));
          }
          const Buffer& x = half_open.buffers[i];
          const Buffer& y = half_open.buffers[j];
          EXPECT_EQ(x.lower < y.upper && y.lower < x.upper, meet);
        }
      }
    }
  }
}

// Five thousand million pairs overlap: a strategy that wrote them down would not end here.
TEST_P(StrategyTest, ACliqueOfAHundredThousand) {
  Instance instance;
  for (int64_t i = 0; i < 100'000; ++i) {
    instance.buffers.push_back({i % 500, 1000 + i % 700, 16 + i % 64});
  }
  // And what makes it a little less simple.
  for (int64_t i = 0; i < 1000; ++i) instance.buffers.push_back({1700 + i, 1702 + i, 7 + i % 5});
  const auto plan = Solve(instance, options());
  ASSERT_TRUE(plan.ok()) << plan.status();
  if (GetParam() == "auto") {
    EXPECT_EQ(plan->makespan, plan->max_load);
  }
}

// From another thread, at any moment: whatever was reached by then is a plan.
TEST_P(StrategyTest, CancelledWhileItSearches) {
  Shape shape;
  shape.buffers = 400;
  shape.horizon = 300;
  shape.most = 1'000'000;
  const Instance instance = RandomInstance(2, shape);
  for (const int wait : {1, 5, 20}) {  // milliseconds
    std::atomic<bool> cancel = false;
    Options endless = options();
    endless.iterations = 0;
    endless.budget_seconds = 1e6;
    endless.cancel = &cancel;
    const std::jthread user([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(wait));
      cancel = true;
    });
    const auto plan = Solve(instance, endless);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(Check(instance, plan->offsets).valid);
  }
}

// However long its order would take to place: a sweep takes its place in time.
TEST_P(StrategyTest, NoBudget) {
  Shape shape;
  shape.buffers = 3000;
  shape.horizon = 50;
  const Instance instance = RandomInstance(4, shape);
  Options none = options();
  none.iterations = 0;
  none.budget_seconds = 0;
  const auto plan = Solve(instance, none);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(Check(instance, plan->offsets).valid);
}

// Given addresses float: nothing need be below them, and much can be around them.
TEST(SolveTest, GivenOffsetsAgainstBruteForce) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 6;
    Instance instance = RandomInstance(seed, shape);
    std::mt19937_64 random(seed);
    instance.fixed_offsets.assign(shape.buffers, Instance::kFree);
    for (int i = 0; i < 2; ++i) {
      instance.fixed_offsets[random() % shape.buffers] = static_cast<int64_t>(random() % 12);
    }
    Options options;
    options.iterations = 100;
    options.budget_seconds = kAmple;
    const auto plan = Solve(instance, options);
    if (!plan.ok()) continue;  // they contradict each other
    ++solved;
    const int64_t optimum = OptimumByBrute(instance).makespan();
    EXPECT_EQ(plan->makespan, optimum);
    EXPECT_LE(plan->lower_bound, optimum);
    options.threads = 3;
    EXPECT_EQ(Solve(instance, options)->offsets, plan->offsets);
  }
  EXPECT_GT(solved, 100);
}

// Gaps, windows, alignments and given offsets: what is called optimal is, and no bound is above it.
TEST(SolveTest, ConstraintsAgainstBruteForce) {
  int proven = 0;
  int above_the_load = 0;
  for (uint64_t seed = 0; seed < 210; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 2 + static_cast<int>(seed % 7);
    shape.most = 5;
    shape.constrained = true;
    Instance instance = RandomInstance(seed, shape);
    if (seed % 2 == 0) {  // gaps in which nothing is in use
      for (Gap& gap : instance.gaps) gap.window_lower = gap.window_upper = 0;
    }
    for (const char* strategy : {"exact_search", "auto"}) {
      Options options;
      options.strategy = strategy;
      options.iterations = 60;
      options.budget_seconds = kAmple;
      const auto plan = Solve(instance, options);
      ASSERT_TRUE(plan.ok()) << plan.status();
      std::vector<int64_t> offsets;
      EXPECT_TRUE(plan->lower_bound == 0 || !FitsByBrute(instance, plan->lower_bound - 1, offsets));
      proven += plan->proven_optimal ? 1 : 0;
      above_the_load += plan->proven_optimal && plan->makespan > plan->max_load ? 1 : 0;
    }
  }
  EXPECT_GT(proven, 380);
  EXPECT_GT(above_the_load, 70);
}

// Three that overlap in pairs, but never all at once.
TEST(BoundTest, GapsThatDoNotHelp) {
  Instance instance;
  instance.buffers = {{0, 6, 4}, {0, 6, 4}, {2, 6, 4}};
  instance.gaps = {{0, 2, 4}, {1, 4, 6}};
  const auto plan = Solve(instance, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_load, 8);
  EXPECT_EQ(plan->lower_bound, 12);
  EXPECT_TRUE(plan->proven_optimal);
}

// Four bytes are free below what is given, but of threes only one goes there.
TEST(BoundTest, HolesThatCannotBeFilled) {
  Instance instance;
  for (int i = 0; i < 40; ++i) instance.buffers.push_back({0, 100 + i, 3});
  instance.buffers.push_back({0, 10, 10});
  instance.fixed_offsets.assign(41, Instance::kFree);
  instance.fixed_offsets.back() = 4;
  const auto plan = Solve(instance, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->lower_bound, 14 + 39 * 3);
  EXPECT_TRUE(plan->proven_optimal);
}

// Whatever the order, threes at multiples of four leave a byte between them, which only ones fill.
TEST(BoundTest, WhatAlignmentWastes) {
  for (const int ones : {0, 1, 5}) {
    SCOPED_TRACE(ones);
    Instance instance;
    for (int i = 0; i < 5; ++i) instance.buffers.push_back({i, 10, 3});
    instance.alignments.assign(5, 4);
    for (int i = 0; i < ones; ++i) instance.buffers.push_back({9, 12, 1});
    instance.alignments.resize(instance.buffers.size(), 1);
    Options options;
    options.strategy = "first_fit_by_size";
    const auto plan = Solve(instance, options);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->max_load, 15 + ones);
    EXPECT_EQ(plan->lower_bound, std::max(19, 15 + ones));
    EXPECT_TRUE(plan->proven_optimal);
  }
}

// Too many are live for all their orders, but five of them decide.
TEST(BoundTest, WhatAlignmentWastesAmongMany) {
  Instance instance;
  for (int i = 0; i < 30; ++i) instance.buffers.push_back({i, 100, 1});
  for (int i = 0; i < 5; ++i) instance.buffers.push_back({50 + i, 90, 33});
  instance.alignments.assign(30, 1);
  instance.alignments.resize(35, 64);
  Options options;
  options.strategy = "first_fit_by_size";
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_load, 30 + 5 * 33);
  EXPECT_EQ(plan->lower_bound, 4 * 64 + 33);
  EXPECT_TRUE(plan->proven_optimal);
}

TEST(SolveTest, ImprovementsAreReportedInOrder) {
  Shape shape;
  shape.buffers = 200;
  shape.horizon = 100;
  shape.most = 1000;
  const Instance instance = RandomInstance(3, shape);
  std::vector<int64_t> seen;
  Options options;
  options.budget_seconds = 0.2;
  options.on_improvement = [&](int64_t makespan, std::string_view) { seen.push_back(makespan); };
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok());
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), plan->makespan);
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_LT(seen[i], seen[i - 1]);
}

// A linear program of CBC may take many times the budget; it is stopped within.
TEST(MipTest, EndsInTime) {
  const std::vector<std::string> names = Names();
  if (std::find(names.begin(), names.end(), "mip") == names.end()) GTEST_SKIP() << "no CBC";
  Shape shape;
  shape.buffers = 190;
  shape.horizon = 400;
  shape.most = 1000;
  Options options;
  options.strategy = "mip";
  options.budget_seconds = 0.3;
  options.threads = 1;
  const Instance instance = RandomInstance(1, shape);
  const double start = CpuSeconds();
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(CpuSeconds() - start, 5 * options.budget_seconds);
}

}  // namespace
}  // namespace reprise::planner
