// Graphs that are the body of a loop: plans against an execution of many iterations.
#include "planner/graph/loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/graph/check_loop.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/plan_graph.h"
#include "tests/unit/effort.h"

namespace reprise::planner::graph {
namespace {

// Nodes A, B, C in this order.
constexpr const char* kNodes =
    R"("nodes": [{"id": "A"}, {"id": "B"}, {"id": "C"}], "order": ["A", "B", "C"])";

Graph Read(const std::string& tensors, const std::string& carried,
           const std::string& body = R"("A", "B", "C")") {
  const std::string text =
      absl::StrCat("{", kNodes, ", \"tensors\": [", tensors, "], \"loop\": {\"body\": [", body,
                   "], \"carried\": [", carried, "]}}");
  absl::StatusOr<Graph> graph = ParseGraph(text, "g");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

GraphOptions Exact() {
  GraphOptions options;
  options.solve.strategy = "exact_search";
  options.solve.budget_seconds = 600;
  options.solve.threads = 1;
  return options;
}

constexpr const char* kStep =
    R"({"id": "h0", "consumers": ["A"], "bytes": 64},
       {"id": "p", "producer": "A", "consumers": ["B"], "bytes": 128},
       {"id": "h1", "producer": "C", "bytes": 64})";

TEST(LoopTest, WhatIsCarriedIsOnePieceOfMemory) {
  const auto plan = PlanGraph(Read(kStep, R"(["h1", "h0"])"), Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->max_load, 192);
  EXPECT_EQ(plan->makespan, 192);
  EXPECT_EQ(plan->slots[0], plan->slots[2]);
  EXPECT_EQ(plan->slots[0].size(), 1);
}

TEST(LoopTest, WhatIsReadAfterTheNextIsMadeHasTwoOffsetsInTurn) {
  const auto graph = Read(R"({"id": "h0", "consumers": ["C"], "bytes": 64},
                             {"id": "h1", "producer": "A", "bytes": 64})",
                          R"(["h1", "h0"])");
  const auto plan = PlanGraph(graph, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, 128);
  ASSERT_EQ(plan->slots[1].size(), 2);
  EXPECT_EQ(plan->slots[0], (std::vector<int64_t>{plan->slots[1][1], plan->slots[1][0]}));
}

TEST(LoopTest, AnUpdateInPlaceStaysWhereItIs) {
  const auto graph = Read(R"({"id": "w0", "consumers": ["A", "C"], "bytes": 64},
              {"id": "w1", "producer": "C", "alias_of": "w0", "in_place": true, "bytes": 64})",
                          R"(["w1", "w0"])");
  const auto plan = PlanGraph(graph, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, 64);
  EXPECT_EQ(plan->slots[0], plan->slots[1]);
}

TEST(LoopTest, InputsThatAreNotCarriedStayForAllIterations) {
  const auto graph = Read(R"({"id": "w", "consumers": ["A"], "bytes": 64},
                             {"id": "p", "producer": "B", "consumers": ["C"], "bytes": 64})",
                          "");
  const auto plan = PlanGraph(graph, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->makespan, 128);
}

std::string Refusal(const Graph& graph, const GraphOptions& options = Exact()) {
  const auto plan = PlanGraph(graph, options);
  EXPECT_FALSE(plan.ok());
  return std::string(plan.status().message());
}

