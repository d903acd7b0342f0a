// Tensors that share memory: which orders are left, what is refused and how, what is needed when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/plan_graph.h"
#include "planner/graph/prepared_graph.h"
#include "tests/unit/effort.h"
#include "tests/unit/graph/execution.h"

namespace reprise::planner::graph {
namespace {

Graph Parse(const std::string& text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text, "g");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : Graph();
}

std::string RefusalText(const std::string& text) {
  return std::string(PrepareGraph(Parse(text)).status().message());
}

std::string Nodes(const std::string& names) {
  std::string text = R"({"nodes":[)";
  for (const char name : names) {
    absl::StrAppend(&text, text.back() == '[' ? "" : ",", R"({"id":")", std::string(1, name),
                    "\"}");
  }
  return text + R"(],"tensors":[)";
}

GraphPlan Plan(const Graph& graph, const std::string& order = "auto") {
  GraphOptions options;
  options.order = order;
  options.solve.iterations = 5;
  options.solve.budget_seconds = 1e6;
  const auto plan = PlanGraph(graph, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : GraphPlan();
}

// `c` is written over `b`, which `r` reads as well.
const std::string kScale =
    R"({"id":"b","producer":"m","consumers":["r","s"],"bytes":100},
       {"id":"x","producer":"r","consumers":["u"],"bytes":90},
       {"id":"w","producer":"s","bytes":150},
       {"id":"c","producer":"s","consumers":["u"],"bytes":100,"alias_of":"b")";

TEST(Aliases, ReadersOfTheOldValueComeBeforeTheWriter) {
  for (const char* kind : {"", R"(,"in_place":true)"}) {
    const GraphPlan plan = Plan(Parse(Nodes("mrsu") + kScale + kind + "}]}"));
    EXPECT_EQ(plan.makespan, 340) << kind;
    EXPECT_EQ(plan.order, (std::vector<uint32_t>{0, 1, 2, 3})) << kind;
  }
  const GraphPlan plan = Plan(Parse(Nodes("mrsu") + kScale + R"(,"in_place":false}]})"));
  EXPECT_EQ(plan.makespan, 250) << "a view may be made before others have read";
}

TEST(Aliases, OrdersThatOverwriteAreRefused) {
  const std::string graph = Nodes("mrsu") + kScale + R"(}],"order":["m","s","r","u"]})";
  EXPECT_EQ(
      RefusalText(graph),
      "order: tensor 'b': expected node 'r', which reads it, to end before node 's' starts, "
      "which overwrites it with tensor 'c', found it after; add \"in_place\": false to tensor "
      "'c' if it is a view");
}

TEST(Aliases, DependenciesThatOverwriteAreRefused) {
  EXPECT_EQ(RefusalText(Nodes("mwr") + R"({"id":"b","producer":"m","consumers":["w","r"],"bytes":4},
          {"id":"c","producer":"w","consumers":["r"],"bytes":4,"alias_of":"b","in_place":true}]})"),
            "tensor 'b': expected node 'r', which reads it, to end before node 'w' starts, which "
            "overwrites it with tensor 'c', found 'w' -> 'r' -> 'w'");
}

TEST(Aliases, ReadersThroughViewsAreReaders) {
  const std::string graph =
      R"({"id":"b","producer":"m","consumers":["v"],"bytes":8},
         {"id":"c","producer":"v","consumers":["r"],"bytes":4,"alias_of":"b","alias_offset":4},
         {"id":"d","producer":"w","bytes":4,"alias_of":"b","in_place":true,"alias_offset":)";
  const absl::StatusOr<PreparedGraph> over = PrepareGraph(Parse(Nodes("mwvr") + graph + "4}]}"));
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(over->sequence, (std::vector<uint32_t>{0, 2, 3, 1}));
  const absl::StatusOr<PreparedGraph> beside = PrepareGraph(Parse(Nodes("mwvr") + graph + "0}]}"));
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(beside->sequence, (std::vector<uint32_t>{0, 2, 1, 3}))
      << "of the node that makes the view, `b` is read as a whole";
}

TEST(Aliases, TwoWritersOfOneValueAreRefused) {
  const std::string graph = Nodes("mvw") + R"({"id":"b","producer":"m","bytes":8},
      {"id":"c","producer":"v","consumers":[@],"bytes":8,"alias_of":"b","in_place":true},
      {"id":"d","producer":"w","bytes":4,"alias_of":"b","in_place":true,"alias_offset":2}]})";
  const size_t at = graph.find('@');
  EXPECT_EQ(
      RefusalText(std::string(graph).replace(at, 1, "")),
      "tensor 'b': expected one writer of its bytes at a time, found node 'v' (tensor 'c') and "
      "node 'w' (tensor 'd'), and no dependency that orders them");
  EXPECT_EQ(RefusalText(std::string(graph).replace(at, 1, "\"w\"")), "");
}

