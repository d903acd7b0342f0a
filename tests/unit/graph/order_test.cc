// The order of execution: searches against the exact dynamic program.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <set>

#include "planner/graph/beam.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/local_search.h"
#include "planner/graph/low_orders.h"
#include "planner/graph/memory_model.h"
#include "planner/graph/olla_ilp.h"
#include "planner/graph/plan_graph.h"
#include "planner/graph/reorder.h"
#include "tests/unit/effort.h"
#include "tests/unit/graph/random.h"

namespace reprise::planner::graph {
namespace {

bool KeepsDependencies(const PreparedGraph& flow, const std::vector<uint32_t>& order) {
  if (order.size() != flow.nodes) return false;
  const std::vector<uint32_t> place = Places(order);
  for (uint32_t i = 0; i < flow.nodes; ++i) {
    if (order[place[i]] != i) return false;
    for (const uint32_t before : flow.predecessors[i]) {
      if (place[before] >= place[i]) return false;
    }
  }
  return true;
}

// Wide, so that there is something to choose.
absl::StatusOr<PreparedGraph> RandomFlow(uint64_t seed, int nodes) {
  GraphShape shape;
  shape.nodes = nodes;
  shape.streams = 1;
  shape.tensors = nodes + static_cast<int>(seed % 5);
  shape.reach = 3 + static_cast<int>(seed % 10);
  shape.most = 100;
  shape.constrained = seed % 3 == 2;
  Graph graph = RandomGraph(seed, shape);
  for (Node& node : graph.nodes) node.order.reset();
  return PrepareGraph(graph);
}

TEST(Order, LoadsBackwardsAreTheSame) {
  for (uint64_t seed = 0; seed < Rounds(20'000); ++seed) {
    const absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 2 + static_cast<int>(seed % 10));
    if (!flow.ok()) continue;
    std::vector<uint32_t> backwards(flow->sequence.rbegin(), flow->sequence.rend());
    const int64_t peak = Peak(*flow, flow->sequence);
    ASSERT_EQ(PeakOf(MakeMemoryModel(*flow, false), flow->sequence), peak) << "seed " << seed;
    ASSERT_EQ(PeakOf(MakeMemoryModel(*flow, true), backwards), peak) << "seed " << seed;
  }
}

TEST(Order, BeamWithoutWidthIsTheExactProgram) {
  for (uint64_t seed = 0; seed < Rounds(3'000); ++seed) {
    const absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 2 + static_cast<int>(seed % 9));
    if (!flow.ok()) continue;
    const int64_t least = LeastPeakByAntichains(*flow);
    ASSERT_LE(OrderBound(*flow), least) << "seed " << seed;
    for (const bool backwards : {false, true}) {
      const MemoryModel model = MakeMemoryModel(*flow, backwards);
      BeamOptions options;
      options.width = 1 << 20;
      BeamOutcome outcome = SearchOrders(model, options, [] { return false; });
      ASSERT_TRUE(outcome.exhausted);
      ASSERT_EQ(outcome.peak, least) << "seed " << seed << " backwards " << backwards;
      if (backwards) std::reverse(outcome.order.begin(), outcome.order.end());
      ASSERT_TRUE(KeepsDependencies(*flow, outcome.order));
      ASSERT_EQ(Peak(*flow, outcome.order), least);
      // Nothing is below the optimum.
      options.limit = least;
      outcome = SearchOrders(model, options, [] { return false; });
      ASSERT_TRUE(outcome.order.empty());
      ASSERT_TRUE(outcome.exhausted);
    }
  }
}

// Cuts rule out no order below the mark; the bounds that they give hold.
TEST(Order, LowOrdersKeepThePrecedencesOfCuts) {
  int refuted = 0, found = 0;
  for (uint64_t seed = 0; seed < Rounds(10'000); ++seed) {
    absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 2 + static_cast<int>(seed % 9));
    if (!flow.ok()) continue;
    const int64_t least = LeastPeakByAntichains(*flow);
    const auto go_on = [] { return false; };
    LowOrders low(*flow);
    const int64_t mark = least + 1 + static_cast<int64_t>(seed % 7);
    ASSERT_TRUE(low.Tighten(mark, go_on)) << "seed " << seed;
    ASSERT_TRUE(low.Tighten(least + 1, go_on)) << "seed " << seed;
    refuted += !LowOrders(*flow).Tighten(least, go_on);
    refuted += !low.Tighten(least, go_on);
    // Of all orders that keep the precedences one is of the least peak, and so with either order
    // of two more nodes where that is not ruled out.
    low = LowOrders(*flow);
    ASSERT_TRUE(low.Tighten(least + 1, go_on));
    const size_t before = flow->successors.items.size();
    flow->successors = low.Successors();
    const MemoryModel model = MakeMemoryModel(*flow, false);
    found += flow->successors.items.size() > before;
    flow->predecessors = model.predecessors;
    ASSERT_EQ(LeastPeakByAntichains(*flow), least) << "seed " << seed;
    const auto [first, second] = low.Critical();
    if (first == kNone) continue;
    LowOrders other = low;
    low.Add(first, second);
    other.Add(second, first);
    ASSERT_TRUE(low.Tighten(least + 1, go_on) || other.Tighten(least + 1, go_on))
        << "seed " << seed;
  }
  EXPECT_GT(refuted, Rounds(10'000));
  EXPECT_GT(found, Rounds(100));
}

TEST(Order, ReorderProvesWhatItFinds) {
  int flows = 0, proven = 0;
  for (uint64_t seed = 0; seed < Rounds(300); ++seed) {
    const absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 12 + static_cast<int>(seed % 7));
    if (!flow.ok()) continue;
    Options options;
    options.iterations = 3;
    options.budget_seconds = 1e6;
    const Ordering ordering = Reorder(*flow, options);
    const int64_t least = LeastPeakByAntichains(*flow);
    ASSERT_TRUE(KeepsDependencies(*flow, ordering.order)) << "seed " << seed;
    ASSERT_EQ(Peak(*flow, ordering.order), ordering.peak) << "seed " << seed;
    ASSERT_LE(ordering.bound, least) << "seed " << seed;
    ++flows;
    proven += ordering.bound == ordering.peak;
  }
  EXPECT_EQ(proven, flows);
}

TEST(Order, ReorderIsNeverWorseAndItsBoundHolds) {
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    const absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 2 + static_cast<int>(seed % 11));
    if (!flow.ok()) continue;
    Options options;
    options.iterations = 1 + static_cast<int64_t>(seed % 4);
    options.budget_seconds = 1e6;
    const Ordering ordering = Reorder(*flow, options);
    const int64_t least = LeastPeakByAntichains(*flow);
    ASSERT_TRUE(KeepsDependencies(*flow, ordering.order)) << "seed " << seed;
    ASSERT_EQ(Peak(*flow, ordering.order), ordering.peak);
    ASSERT_LE(ordering.peak, Peak(*flow, flow->sequence));
    ASSERT_GE(ordering.peak, least);
    ASSERT_LE(ordering.bound, least) << "seed " << seed;
    ASSERT_EQ(Reorder(*flow, options).order, ordering.order) << "seed " << seed;
  }
}

TEST(Order, LocalSearchKeepsItsBooks) {
  for (uint64_t seed = 0; seed < Rounds(300); ++seed) {
    const absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 10 + static_cast<int>(seed % 60));
    if (!flow.ok()) continue;
    const MemoryModel model = MakeMemoryModel(*flow, false);
    LocalSearch search(model, flow->sequence);
    Random random(seed);
    search.Run(300, 0, random, [] { return false; });
    ASSERT_TRUE(KeepsDependencies(*flow, search.best())) << "seed " << seed;
    ASSERT_EQ(Peak(*flow, search.best()), search.best_peak()) << "seed " << seed;
    ASSERT_LE(search.best_peak(), Peak(*flow, flow->sequence));
  }
}

