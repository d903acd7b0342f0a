// Executions of a graph: from precedences between nodes to one order of all nodes.
#ifndef REPRISE_PLANNER_GRAPH_SEQUENCE_H_
#define REPRISE_PLANNER_GRAPH_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/graph/aliases.h"
#include "planner/graph/graph.h"
#include "planner/graph/lists.h"

namespace reprise::planner::graph {

// All edges between nodes, and why they are there.
class Edges {
 public:
  // Those of producers and consumers. `graph` must outlive the edges.
  explicit Edges(const Graph& graph);

  void Add(const std::vector<Precedence>& precedences);
  void AddPairs(const std::vector<IndexPair>& pairs);

  // Per node, ascending, each once.
  const Lists& successors() const { return successors_; }
  const Lists& predecessors() const { return predecessors_; }

  // Why an edge is there that no consumer makes; or null.
  const Precedence* Reason(uint32_t before, uint32_t after) const;

 private:
  void Build();

  const Graph& graph_;
  std::vector<IndexPair> by_tensors_;  // sorted
  std::vector<IndexPair> others_;
  std::vector<Precedence> reasons_;  // sorted by nodes
  Lists successors_;
  Lists predecessors_;
};

// For every node the one before it in its stream, where the graph states that order, or kNone.
// Errors: InvalidArgument that names the nodes.
absl::StatusOr<std::vector<uint32_t>> StreamPredecessors(const Graph& graph);

// An order of all nodes that keeps the edges and the `before` of every node; of those that may come
// next, the first in the file. Errors: InvalidArgument that names a cycle, or what is overwritten
// before it has been read.
absl::StatusOr<std::vector<uint32_t>> SortTopologically(const Graph& graph, const Edges& edges,
                                                        const std::vector<uint32_t>& before);

// The graph's own order, if that is one. Errors: InvalidArgument that says what is wrong with it.
absl::Status CheckGivenOrder(const Graph& graph, const Edges& edges,
                             const std::vector<uint32_t>& before);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_SEQUENCE_H_