TEST(Aliases, WhatIsNeededAtTheEndIsNotOverwritten) {
  for (const char* kind : {"persistent", "output"}) {
    EXPECT_EQ(
        RefusalText(absl::StrCat(Nodes("rw"), R"({"id":"b","consumers":["r"],"bytes":8,")", kind,
                                 R"(":true},{"id":"c","producer":"w","bytes":8,"alias_of":"b",)",
                                 R"("in_place":true}]})")),
        absl::StrCat("tensor 'b': expected no write, as it is ",
                     kind[0] == 'o' ? "an output" : "persistent",
                     " and an input that node 'r' reads, found node 'w', which overwrites it "
                     "with tensor 'c'"));
  }
  // Nobody reads it but who writes over it.
  EXPECT_EQ(
      RefusalText(Nodes("w") + R"({"id":"b","consumers":["w"],"bytes":8,"persistent":true},
      {"id":"c","producer":"w","bytes":8,"alias_of":"b","in_place":true}]})"),
      "tensor 'b': expected no write, as it is persistent and an input, found node 'w', which "
      "overwrites it with tensor 'c'");
}

TEST(Aliases, StreamsDoNotWaitForEachOther) {
  const std::string nodes = R"({"nodes":[{"id":"m"},{"id":"r","stream":1},{"id":"s"},{"id":"u"}@],
      "tensors":[)";
  const std::string graph = std::string(nodes).replace(nodes.find('@'), 1, "") + kScale;
  EXPECT_EQ(RefusalText(graph + R"(,"in_place":true}]})"),
            "tensor 'b': expected node 'r', which reads it, to end before node 's' starts, which "
            "overwrites it with tensor 'c', found nothing that makes stream 0 wait for stream 1");
  EXPECT_NE(RefusalText(graph + "}]}").find("add \"in_place\": false to tensor 'c'"),
            std::string::npos);
  // What orders them may be a dependency, or one and the order of a stream, which is then kept.
  EXPECT_EQ(RefusalText(graph + R"(,"in_place":true},
      {"id":"d","producer":"r","consumers":["s"],"bytes":0}]})"),
            "");
  const Graph through = Parse(std::string(nodes).replace(nodes.find('@'), 1, R"(,{"id":"y"})") +
                              kScale + R"(,"in_place":true},
      {"id":"d","producer":"r","consumers":["y"],"bytes":900}],"order":["m","r","y","s","u"]})");
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(through);
  ASSERT_TRUE(flow.ok()) << flow.status();
  const auto after = flow->successors[4];
  EXPECT_TRUE(std::find(after.begin(), after.end(), 2u) != after.end());
}

TEST(Aliases, PartsLieInWhatIsMadeOfThem) {
  const std::string parts = R"({"id":"x","consumers":["s","t"],"bytes":256},
      {"id":"a","producer":"s","consumers":["c"],"bytes":256,"alias_of":"z"@},
      {"id":"b","producer":"t","consumers":["c","k"],"bytes":256,"alias_of":"z"@},
      {"id":"z","producer":"c","consumers":["k"],"bytes":512},{"id":"y","producer":"k","bytes":64}]})";
  const auto with = [&](const std::string& a, const std::string& b) {
    std::string text = Nodes("stck") + parts;
    text.replace(text.find('@'), 1, a);
    return text.replace(text.find('@'), 1, b);
  };
  const GraphPlan plan = Plan(Parse(with(R"(,"alias_offset":256)", R"(,"alias_offset":0)")));
  EXPECT_EQ(plan.makespan, 768);
  EXPECT_EQ(plan.offsets[1], plan.offsets[3] + 256);
  EXPECT_EQ(plan.offsets[2], plan.offsets[3]);
  // Without offsets, one behind the other. Nobody may read a part later in an old file.
  EXPECT_EQ(Parse(with("", "")).tensors[2].alias_offset, 256);
  EXPECT_NE(RefusalText(with("", "")).find("node 'k', which reads it, to end before node 'c'"),
            std::string::npos);
  EXPECT_EQ(RefusalText(with(R"(,"in_place":false)", "")), "");
  EXPECT_NE(RefusalText(with(R"(,"alias_offset":0)", R"(,"alias_offset":100)"))
                .find("expected one writer of its bytes at a time, found node 's'"),
            std::string::npos);
}