TEST(LoopTest, RefusesWhatIsNotUnderstood) {
  const std::string pair = R"(["h1", "h0"])";
  EXPECT_EQ(Refusal(Read(kStep, pair, R"("A", "C")")),
            "loop.body: expected all nodes: the graph is the body, found all but node 'B'");
  EXPECT_EQ(Refusal(Read(kStep, pair, R"("A", "B", "C", "A")")),
            "loop.body: expected each node once, found node 'A' again");
  EXPECT_EQ(Refusal(Read(R"({"id": "w", "producer": "A", "bytes": 64, "persistent": true})", "")),
            "loop: expected persistent tensors that no node produces, found tensor 'w'");
  EXPECT_EQ(Refusal(Read(kStep, R"(["h0", "h0"])")),
            "loop.carried[0][0]: expected a tensor that a node produces, found tensor 'h0'");
  EXPECT_EQ(Refusal(Read(kStep, R"(["h1", "p"])")),
            "loop.carried[0][1]: expected a tensor without producer, found tensor 'p'");
  EXPECT_EQ(Refusal(Read(kStep, R"(["p", "h0"])")),
            "loop.carried[0]: expected tensors of one size, found 128 bytes and 64");
  EXPECT_EQ(Refusal(Read(kStep, pair + ", " + pair)),
            "loop.carried[1]: expected each memory in one pair, found tensor 'h1' again");
  EXPECT_EQ(Refusal(Read(R"({"id": "h0", "consumers": ["A"], "bytes": 64},
                            {"id": "h1", "producer": "A", "consumers": ["B"], "bytes": 64},
                            {"id": "y", "producer": "B", "alias_of": "h1", "bytes": 64})",
                         pair)),
            "loop.carried[0][0]: expected a tensor that is not overwritten, found tensor 'h1', "
            "which tensor 'y' may overwrite");
  EXPECT_EQ(Refusal(Read(R"({"id": "h0", "consumers": ["C"], "bytes": 64, "offset": 0},
                            {"id": "h1", "producer": "A", "bytes": 64})",
                         pair)),
            "tensor 'h1': it is live for more than a period, so it has 2 offsets in turn: expected "
            "no fixed offset, found 0");
  GraphOptions reorder = Exact();
  reorder.order = "reorder";
  EXPECT_EQ(Refusal(Read(kStep, pair), reorder),
            "--order: a graph with a loop keeps its order; expected given or auto, found reorder");
  GraphOptions pairs = Exact();
  pairs.solve.strategy = "first_fit_by_unsafe";
  EXPECT_EQ(Refusal(Read(kStep, pair), pairs),
            "--strategy: 'first_fit_by_unsafe' needs pairs, which a graph with a loop does not "
            "have");
  Graph streams = Read(kStep, pair);
  streams.streams.push_back({"1", true});
  streams.nodes[2].stream = 1;
  EXPECT_EQ(Refusal(streams), "loop: expected a graph with one stream, found 2");
  Graph groups = Read(kStep, pair);
  groups.groups = {{0, 1}};
  EXPECT_EQ(Refusal(groups), "loop: expected a graph without groups, found some");
}

// A chain of nodes; tensors read up to a few steps later; some pairs carried over.
Graph RandomLoop(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  Graph graph;
  graph.streams = {{"0", true}};
  graph.loop.emplace();
  const uint32_t nodes = 1 + below(6);
  for (uint32_t n = 0; n < nodes; ++n) {
    graph.nodes.push_back({{absl::StrCat("n", n), false}, 0, std::nullopt});
    graph.order.push_back(n);
    graph.loop->body.push_back(n);
  }
  const auto add = [&](uint32_t producer, uint32_t first, int64_t bytes) {
    Tensor tensor;
    tensor.id = {absl::StrCat("t", graph.tensors.size()), false};
    tensor.producer = producer;
    tensor.bytes = bytes;
    for (uint32_t n = first; n < nodes; ++n) {
      if (below(3) == 0) tensor.consumers.push_back(n);
    }
    tensor.output = producer != kNone && below(8) == 0;
    graph.tensors.push_back(std::move(tensor));
    return static_cast<uint32_t>(graph.tensors.size()) - 1;
  };
  for (uint32_t t = 1 + below(4); t-- > 0;) {
    const uint32_t producer = below(6) == 0 ? kNone : below(nodes);
    add(producer, producer == kNone ? 0 : producer + 1, 1 + below(9));
  }
  for (uint32_t t = 1 + below(3); t-- > 0;) {
    const int64_t bytes = 1 + below(9);
    const uint32_t producer = below(nodes);
    const uint32_t from = add(producer, producer + 1, bytes);
    const uint32_t to = add(kNone, 0, bytes);
    graph.loop->carried.emplace_back(from, to);
  }
  return graph;
}

