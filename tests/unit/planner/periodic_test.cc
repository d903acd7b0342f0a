// Periodic instances: the reduction, the checker and every strategy against a loop that is run
// instant by instant.
#include "planner/core/periodic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/check_periodic.h"
#include "planner/solve.h"
#include "tests/unit/effort.h"
#include "tests/unit/planner/periodic_random.h"
#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

using Kind = Violation::Kind;

Instance Of(std::vector<Buffer> buffers) {
  Instance instance;
  instance.buffers = std::move(buffers);
  return instance;
}

Options With(const std::string& strategy) {
  Options options;
  options.strategy = strategy;
  options.budget_seconds = kAmple;
  options.iterations = 4;
  options.threads = 1;
  return options;
}

Options Exact() {
  Options options = With("exact_search");
  options.iterations = 0;  // until it is proven
  return options;
}

TEST(PeriodicTest, WhatIsLiveAcrossTheEndOfThePeriodKeepsItsOffset) {
  // 0 and 1 are live across the end; 2 fits between them; 3 meets both.
  const Instance instance = Of({{6, 12, 4}, {8, 11, 2}, {3, 6, 6}, {0, 2, 1}});
  const auto plan = SolvePeriodic(instance, 10, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->first_slot, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(plan->plan.max_load, 7);
  EXPECT_EQ(plan->plan.makespan, 7);
  EXPECT_TRUE(plan->plan.proven_optimal);
  const Periodic periodic{instance, 10};
  EXPECT_TRUE(Unrolled(periodic).Overlaps(plan->plan.offsets).empty());
}

TEST(PeriodicTest, SlotsAreTheCopiesLiveAtOneTime) {
  EXPECT_EQ(Slots({0, 1, 1}, 10), 1);
  EXPECT_EQ(Slots({3, 13, 1}, 10), 1);
  EXPECT_EQ(Slots({3, 14, 1}, 10), 2);
  EXPECT_EQ(Slots({9, 29, 1}, 10), 2);
  EXPECT_EQ(Slots({9, 30, 1}, 10), 3);
  const Instance instance = Of({{9, 30, 8}, {0, 5, 3}});
  EXPECT_EQ(FirstSlots(instance, 10), (std::vector<uint32_t>{0, 3, 4}));
  const auto plan = SolvePeriodic(instance, 10, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Three copies from 9 to 10 only; of two slots in turn none is ever free for long enough.
  EXPECT_EQ(plan->plan.max_load, 24);
  EXPECT_EQ(plan->plan.makespan, 27);
  EXPECT_EQ(plan->plan.lower_bound, 27);
}

TEST(PeriodicTest, ALifetimeOfOnePeriodTakesOneSlotAtAnyPhase) {
  const Instance instance = Of({{7, 17, 8}, {2, 5, 4}, {6, 9, 4}});
  const auto plan = SolvePeriodic(instance, 10, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.offsets.size(), 3);
  EXPECT_EQ(plan->plan.makespan, 12);
}

// Time begins where nothing is live, so strategies that make no use of gaps lose nothing.
TEST(PeriodicTest, ALoopWithAnIdlePhaseReducesToAnInstanceWithoutGaps) {
  const Instance instance = Of({{6, 13, 4}, {8, 11, 2}, {2, 3, 6}, {4, 5, 1}});
  const Instance reduced = Reduce(instance, 10);
  EXPECT_TRUE(reduced.gaps.empty());
  EXPECT_EQ(reduced.buffers[0].upper - reduced.buffers[0].lower, 7);
  EXPECT_TRUE(Validate(reduced).ok());
}

TEST(PeriodicTest, AnInstanceWithinThePeriodIsKeptAsItIs) {
  const Instance instance = Of({{0, 4, 4}, {2, 10, 2}, {4, 9, 6}});
  const Instance reduced = Reduce(instance, 10);
  ASSERT_EQ(reduced.buffers.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reduced.buffers[i].lower, instance.buffers[i].lower);
    EXPECT_EQ(reduced.buffers[i].upper, instance.buffers[i].upper);
  }
}

TEST(PeriodicTest, ExactSearchFindsTheOptimumOfTheUnrolledLoop) {
  constexpr uint64_t kInstances = Rounds(12'000);
  size_t crossing = 0, several = 0, above_load = 0;
  for (uint64_t seed = 0; seed < kInstances; ++seed) {
    const Periodic it = RandomPeriodic(seed, {.long_lived = seed % 2 == 0});
    const auto plan = SolvePeriodic(it.instance, it.period, Exact());
    ASSERT_TRUE(plan.ok()) << plan.status() << " seed " << seed;
    const int64_t optimum = PeriodicOptimum(it).makespan();
    ASSERT_EQ(plan->plan.makespan, optimum) << "seed " << seed;
    ASSERT_TRUE(plan->plan.proven_optimal) << "seed " << seed;
    ASSERT_EQ(plan->plan.lower_bound, optimum) << "seed " << seed;
    crossing += Reduce(it.instance, it.period).gaps.empty() ? 0 : 1;
    several += plan->plan.offsets.size() > it.instance.buffers.size() ? 1 : 0;
    above_load += optimum > plan->plan.max_load ? 1 : 0;
  }
  EXPECT_GT(crossing, kInstances / 8);
  EXPECT_GT(several, kInstances / 8);
  EXPECT_GT(above_load, kInstances / 20);
}

TEST(PeriodicTest, EveryStrategyMakesValidPlans) {
  for (const StrategyInfo& info : Strategies()) {
    if (!info.alias_of.empty() || info.name == "mip") continue;
    const Options options = With(std::string(info.name));
    for (uint64_t seed = 0; seed < Rounds(60); ++seed) {
      const bool constrained = seed % 3 == 0;
      const Periodic it =
          RandomPeriodic(seed + 100'000, {.most_slots = 10, .constrained = constrained});
      const auto plan = SolvePeriodic(it.instance, it.period, options);
      ASSERT_TRUE(plan.ok()) << info.name << " seed " << seed << ": " << plan.status();
      const Unrolled unrolled(it);
      ASSERT_EQ(plan->plan.offsets.size(), unrolled.slots());
      EXPECT_TRUE(unrolled.Overlaps(plan->plan.offsets).empty()) << info.name << " seed " << seed;
      EXPECT_LE(plan->plan.lower_bound, plan->plan.makespan);
    }
  }
}

// Placement in an order uses the gap: the third buffer lies where the first one is not live.
TEST(PeriodicTest, TheseStrategiesUseTheTimeInWhichACrossingBufferIsNotLive) {
  // At every instant something is live, so that some buffer is live across every cut.
  const Instance instance = Of({{8, 13, 8}, {2, 5, 8}, {4, 9, 8}});
  for (const char* name : {"first_fit_by_size", "best_fit_by_size", "first_fit_by_lifespan",
                           "greedy_by_size", "idealloc", "auto", "exact_search", "valley_search",
                           "ejection_search", "sampled_orders", "peak_sweep"}) {
    const auto plan = SolvePeriodic(instance, 10, With(name));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->plan.makespan, plan->plan.lower_bound) << name;
  }
}

TEST(PeriodicTest, TheOptimumDoesNotDependOnWhereThePeriodBegins) {
  for (uint64_t seed = 0; seed < Rounds(300); ++seed) {
    Periodic it = RandomPeriodic(seed + 200'000, {});
    const auto first = SolvePeriodic(it.instance, it.period, Exact());
    ASSERT_TRUE(first.ok());
    for (Buffer& b : it.instance.buffers) {
      const int64_t lifetime = b.upper - b.lower;
      b.lower = (b.lower + 1) % it.period;
      b.upper = b.lower + lifetime;
    }
    const auto second = SolvePeriodic(it.instance, it.period, Exact());
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(first->plan.makespan, second->plan.makespan) << "seed " << seed;
    EXPECT_EQ(first->plan.max_load, second->plan.max_load) << "seed " << seed;
  }
}

TEST(PeriodicTest, TheMaxLoadIsThatOfTheSteadyState) {
  for (uint64_t seed = 0; seed < Rounds(2000); ++seed) {
    const Periodic it = RandomPeriodic(seed + 300'000, {.most_slots = 9, .constrained = true});
    ASSERT_TRUE(ValidatePeriodic(it.instance, it.period).ok());
    EXPECT_EQ(PeriodicMaxLoad(it.instance, it.period), Unrolled(it).MaxLoad()) << "seed " << seed;
  }
}

TEST(CheckPeriodicTest, ReportsPairsThatMeetInSomeIterationAndNoOthers) {
  std::mt19937_64 random(5);
  size_t valid = 0;
  for (uint64_t seed = 0; seed < Rounds(4000); ++seed) {
    Periodic it = RandomPeriodic(
        seed + 400'000, {.most_slots = 6, .longest_period = 6, .constrained = seed % 2 == 0});
    it.instance.fixed_offsets.clear();
    it.instance.alignments.clear();
    it.instance.start_address = 0;
    const Unrolled unrolled(it);
    std::vector<int64_t> offsets;
    for (size_t s = 0; s < unrolled.slots(); ++s) {
      offsets.push_back(static_cast<int64_t>(random() % 40) / it.instance.alignment *
                        it.instance.alignment);
    }
    const CheckResult check = CheckPeriodic(it.instance, it.period, offsets, 1000);
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    for (const Violation& v : check.violations) {
      EXPECT_EQ(v.kind, Violation::Kind::kOverlap);
      EXPECT_TRUE(pairs.insert({v.first, v.second}).second) << "seed " << seed;
    }
    const auto all = unrolled.Overlaps(offsets);
    EXPECT_TRUE(std::includes(all.begin(), all.end(), pairs.begin(), pairs.end()))
        << "seed " << seed;
    EXPECT_EQ(check.valid, all.empty()) << "seed " << seed;
    EXPECT_EQ(check.valid, pairs.empty());
    EXPECT_EQ(check.max_load, unrolled.MaxLoad()) << "seed " << seed;
    valid += check.valid ? 1 : 0;
  }
  EXPECT_GT(valid, Rounds(200));
}

TEST(CheckPeriodicTest, ReportsAddressesThatAreNone) {
  Instance instance = Of({{0, 25, 8}, {0, 5, 8}});
  instance.alignment = 8;
  instance.fixed_offsets = {Instance::kFree, 32};
  const auto kinds = [&](const std::vector<int64_t>& offsets) {
    std::multiset<Kind> all;
    for (const Violation& v : CheckPeriodic(instance, 10, offsets).violations) all.insert(v.kind);
    return all;
  };
  EXPECT_EQ(kinds({0, 8, 16, 32}), (std::multiset<Kind>{}));
  EXPECT_EQ(kinds({0, 8, 20, 32}), (std::multiset<Kind>{Kind::kMisaligned}));
  const Violation misaligned = CheckPeriodic(instance, 10, {0, 8, 20, 32}).violations[0];
  EXPECT_THAT(DescribePeriodic(misaligned, instance, 10, {0, 8, 20, 32}),
              testing::EndsWith("expected an address that is a multiple of 8, found 20"));
  EXPECT_EQ(kinds({0, 8, 16, 24}), (std::multiset<Kind>{Kind::kMoved}));
  EXPECT_EQ(kinds({-8, 8, 16, 32}), (std::multiset<Kind>{Kind::kNegativeOffset}));
  EXPECT_EQ(kinds({0, 0, 16, 32}), (std::multiset<Kind>{Kind::kOverlap}));
  EXPECT_EQ(kinds({0, 8, 32, 32}), (std::multiset<Kind>{Kind::kOverlap}));
  EXPECT_EQ(kinds({INT64_MAX - 7, 8, 16, 32}), (std::multiset<Kind>{Kind::kOverflow}));
}

TEST(CheckPeriodicTest, MessagesNameTheSlot) {
  const Instance instance = Of({{0, 25, 8}, {0, 5, 8}});
  const std::vector<int64_t> offsets = {0, 8, 16, 20};
  const CheckResult check = CheckPeriodic(instance, 10, offsets);
  ASSERT_EQ(check.violations.size(), 1);
  EXPECT_EQ(DescribePeriodic(check.violations[0], instance, 10, offsets),
            "buffer 0 in slot 2 of 3 (live [0, 25), offset 16, size 8) and buffer 1 (live [0, 5), "
            "offset 20, size 8) share memory while both are live in some iterations of the period "
            "10");
}

std::string Refusal(const Instance& instance, int64_t period) {
  const auto plan = SolvePeriodic(instance, period, Exact());
  EXPECT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(PeriodicTest, RefusesWhatIsNotPeriodic) {
  EXPECT_EQ(Refusal(Of({{0, 1, 1}}), 0), "expected a period from 1 to 2^59 - 1, found 0");
  EXPECT_EQ(Refusal(Of({{0, 1, 1}}), -5), "expected a period from 1 to 2^59 - 1, found -5");
  EXPECT_EQ(Refusal(Of({{10, 11, 1}}), 10),
            "buffer 0: expected lower in [0, 10), the period, found 10");
  EXPECT_EQ(Refusal(Of({{-1, 3, 1}}), 10),
            "buffer 0: expected lower in [0, 10), the period, found -1");
  EXPECT_EQ(Refusal(Of({{0, INT64_MAX, 1}}), 10),
            "buffer 0: expected upper below 2^59, found 9223372036854775807");
  EXPECT_EQ(Refusal(Of({{0, int64_t{1} << 40, 1}}), 10),
            "buffer 0: expected at most 4194304 copies of buffers that are live for more than a "
            "period, found at least 109951162778");
  EXPECT_EQ(Refusal(Of({{0, 1000, int64_t{1} << 55}}), 1),
            "buffer 0: the sum of the sizes of all copies is above 2^61");
  Instance fixed = Of({{0, 5, 1}, {0, 25, 1}});
  fixed.fixed_offsets = {8, 16};
  EXPECT_EQ(Refusal(fixed, 10),
            "buffer 1: it is live for more than a period, so it has 3 offsets in turn: expected no "
            "fixed offset, found 16");
  Instance gaps = Of({{0, 5, 1}, {0, 25, 1}});
  gaps.gaps = {{0, 1, 2, 0, 0}, {1, 3, 4, 0, 0}};
  EXPECT_EQ(Refusal(gaps, 10),
            "buffer 1: it is live for more than a period, so it has 3 offsets in turn: expected no "
            "gaps");
}

TEST(PeriodicTest, CapacityIsKept) {
  Instance instance = Of({{9, 30, 8}, {0, 5, 3}});
  instance.capacity = 26;
  EXPECT_EQ(SolvePeriodic(instance, 10, Exact()).status().message(),
            "does not fit into 26 bytes: at least 27 needed");
  instance.capacity = 27;
  EXPECT_TRUE(SolvePeriodic(instance, 10, Exact()).ok());
}

TEST(PeriodicTest, NoBuffersNeedNoMemory) {
  const auto plan = SolvePeriodic(Instance{}, 10, With("auto"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.makespan, 0);
  EXPECT_EQ(plan->first_slot, std::vector<uint32_t>{0});
}

}  // namespace
}  // namespace reprise::planner