// `p` is a part of `y`, which overwrites `x` later: who makes `x` writes all of it.
TEST(Aliases, PartsOfAWriteAreNoPartsOfWhatItOverwrites) {
  for (const char* consumers : {R"("B","D")", R"("D")"}) {
    const std::string graph =
        absl::StrCat(Nodes("ABD"), R"({"id":"x","producer":"B","consumers":["D"],"bytes":16},
        {"id":"y","producer":"D","alias_of":"x","in_place":true,"bytes":8},
        {"id":"p","producer":"A","consumers":[)",
                     consumers, R"(],"alias_of":"y","bytes":8},
        {"id":"dep","producer":"A","consumers":["B"],"bytes":0}]})");
    EXPECT_THAT(RefusalText(graph),
                testing::StartsWith("tensor 'p': expected node 'D', which reads it, to end before "
                                    "node 'B' starts, which overwrites it with tensor 'x'"))
        << consumers;
  }
}

TEST(Aliases, OutputsAreNeededToTheEndOfAnyOrder) {
  // `o` could share memory with the others if it were not an output.
  const std::string text = Nodes("abc") + R"({"id":"o","producer":"a","bytes":100,"output":true},
      {"id":"x","producer":"b","consumers":["c"],"bytes":60},{"id":"y","producer":"c","bytes":10}]})";
  const GraphPlan plan = Plan(Parse(text));
  EXPECT_EQ(plan.makespan, 100) << "last, when only `o` is there";
  EXPECT_EQ(plan.order.back(), 0);
  const GraphPlan given = Plan(Parse(text), "given");
  EXPECT_EQ(given.makespan, 170);
}

TEST(Aliases, TheCheckerKnowsOutputs) {
  Graph graph = Parse(Nodes("ab") + R"({"id":"o","producer":"a","bytes":8,"output":true},
      {"id":"x","producer":"b","bytes":8}]})");
  EXPECT_FALSE(CheckGraph(graph, {0, 0}, {0, 1}).valid);
  EXPECT_TRUE(CheckGraph(graph, {0, 0}, {1, 0}).valid);
  EXPECT_TRUE(CheckGraph(graph, {0, 8}, {0, 1}).valid);
  graph.tensors[0].output = false;
  EXPECT_TRUE(CheckGraph(graph, {0, 0}, {0, 1}).valid);
}

TEST(Aliases, TheCheckerNamesWhatIsOverwritten) {
  const Graph graph = Parse(Nodes("mrsu") + kScale + R"(,"in_place":true}]})");
  const GraphCheck check = CheckGraph(graph, {0, 100, 190, 0}, {0, 2, 1, 3});
  ASSERT_EQ(check.violations.size(), 1);
  EXPECT_EQ(check.violations[0].message,
            "tensor 'b': node 's' may overwrite it with tensor 'c' before node 'r' has used it");
  EXPECT_TRUE(CheckGraph(graph, {0, 100, 190, 0}, {0, 1, 2, 3}).valid);
  EXPECT_FALSE(CheckGraph(graph, {0, 100, 190, 1}, {0, 1, 2, 3}).valid);
}

TEST(Aliases, GroupsCountSizesInTheirAlignment) {
  const GraphPlan plan = Plan(Parse(R"({"nodes":[{"id":"a","order":1},{"id":"b","order":2}],
      "tensors":[{"id":"g","producer":"a","consumers":["b"],"bytes":1000,"alignment":512},
                 {"id":"h","producer":"a","consumers":["b"],"bytes":700,"alignment":512},
                 {"id":"i","producer":"b","bytes":3}],"groups":[["g","h"]]})"));
  EXPECT_EQ(plan.makespan, 2 * 1024 + 3);
  EXPECT_EQ(plan.offsets[1] - plan.offsets[0], 1024);
}