// Runs the loop on a memory of bytes: every node writes what it makes and finds what it reads.
bool ReadsWhatWasWritten(const Graph& graph, const std::vector<std::vector<int64_t>>& slots) {
  std::vector<uint64_t> memory(512);
  std::vector<uint32_t> from(graph.tensors.size(), kNone);
  for (const auto& [a, b] : graph.loop->carried) from[b] = a;
  const auto value = [](uint32_t t, uint32_t i) { return (uint64_t{t} << 32) + i + 1; };
  const auto each_byte = [&](uint32_t t, uint32_t i, const auto& visit) {
    const int64_t at = slots[t][i % slots[t].size()];
    for (int64_t b = 0; b < graph.tensors[t].bytes; ++b) visit(memory[at + b]);
  };
  const auto holds = [&](uint32_t t, uint32_t i) {
    uint64_t expected = value(t, graph.tensors[t].producer == kNone ? 0 : i);
    if (from[t] != kNone && i > 0) expected = value(from[t], i - 1);
    bool all = true;
    each_byte(t, i, [&](uint64_t byte) { all = all && byte == expected; });
    return all;
  };
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].producer != kNone) continue;
    each_byte(t, 0, [&](uint64_t& byte) { byte = value(t, 0); });
  }
  for (uint32_t i = 0; i < 7; ++i) {
    for (const uint32_t node : graph.order) {
      for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
        const auto& readers = graph.tensors[t].consumers;
        const bool reads = std::find(readers.begin(), readers.end(), node) != readers.end();
        if (reads && !holds(t, i)) return false;
      }
      for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
        if (graph.tensors[t].producer != node) continue;
        each_byte(t, i, [&](uint64_t& byte) { byte = value(t, i); });
      }
      // What it reads must still be there while it writes, and what it writes is in one piece.
      for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
        const auto& readers = graph.tensors[t].consumers;
        const bool reads = std::find(readers.begin(), readers.end(), node) != readers.end();
        if ((reads || graph.tensors[t].producer == node) && !holds(t, i)) return false;
      }
    }
    for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
      if (graph.tensors[t].output && !holds(t, i)) return false;
    }
  }
  return true;
}

TEST(LoopTest, EveryIterationReadsWhatWasWritten) {
  GraphOptions automatic;
  automatic.solve.budget_seconds = 600;
  automatic.solve.iterations = 4;
  automatic.solve.threads = 1;
  size_t turns = 0;
  for (uint64_t seed = 0; seed < Rounds(3000); ++seed) {
    const Graph graph = RandomLoop(seed);
    const auto plan = PlanGraph(graph, seed % 2 == 0 ? Exact() : automatic);
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status();
    EXPECT_TRUE(ReadsWhatWasWritten(graph, plan->slots)) << "seed " << seed;
    turns += std::any_of(plan->slots.begin(), plan->slots.end(),
                         [](const auto& slots) { return slots.size() > 1; });
  }
  EXPECT_GT(turns, Rounds(300));
}

// What runs wrong the checker refuses.
TEST(LoopTest, TheCheckerFindsPlansThatRunWrong) {
  std::mt19937_64 random(3);
  size_t wrong = 0;
  for (uint64_t seed = 0; seed < Rounds(3000); ++seed) {
    const Graph graph = RandomLoop(seed + 50'000);
    auto plan = PlanGraph(graph, Exact());
    ASSERT_TRUE(plan.ok());
    std::vector<int64_t>& slots = plan->slots[random() % plan->slots.size()];
    slots[random() % slots.size()] = static_cast<int64_t>(random() % 40);
    if (ReadsWhatWasWritten(graph, plan->slots)) continue;
    ++wrong;
    const GraphCheck check = CheckLoop(graph, plan->slots, plan->order);
    EXPECT_FALSE(check.valid) << "seed " << seed;
    EXPECT_FALSE(check.violations.empty());
  }
  EXPECT_GT(wrong, Rounds(500));
}

TEST(LoopTest, PlansAreReadAsTheyWereWritten) {
  const auto graph = Read(R"({"id": "h0", "consumers": ["C"], "bytes": 64},
                             {"id": "h1", "producer": "A", "bytes": 64})",
                          R"(["h1", "h0"])");
  const auto plan = PlanGraph(graph, Exact());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string text = FormatPlan(graph, {plan->offsets, plan->order, plan->slots}, {});
  EXPECT_NE(text.find("\"offsets\": ["), std::string::npos);
  const auto read = ParsePlan(text, "p", graph);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->slots, plan->slots);
  Graph once = graph;
  once.loop.reset();
  EXPECT_FALSE(ParsePlan(text, "p", once).ok());
}

}  // namespace
}  // namespace reprise::planner::graph
