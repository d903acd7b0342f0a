// Placement of tensors whose conflicts are pairs, and the checker of such plans.
#include "planner/graph/place.h"

#include <gtest/gtest.h>

#include <optional>

#include "planner/graph/check_graph.h"
#include "planner/graph/plan_graph.h"
#include "tests/unit/effort.h"
#include "tests/unit/graph/random.h"

namespace reprise::planner::graph {
namespace {

constexpr const char* kFew[] = {"auto",
                                "bump",
                                "somas_single_first",
                                "somas_single_best",
                                "somas_many_first",
                                "somas_many_best",
                                "first_fit_by_unsafe",
                                "best_fit_by_unsafe_bytes",
                                "greedy_by_breadth",
                                "tvm_hill_climb",
                                "sampled_orders",
                                "exact_search"};

GraphOptions With(const std::string& strategy, int64_t iterations = 5) {
  GraphOptions options;
  options.solve.strategy = strategy;
  options.solve.iterations = iterations;
  options.solve.threads = 1;
  options.order = "given";
  return options;
}

// Two tensors that some interleaving needs at once share a byte; groups, aliases, alignments and
// given offsets are not kept. By the definition, pair by pair.
bool ValidByBrute(const Graph& graph, const PreparedGraph& flow,
                  const std::vector<int64_t>& offsets) {
  const Pairs unsafe = UnsafeByInterleavings(flow);
  std::vector<int64_t> bytes(flow.storages.size(), 0);
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    int64_t& end = bytes[flow.storage_of[t]];
    end = std::max(end, flow.position[t] + graph.tensors[t].bytes);
  }
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (offsets[t] < 0 || offsets[t] % tensor.alignment != 0) return false;
    if (tensor.offset != kFree && tensor.offset != offsets[t]) return false;
    if (tensor.alias_of != kNone && offsets[t] != offsets[tensor.alias_of] + tensor.alias_offset) {
      return false;
    }
    const int64_t mine = offsets[t] - flow.position[t];
    for (uint32_t u = 0; u < t; ++u) {
      const uint32_t a = flow.storage_of[t], b = flow.storage_of[u];
      if (unsafe.count({std::min(a, b), std::max(a, b)}) == 0) continue;
      const int64_t other = offsets[u] - flow.position[u];
      if (mine < other + bytes[b] && other < mine + bytes[a]) return false;
    }
  }
  for (const auto& group : graph.groups) {
    for (size_t i = 1; i < group.size(); ++i) {
      const uint32_t before = flow.storage_of[group[i - 1]];
      const int64_t alignment = flow.storages[before].alignment;
      const int64_t size = (bytes[before] + alignment - 1) / alignment * alignment;
      if (offsets[group[i]] != offsets[group[i - 1]] + size) return false;
    }
  }
  return true;
}

TEST(PlaceGraph, EveryStrategyMakesValidPlans) {
  for (uint64_t seed = 0; seed < Rounds(1'500); ++seed) {
    GraphShape shape;
    shape.nodes = 2 + static_cast<int>(seed % 5);
    shape.streams = 1 + static_cast<int>(seed % 3);
    shape.tensors = 2 + static_cast<int>(seed % 9);
    shape.constrained = seed % 2 == 0;
    const Graph graph = RandomGraph(seed, shape);
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    if (!flow.ok()) continue;
    for (const char* strategy : kFew) {
      const auto plan = PlanGraph(graph, With(strategy));
      ASSERT_TRUE(plan.ok()) << plan.status() << " seed " << seed;
      ASSERT_TRUE(ValidByBrute(graph, *flow, plan->offsets)) << strategy << " seed " << seed;
      ASSERT_GE(plan->makespan, plan->lower_bound) << strategy << " seed " << seed;
      ASSERT_GE(plan->lower_bound, plan->max_load) << strategy << " seed " << seed;
    }
  }
}

TEST(PlaceGraph, EveryStrategyOfThePlannerOnOneStream) {
  for (const StrategyInfo& info : Strategies()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      GraphShape shape{12, 1, 20, 5, 9, seed % 2 == 1};
      const Graph graph = RandomGraph(seed, shape);
      const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
      if (!flow.ok()) continue;
      const auto plan = PlanGraph(graph, With(std::string(info.name), 3));
      // A group that is no buffer with gaps.
      if (plan.status().code() == absl::StatusCode::kFailedPrecondition) continue;
      ASSERT_TRUE(plan.ok()) << plan.status() << " " << info.name << " seed " << seed;
      ASSERT_TRUE(ValidByBrute(graph, *flow, plan->offsets)) << info.name << " seed " << seed;
    }
  }
}

