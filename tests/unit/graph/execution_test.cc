// Plans at work: graphs with views, writes in place, parts, streams and groups run in the memory of
// their plans. REPRISE_GRAPHS=N runs N graphs in each test.
#include "tests/unit/graph/execution.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "planner/graph/check_graph.h"
#include "planner/graph/plan_graph.h"
#include "planner/graph/prepared_graph.h"

namespace reprise::planner::graph {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

uint64_t Graphs(uint64_t graphs) {
  if (const char* text = std::getenv("REPRISE_GRAPHS")) return std::strtoull(text, nullptr, 10);
  return kSanitized ? graphs / 40 : graphs;
}

Graph Draw(uint64_t seed, bool stated) {
  return SharingGraphs(seed, 2 + static_cast<int>(seed % 6), 1 + static_cast<int>(seed / 6 % 3),
                       2 + static_cast<int>(seed / 18 % 8), stated)
      .Take();
}

absl::StatusOr<GraphPlan> Plan(const Graph& graph, uint64_t seed, const char* strategy) {
  GraphOptions options;
  options.solve.strategy = strategy;
  options.solve.iterations = 1;
  options.solve.threads = 1;
  options.order = seed % 3 == 0 ? "reorder" : "given";
  options.safety = seed % 2 == 0 ? "ancestor" : "stream_graph";
  return PlanGraph(graph, options);
}

// `share`: one graph in so many is one at least.
void RunPlans(uint64_t graphs, bool stated, uint64_t share) {
  uint64_t ran = 0;
  for (uint64_t seed = 0; ran < graphs; ++seed) {
    ASSERT_LT(seed, share * (graphs + 1'000)) << "too few graphs are legal";
    const Graph graph = Draw(seed, stated);
    const auto plan = Plan(graph, seed, "somas_single_first");
    if (plan.status().code() == absl::StatusCode::kInvalidArgument) continue;
    ASSERT_TRUE(plan.ok()) << plan.status() << " seed " << seed;
    ++ran;
    for (uint64_t truth = 0; truth < (stated ? 1 : 3); ++truth) {
      Machine machine(graph, plan->offsets, plan->order, seed + truth);
      for (uint64_t run = 0; run < 4; ++run) {
        ASSERT_EQ(machine.Run(seed * 16 + run), "") << "seed " << seed << " truth " << truth;
      }
    }
  }
}

TEST(GraphExecution, EveryReaderFindsItsValueInEveryInterleaving) {
  RunPlans(Graphs(100'000), true, 4);
}

TEST(GraphExecution, OldFilesAreRightWhateverTheirAliasesAre) {
  RunPlans(Graphs(20'000), false, 8);
}

// Orders at random, all tensors apart: what goes wrong is the order alone.
TEST(GraphExecution, TheCheckerFindsWhatGoesWrong) {
  uint64_t wrong = 0, right = 0;
  for (uint64_t seed = 0; seed < Graphs(60'000); ++seed) {
    const Graph graph = Draw(seed, seed % 4 != 0);
    const auto plan = Plan(graph, 1, "bump");
    if (!plan.ok()) continue;
    const std::vector<uint32_t> order = Machine(graph, plan->offsets, {}, seed).DrawOrder(seed);
    ASSERT_FALSE(order.empty());
    const GraphCheck check = CheckGraph(graph, plan->offsets, order);
    Machine machine(graph, plan->offsets, order, seed);
    bool went_wrong = false;
    for (uint64_t run = 0; run < 6 && !went_wrong; ++run) {
      went_wrong = !machine.Run(seed * 16 + run).empty();
    }
    ASSERT_FALSE(went_wrong && check.valid) << "seed " << seed << " " << machine.Run(seed * 16);
    ++(went_wrong ? wrong : right);
  }
  EXPECT_GT(wrong, Graphs(60'000) / 100);
  EXPECT_GT(right, Graphs(60'000) / 100);
}

}  // namespace
}  // namespace reprise::planner::graph
