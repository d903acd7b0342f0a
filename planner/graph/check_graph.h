// The independent checker of plans for graphs. It shares no code with what makes them.
#ifndef REPRISE_PLANNER_GRAPH_CHECK_GRAPH_H_
#define REPRISE_PLANNER_GRAPH_CHECK_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/graph_plan.h"

namespace reprise::planner::graph {

struct GraphCheck {
  struct Violation {
    Id first;   // a tensor; a node where the order is wrong
    Id second;  // the other one, or the same
    std::string message;
  };
  bool valid = false;
  int64_t makespan = 0;               // bytes, recomputed
  int64_t max_load = 0;               // bytes that `order` needs at its peak, run in sequence
  std::vector<Violation> violations;  // the first few; empty iff valid
};

// Checks that `order` holds every node once and keeps the dependencies; and that under every
// interleaving of the streams, each of them in that order, no two tensors that are needed at once
// share a byte, and none is overwritten by an alias before all who use it have ended. Aliases lie
// where they belong in their targets, groups side by side, alignments and given offsets are kept.
// `graph` is one that PrepareGraph takes, `offsets` has one entry per tensor, `order` one per node.
// Streams by vector clocks, 4 bytes for each node and stream; one stream by a sweep over time. At
// most `most` violations are reported.
GraphCheck CheckGraph(const Graph& graph, const std::vector<int64_t>& offsets,
                      const std::vector<uint32_t>& order, size_t most = 8);

// Whether the check found the plan valid, and as large as it says. Else Internal, with the strategy
// and the first violation.
absl::Status AsPlanned(const GraphCheck& check, const GraphPlan& plan);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_CHECK_GRAPH_H_