// All orders of placing each as low as it goes.
int64_t OptimumByBrute(const PreparedGraph& flow, const PairSet& unsafe) {
  const uint32_t n = static_cast<uint32_t>(flow.storages.size());
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  int64_t best = INT64_MAX;
  std::vector<int64_t> offsets(n);
  do {
    int64_t makespan = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t s = order[i];
      int64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t j = 0; j < i; ++j) {
          const uint32_t other = order[j];
          if (!unsafe.Contains(s, other)) continue;
          if (at < offsets[other] + flow.storages[other].bytes &&
              offsets[other] < at + flow.storages[s].bytes) {
            at = offsets[other] + flow.storages[other].bytes;
            moved = true;
          }
        }
      }
      offsets[s] = at;
      makespan = std::max(makespan, at + flow.storages[s].bytes);
    }
    best = std::min(best, makespan);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(PlaceGraph, ExactSearchFindsTheOptimum) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    GraphShape shape{8, 3, 7, 8};
    const Graph graph = RandomGraph(seed, shape);
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    ASSERT_TRUE(flow.ok());
    const int64_t optimum = OptimumByBrute(*flow, UnsafePairsByStreams(*flow));
    for (const char* strategy : {"exact_search", "auto"}) {
      const auto plan = PlanGraph(graph, With(strategy, 1'000'000));
      ASSERT_TRUE(plan.ok());
      ASSERT_EQ(plan->makespan, optimum) << strategy << " seed " << seed;
      ASSERT_LE(plan->lower_bound, optimum) << strategy << " seed " << seed;
      ASSERT_TRUE(plan->proven_optimal) << strategy << " seed " << seed;
    }
  }
}

TEST(PlaceGraph, TheSameSeedTheSameOffsets) {
  GraphShape shape{60, 4, 120, 30, 1000, true};
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = RandomGraph(seed, shape);
    if (!PrepareGraph(graph).ok()) continue;
    for (const char* strategy : {"auto", "tvm_hill_climb", "sampled_orders"}) {
      GraphOptions options = With(strategy, 20);
      const auto first = PlanGraph(graph, options);
      options.solve.threads = 3;
      const auto second = PlanGraph(graph, options);
      ASSERT_TRUE(first.ok() && second.ok());
      ASSERT_EQ(first->offsets, second->offsets) << strategy;
    }
  }
}

// Figures 7 to 9 of the paper: where many objects beat one.
TEST(PlaceGraph, ManyObjectsAgainstSingleObject) {
  Graph graph;
  graph.streams = {{"0", true}};
  for (int i = 0; i < 6; ++i) graph.nodes.push_back(MakeNode(i, 0));
  graph.tensors = {MakeTensor("A", 0, {1}, 1024), MakeTensor("B", 3, {4}, 768),
                   MakeTensor("C", 1, {2}, 640), MakeTensor("D", 4, {5}, 512),
                   MakeTensor("E", 2, {4}, 256)};
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
  ASSERT_TRUE(flow.ok());
  const PairSet unsafe = UnsafePairsByStreams(*flow);
  EXPECT_EQ(unsafe.Pairs(), 5);
  Options options;
  options.strategy = "somas_single_first";
  EXPECT_EQ(PlaceByConflicts(*flow, unsafe, options)->makespan, 1920);
  options.strategy = "somas_many_first";
  EXPECT_EQ(PlaceByConflicts(*flow, unsafe, options)->makespan, 1664);
}

// Figure 6: blocks ABC (10, 5, 3 bytes) at 0 and DEF (8, 6, 6); only E and B are unsafe, so that
// the second may not begin below 7.
TEST(PlaceGraph, GroupsMeetGroups) {
  Graph graph;
  graph.streams = {{"0", true}, {"1", true}};
  for (int i = 0; i < 12; ++i) graph.nodes.push_back(MakeNode(i, i == 11 ? 1 : 0));
  const int64_t sizes[] = {10, 5, 3, 8, 6, 6};
  for (uint32_t t = 0; t < 6; ++t) {
    const char name[] = {static_cast<char>('A' + t), 0};
    graph.tensors.push_back(MakeTensor(name, t, {}, sizes[t]));
  }
  graph.groups = {{0, 1, 2}, {3, 4, 5}};
  PairSet unsafe(6);
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
  ASSERT_TRUE(flow.ok()) << flow.status();
  unsafe.Row(1)[0] |= 1 << 4;
  unsafe.Row(4)[0] |= 1 << 1;
  const ConflictProblem problem = MakeConflictProblem(*flow, unsafe);
  ASSERT_EQ(problem.size(), 2);
  Shelf shelf(problem);
  shelf.Place(0, 0);
  EXPECT_EQ(shelf.FirstFit(1, 0, INT64_MAX), 7);
  EXPECT_EQ(shelf.BestFit(1, 0, INT64_MAX), 7);
}