// Of all orders that keep the dependencies, those that the checker takes, one after the other, are
// those that keep the precedences; and the least of their peaks is found.
TEST(Aliases, TheOrdersThatAreLeftAreThoseTheCheckerTakes) {
  int legal = 0, refused = 0, limited = 0;
  for (uint64_t seed = 0; seed < Rounds(6'000); ++seed) {
    const Graph graph = [&] {
      Graph drawn = SharingGraphs(seed, 2 + static_cast<int>(seed % 4), 1,
                                  3 + static_cast<int>(seed / 4 % 5), seed % 4 != 0)
                        .Take();
      for (Node& node : drawn.nodes) node.order.reset();
      drawn.groups.clear();
      return drawn;
    }();
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    // Orders of two writers are not searched for.
    if (!flow.ok() && flow.status().message().find("which") == std::string::npos) continue;
    std::vector<int64_t> apart(graph.tensors.size());
    for (uint32_t t = 0; t < apart.size(); ++t) {  // aliases have higher numbers
      const Tensor& tensor = graph.tensors[t];
      apart[t] = tensor.alias_of == kNone ? 64 * t : apart[tensor.alias_of] + tensor.alias_offset;
    }
    std::vector<uint32_t> order(graph.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    int64_t least = INT64_MAX, all = 0, valid = 0;
    do {
      const GraphCheck check = CheckGraph(graph, apart, order);
      bool keeps = flow.ok();
      const std::vector<uint32_t> place = Places(order);
      for (uint32_t node = 0; flow.ok() && node < flow->nodes; ++node) {
        for (const uint32_t before : flow->predecessors[node]) keeps &= place[before] < place[node];
      }
      ASSERT_EQ(check.valid, keeps) << "seed " << seed << " " << flow.status();
      ++all;
      if (!check.valid) continue;
      ++valid;
      least = std::min(least, check.max_load);
    } while (std::next_permutation(order.begin(), order.end()));
    if (!flow.ok()) {
      ++refused;
      continue;
    }
    const GraphPlan plan = Plan(graph, "reorder");
    ASSERT_EQ(plan.max_load, least) << "seed " << seed;
    ASSERT_LE(plan.order_bound, least) << "seed " << seed;
    ASSERT_EQ(LeastPeakByAntichains(*flow), least) << "seed " << seed;
    ++legal;
    limited += valid < all;
  }
  EXPECT_GT(legal, Rounds(1'000));
  EXPECT_GT(limited, Rounds(500));
  EXPECT_GT(refused, 50);
}

// A view of a view of a view …, and a write over a write over a write …: neither time nor memory
// grows with the square.
TEST(Aliases, LongChainsTakeLinearTime) {
  constexpr uint32_t kLong = Rounds(200'000);
  for (const Alias alias : {Alias::kView, Alias::kWrite, Alias::kNotStated}) {
    Graph graph;
    graph.streams = {{"0", true}};
    for (uint32_t t = 0; t < kLong; ++t) {
      graph.nodes.push_back({{absl::StrCat(t), true}, 0, {}});
      Tensor tensor;
      tensor.id = {absl::StrCat("t", t), false};
      tensor.producer = t;
      tensor.bytes = 8;
      if (t + 1 < kLong) tensor.consumers = {t + 1};
      tensor.alias_of = t > 0 ? t - 1 : kNone;
      tensor.alias = alias;
      graph.tensors.push_back(std::move(tensor));
    }
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
    ASSERT_TRUE(flow.ok()) << flow.status();
    EXPECT_EQ(flow->storages.size(), 1);
    const GraphCheck check = CheckGraph(graph, std::vector<int64_t>(kLong, 0), flow->sequence);
    EXPECT_TRUE(check.valid);
    EXPECT_EQ(check.makespan, 8);
    // The square would take minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  }
}

TEST(Aliases, LimitsAreStated) {
  Graph graph;
  for (uint32_t i = 0; i < 20'000; ++i) {
    graph.streams.push_back({absl::StrCat(i), true});
    graph.nodes.push_back({{absl::StrCat(i), true}, i, {}});
  }
  EXPECT_EQ(PrepareGraph(graph).status().message(),
            "nodes: expected at most 134217728 nodes times streams, found 20000 nodes in 20000 "
            "streams");
  // 4,000 writes, each of a piece of what 4,000 nodes read.
  graph = Graph();
  graph.streams = {{"0", true}};
  graph.tensors = {MakeTensor("x", kNone, {}, 4'000)};
  for (uint32_t i = 0; i < 4'000; ++i) {
    graph.nodes.push_back({{absl::StrCat(i), true}, 0, {}});
    graph.nodes.push_back({{absl::StrCat("w", i), false}, 0, {}});
    graph.tensors[0].consumers.push_back(2 * i);
    graph.tensors.push_back(MakeTensor("", 2 * i + 1, {}, 1));
    graph.tensors.back().id.text = absl::StrCat("t", i);
    graph.tensors.back().alias_of = 0;
    graph.tensors.back().alias_offset = i;
    graph.tensors.back().alias = Alias::kWrite;
  }
  EXPECT_EQ(
      PrepareGraph(graph).status().message(),
      "tensor 'x': expected at most 4194304 pairs of a use and a later write of the same bytes, "
      "found more");
}

}  // namespace
}  // namespace reprise::planner::graph
