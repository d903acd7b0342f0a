// Which tensors may share memory: the paper's two algorithms against each other, against the
// definition, and against all interleavings.
#include "planner/graph/safety.h"

#include <gtest/gtest.h>

#include "tests/unit/effort.h"
#include "tests/unit/graph/random.h"

namespace reprise::planner::graph {
namespace {

Pairs ToPairs(const PairSet& set) {
  Pairs pairs;
  for (uint32_t a = 0; a < set.size(); ++a) {
    for (uint32_t b = a + 1; b < set.size(); ++b) {
      EXPECT_EQ(set.Contains(a, b), set.Contains(b, a));
      if (set.Contains(a, b)) pairs.insert({a, b});
    }
    EXPECT_FALSE(set.Contains(a, a));
  }
  return pairs;
}

// Theorem 1 word for word: paths by Floyd and Warshall.
Pairs UnsafeByDefinition(const PreparedGraph& flow) {
  std::vector<std::vector<bool>> path(flow.nodes, std::vector<bool>(flow.nodes, false));
  std::vector<uint32_t> last(flow.streams, kNone);
  for (const uint32_t node : flow.sequence) {
    for (const uint32_t p : flow.predecessors[node]) path[p][node] = true;
    if (last[flow.stream[node]] != kNone) path[last[flow.stream[node]]][node] = true;
    last[flow.stream[node]] = node;
  }
  for (uint32_t k = 0; k < flow.nodes; ++k) {
    for (uint32_t i = 0; i < flow.nodes; ++i) {
      for (uint32_t j = 0; path[i][k] && j < flow.nodes; ++j) {
        if (path[k][j]) path[i][j] = true;
      }
    }
  }
  const auto precedes = [&](uint32_t a, uint32_t b) {
    if (flow.storages[a].persistent || flow.storages[b].persistent) return false;
    if (flow.starts[b].empty() || flow.storages[a].output) return false;
    for (const uint32_t end : flow.ends[a]) {
      for (const uint32_t start : flow.starts[b]) {
        if (!path[end][start]) return false;
      }
    }
    return true;
  };
  Pairs pairs;
  for (uint32_t a = 0; a < flow.storages.size(); ++a) {
    for (uint32_t b = a + 1; b < flow.storages.size(); ++b) {
      if (flow.storages[a].bytes == 0 || flow.storages[b].bytes == 0) continue;
      if (!precedes(a, b) && !precedes(b, a)) pairs.insert({a, b});
    }
  }
  return pairs;
}

// Figure 2 of the paper, as its text tells it.
Graph Figure2() {
  Graph graph;
  graph.streams = {{"0", true}, {"1", true}, {"2", true}};
  const uint32_t streams[] = {0, 1, 0, 1, 1, 1, 2, 2};
  for (uint32_t i = 0; i < 8; ++i) {
    graph.nodes.push_back(MakeNode(static_cast<int>(i) + 1, streams[i]));
  }
  const auto add = [&](const char* name, uint32_t from, std::vector<uint32_t> to) {
    for (uint32_t& node : to) --node;
    graph.tensors.push_back(MakeTensor(name, from - 1, std::move(to), 512));
  };
  add("a", 1, {2, 3});
  add("b", 1, {7});
  add("c", 2, {4});
  add("d", 4, {5});
  add("e", 3, {6, 7});
  add("f", 4, {6});
  add("g", 5, {8});
  add("h", 7, {8});
  add("i", 6, {8});
  return graph;
}

TEST(Safety, Figure2) {
  const Graph graph = Figure2();
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
  ASSERT_TRUE(flow.ok()) << flow.status();
  for (const PairSet& unsafe : {UnsafePairsByAncestors(*flow), UnsafePairsByStreams(*flow)}) {
    const auto is_unsafe = [&](char x, char y) { return unsafe.Contains(x - 'a', y - 'a'); };
    EXPECT_TRUE(is_unsafe('a', 'f')) << "node 4 may run before node 3";
    EXPECT_TRUE(is_unsafe('h', 'a')) << "node 7 may run before node 2 has read a";
    EXPECT_FALSE(is_unsafe('i', 'a'));
    EXPECT_TRUE(is_unsafe('b', 'e'));
    EXPECT_FALSE(is_unsafe('i', 'c'));
    EXPECT_FALSE(is_unsafe('i', 'd'));
    EXPECT_TRUE(is_unsafe('i', 'f')) << "node 6 reads f while it writes i";
    for (const char c : {'c', 'd', 'f', 'g', 'i'}) {
      EXPECT_TRUE(is_unsafe('h', c)) << "nothing of stream 1 leads to node 7";
    }
    EXPECT_EQ(ToPairs(unsafe), UnsafeByDefinition(*flow));
    EXPECT_EQ(ToPairs(unsafe), UnsafeByInterleavings(*flow));
    EXPECT_EQ(unsafe.Pairs(), static_cast<int64_t>(ToPairs(unsafe).size()));
  }
}

TEST(Safety, BothAlgorithmsAgreeOnManyGraphs) {
  for (uint64_t seed = 0; seed < Rounds(100'000); ++seed) {
    GraphShape shape;
    shape.nodes = 1 + static_cast<int>(seed % 13);
    shape.streams = 1 + static_cast<int>(seed % 5);
    shape.tensors = 1 + static_cast<int>(seed / 7 % 17);
    shape.reach = 1 + static_cast<int>(seed / 3 % 13);
    shape.constrained = seed % 2 == 1;
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(RandomGraph(seed, shape));
    if (!flow.ok()) {
      ASSERT_TRUE(shape.constrained) << flow.status();
      continue;
    }
    ASSERT_EQ(UnsafePairsByAncestors(*flow), UnsafePairsByStreams(*flow)) << "seed " << seed;
    if (seed % 16 == 0) {
      ASSERT_EQ(ToPairs(UnsafePairsByStreams(*flow)), UnsafeByDefinition(*flow)) << "seed " << seed;
    }
  }
}

TEST(Safety, LargerGraphsKeepTheDefinition) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    GraphShape shape;
    shape.nodes = 40 + static_cast<int>(seed % 60);
    shape.streams = 1 + static_cast<int>(seed % 9);
    shape.tensors = 60 + static_cast<int>(seed % 100);
    shape.reach = 1 + static_cast<int>(seed % 40);
    shape.constrained = seed % 3 == 0;
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(RandomGraph(seed, shape));
    if (!flow.ok()) continue;
    const PairSet unsafe = UnsafePairsByStreams(*flow);
    ASSERT_EQ(UnsafePairsByAncestors(*flow), unsafe) << "seed " << seed;
    ASSERT_EQ(ToPairs(unsafe), UnsafeByDefinition(*flow)) << "seed " << seed;
  }
}

TEST(Safety, ExactlyWhatSomeInterleavingNeedsAtOnce) {
  for (uint64_t seed = 0; seed < Rounds(20'000); ++seed) {
    GraphShape shape;
    shape.nodes = 1 + static_cast<int>(seed % 6);
    shape.streams = 1 + static_cast<int>(seed % 4);
    shape.tensors = 1 + static_cast<int>(seed / 5 % 8);
    shape.constrained = seed % 2 == 1;
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(RandomGraph(seed, shape));
    if (!flow.ok()) continue;
    ASSERT_EQ(ToPairs(UnsafePairsByStreams(*flow)), UnsafeByInterleavings(*flow))
        << "seed " << seed;
  }
}

TEST(Safety, OneStreamIsOverlapInTime) {
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    GraphShape shape{12, 1, 20, 6};
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(RandomGraph(seed, shape));
    ASSERT_TRUE(flow.ok());
    const PairSet unsafe = UnsafePairsByStreams(*flow);
    const std::vector<Span> spans = Lifetimes(*flow, flow->sequence);
    for (uint32_t a = 0; a < unsafe.size(); ++a) {
      for (uint32_t b = 0; b < a; ++b) {
        const bool overlap = spans[a].lower < spans[b].upper && spans[b].lower < spans[a].upper;
        ASSERT_EQ(unsafe.Contains(a, b), overlap) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::planner::graph