TEST(PlaceGraph, GivenOffsetsAreKept) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    GraphShape shape{6, 3, 8, 6};
    Graph graph = RandomGraph(seed, shape);
    graph.tensors[seed % 8].offset = static_cast<int64_t>(seed % 37);
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    ASSERT_TRUE(flow.ok());
    for (const char* strategy : kFew) {
      const auto plan = PlanGraph(graph, With(strategy));
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_TRUE(ValidByBrute(graph, *flow, plan->offsets)) << strategy << " seed " << seed;
    }
  }
}

TEST(PlaceGraph, GivenOffsetsThatConflictAreNamed) {
  for (const int streams : {1, 2}) {
    Graph graph = RandomGraph(1, {4, streams, 2, 4});
    graph.tensors = {MakeTensor("x", 0, {3}, 10, 5), MakeTensor("y", 0, {3}, 10, 14)};
    const auto plan = PlanGraph(graph, With("auto"));
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(plan.status().message().find("'x' and 'y'"), std::string::npos) << plan.status();
  }
}

// Offsets at random, many of them wrong: the checker says what the definition says.
TEST(CheckGraph, AgreesWithTheDefinition) {
  int valid = 0, invalid = 0;
  for (uint64_t seed = 0; seed < Rounds(30'000); ++seed) {
    GraphShape shape;
    shape.nodes = 1 + static_cast<int>(seed % 5);
    shape.streams = 1 + static_cast<int>(seed % 3);
    shape.tensors = 1 + static_cast<int>(seed % 9);
    shape.constrained = seed % 2 == 0;
    const Graph graph = RandomGraph(seed, shape);
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    if (!flow.ok()) continue;
    std::mt19937_64 random(seed);
    std::vector<int64_t> offsets;
    if (seed % 3 == 0) {
      const auto plan = PlanGraph(graph, With("somas_single_first"));
      ASSERT_TRUE(plan.ok());
      offsets = plan->offsets;
      if (seed % 2 == 0)
        offsets[random() % offsets.size()] += static_cast<int64_t>(random() % 5) - 2;
    } else {
      for (size_t t = 0; t < graph.tensors.size(); ++t) {
        offsets.push_back(static_cast<int64_t>(random() % 24));
      }
    }
    const bool expected = ValidByBrute(graph, *flow, offsets);
    const GraphCheck check = CheckGraph(graph, offsets, flow->sequence);
    ASSERT_EQ(check.valid, expected)
        << "seed " << seed << (check.violations.empty() ? "" : check.violations[0].message);
    ++(expected ? valid : invalid);
  }
  EXPECT_GT(valid, Rounds(1'000));
  EXPECT_GT(invalid, Rounds(1'000));
}

// As many pairs share a byte as there can be; none of them is in use at one time.
TEST(CheckGraph, TakesTimeLinearInWhatSharesAddresses) {
  constexpr uint32_t kTensors = 200'000;
  Graph graph;
  graph.streams = {{.text = "s"}, {.text = "t"}};
  std::vector<int64_t> offsets;
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i <= kTensors; ++i) {
    Node& node = graph.nodes.emplace_back();
    node.id.text = std::to_string(i);
    node.stream = i % 2;
    order.push_back(i);
    if (i == kTensors) break;
    graph.tensors.push_back(MakeTensor(node.id.text.c_str(), i, {i + 1}, 8));
    offsets.push_back(i % 2 * 8);
  }
  EXPECT_TRUE(CheckGraph(graph, offsets, order).valid);
  offsets[kTensors / 2] = 8;
  EXPECT_FALSE(CheckGraph(graph, offsets, order).valid);
}

TEST(CheckGraph, RefusesOrdersThatAreNone) {
  const Graph graph = RandomGraph(3, {5, 2, 6, 5});
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
  const auto plan = PlanGraph(graph, With("bump"));
  ASSERT_TRUE(flow.ok() && plan.ok());
  EXPECT_TRUE(CheckGraph(graph, plan->offsets, flow->sequence).valid);
  std::vector<uint32_t> backwards(flow->sequence.rbegin(), flow->sequence.rend());
  EXPECT_FALSE(CheckGraph(graph, plan->offsets, backwards).valid);
  EXPECT_FALSE(CheckGraph(graph, plan->offsets, {0, 1, 2, 3, 3}).valid);
}

}  // namespace
}  // namespace reprise::planner::graph