TEST(Order, IntegerProgramFindsTheOptimum) {
#ifndef REPRISE_HAVE_CBC
  GTEST_SKIP() << "built without CBC";
#endif
  int solved = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const absl::StatusOr<PreparedGraph> flow = RandomFlow(seed, 4 + static_cast<int>(seed % 6));
    if (!flow.ok()) continue;
    Ordering start{flow->sequence, Peak(*flow, flow->sequence), OrderBound(*flow), "given"};
    Options options;
    options.budget_seconds = 20;
    const Ordering ordering = OrderByIntegerProgram(*flow, options, start);
    const int64_t least = LeastPeakByAntichains(*flow);
    ASSERT_TRUE(KeepsDependencies(*flow, ordering.order)) << "seed " << seed;
    ASSERT_EQ(Peak(*flow, ordering.order), ordering.peak) << "seed " << seed;
    ASSERT_EQ(ordering.peak, least) << "seed " << seed;
    ASSERT_LE(ordering.bound, least) << "seed " << seed;
    solved += ordering.finder == "olla_ilp";
  }
  EXPECT_GT(solved, 5);
}

// The smallest makespan of one order: every sequence of storages, each as low as it goes.
int64_t LeastMakespan(const PreparedGraph& flow, const std::vector<uint32_t>& order) {
  const std::vector<Span> spans = Lifetimes(flow, order);
  std::vector<uint32_t> sequence(flow.storages.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  int64_t least = INT64_MAX;
  do {
    std::vector<int64_t> offsets(sequence.size(), 0);
    int64_t makespan = 0;
    for (size_t i = 0; i < sequence.size(); ++i) {
      const uint32_t s = sequence[i];
      for (size_t j = 0; j < i; ++j) {  // in the way of the first, so above it all that is placed
        const uint32_t other = sequence[j];
        if (spans[s].lower >= spans[other].upper || spans[other].lower >= spans[s].upper) continue;
        offsets[s] = std::max(offsets[s], offsets[other] + flow.storages[other].bytes);
      }
      makespan = std::max(makespan, offsets[s] + flow.storages[s].bytes);
    }
    least = std::min(least, makespan);
  } while (std::next_permutation(sequence.begin(), sequence.end()));
  return least;
}

// That of all orders.
int64_t LeastMakespan(const PreparedGraph& flow) {
  std::vector<uint32_t> order(flow.nodes);
  std::iota(order.begin(), order.end(), 0);
  std::set<std::vector<std::pair<int64_t, int64_t>>> seen;
  int64_t least = INT64_MAX;
  do {
    if (!KeepsDependencies(flow, order)) continue;
    std::vector<std::pair<int64_t, int64_t>> lifetimes;
    for (const Span& span : Lifetimes(flow, order)) lifetimes.push_back({span.lower, span.upper});
    if (!seen.insert(lifetimes).second) continue;
    least = std::min(least, LeastMakespan(flow, order));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Order, JointProgramFindsTheBestPlanOfAllOrders) {
#ifndef REPRISE_HAVE_CBC
  GTEST_SKIP() << "built without CBC";
#endif
  int graphs = 0, proven = 0, changed = 0;
  for (uint64_t seed = 0; seed < Rounds(40); ++seed) {
    GraphShape shape;
    shape.nodes = 4 + static_cast<int>(seed % 3);
    shape.streams = 1;
    shape.tensors = 6;
    Graph graph = RandomGraph(seed, shape);
    for (Node& node : graph.nodes) node.order.reset();
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    ASSERT_TRUE(flow.ok());
    OrderedPlan start{flow->sequence, {}, 0, OrderBound(*flow)};
    for (const Storage& storage : flow->storages) {
      start.offsets.push_back(start.makespan);
      start.makespan += storage.bytes;
    }
    Options options;
    options.budget_seconds = 1e6;  // until it is done
    const OrderedPlan plan = PlanByIntegerProgram(*flow, options, start);
    const int64_t least = LeastMakespan(*flow);
    ASSERT_EQ(plan.makespan, least) << "seed " << seed;
    ASSERT_LE(plan.bound, least) << "seed " << seed;
    ASSERT_TRUE(KeepsDependencies(*flow, plan.order)) << "seed " << seed;
    std::vector<int64_t> offsets;
    for (const uint32_t storage : flow->storage_of) offsets.push_back(plan.offsets[storage]);
    const GraphCheck check = CheckGraph(graph, offsets, plan.order);
    ASSERT_TRUE(check.valid) << "seed " << seed << " " << check.violations[0].message;
    ASSERT_EQ(check.makespan, plan.makespan) << "seed " << seed;
    ++graphs;
    proven += plan.bound == plan.makespan;
    changed += plan.order != flow->sequence;
  }
  EXPECT_EQ(proven, graphs);
  EXPECT_GT(changed, Rounds(10));
}

// The best plan of the order that `reorder` finds has a hole, another order of the same peak none.
TEST(Order, JointProgramFindsAnOrderWithASmallerPlan) {
#ifndef REPRISE_HAVE_CBC
  GTEST_SKIP() << "built without CBC";
#endif
  struct Use {
    uint32_t producer;
    uint32_t consumer;
    int64_t bytes;
  };
  constexpr Use kUses[] = {{0, 0, 5}, {1, 1, 3}, {0, 2, 3}, {2, 2, 1}, {0, 3, 1}, {1, 4, 1},
                           {3, 4, 4}, {1, 5, 1}, {2, 5, 2}, {4, 5, 1}, {5, 9, 5}, {6, 9, 4}};
  Graph graph;
  graph.streams.push_back({"0", true});
  for (int i = 0; i < 10; ++i) {
    graph.nodes.push_back(MakeNode(i, 0));
    graph.nodes.back().order.reset();
  }
  for (const Use& use : kUses) {
    const std::string name = absl::StrCat("t", graph.tensors.size());
    graph.tensors.push_back(MakeTensor(name.c_str(), use.producer, {use.consumer}, use.bytes));
  }
  GraphOptions options;
  options.solve.budget_seconds = 30;
  options.order = "reorder";
  const auto reordered = PlanGraph(graph, options);
  options.order = "olla_ilp";
  const auto joint = PlanGraph(graph, options);
  ASSERT_TRUE(reordered.ok() && joint.ok()) << reordered.status() << joint.status();
  EXPECT_EQ(reordered->max_load, 9);
  EXPECT_EQ(reordered->makespan, 10);
  EXPECT_EQ(joint->makespan, 9);
  EXPECT_TRUE(joint->proven_optimal);
  EXPECT_EQ(joint->order_finder, "olla_ilp");
}

// However large the program, and whatever CBC is doing.
TEST(Order, IntegerProgramWithoutTimeKeepsWhatItWasGiven) {
  GraphShape shape{200, 1, 300, 60, 100, false};
  Graph graph = RandomGraph(1, shape);
  for (Node& node : graph.nodes) node.order.reset();
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
  ASSERT_TRUE(flow.ok());
  ASSERT_LT(OrderBound(*flow), Peak(*flow, flow->sequence));
  const Ordering start{flow->sequence, Peak(*flow, flow->sequence), OrderBound(*flow), "given"};
  for (const double seconds : {0.0, 0.2}) {
    Options options;
    options.budget_seconds = seconds;
    const Ordering ordering = OrderByIntegerProgram(*flow, options, start);
    EXPECT_LE(ordering.bound, ordering.peak);
    EXPECT_LE(ordering.peak, start.peak);
    EXPECT_TRUE(KeepsDependencies(*flow, ordering.order));
  }
}

TEST(Order, PlansInANewOrderAreValid) {
  for (uint64_t seed = 0; seed < Rounds(400); ++seed) {
    GraphShape shape{12, 1 + static_cast<int>(seed % 3), 16, 9, 100, seed % 2 == 0};
    const Graph graph = RandomGraph(seed, shape);
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    if (!flow.ok()) continue;
    GraphOptions options;
    options.solve.iterations = 3;
    options.solve.budget_seconds = 1e6;
    options.order = "given";
    const auto given = PlanGraph(graph, options);
    options.order = "reorder";
    const auto changed = PlanGraph(graph, options);
    ASSERT_TRUE(given.ok() && changed.ok()) << given.status() << changed.status();
    const GraphCheck check = CheckGraph(graph, changed->offsets, changed->order);
    ASSERT_TRUE(check.valid) << "seed " << seed << " " << check.violations[0].message;
    ASSERT_LE(changed->makespan, given->makespan) << "seed " << seed;
    ASSERT_EQ(changed->order_changed, changed->order != flow->sequence) << "seed " << seed;
  }
}

}  // namespace
}  // namespace reprise::planner::graph
