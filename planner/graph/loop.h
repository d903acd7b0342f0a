// Plans for graphs that are the body of a loop (Graph::loop).
#ifndef REPRISE_PLANNER_GRAPH_LOOP_H_
#define REPRISE_PLANNER_GRAPH_LOOP_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/graph/graph.h"
#include "planner/graph/graph_plan.h"
#include "planner/graph/prepared_graph.h"

namespace reprise::planner::graph {

// Whether the loop of a graph is one that PlanLoop takes. InvalidArgument, which names the node or
// the tensors.
absl::Status ValidateLoop(const Graph& graph, const PreparedGraph& flow);

// An iteration runs all nodes in the given order, one step each. A tensor without producer is read
// in every iteration, so it lives throughout, as a persistent one; unless it is carried, for then
// its memory is that of the tensor that it was in the iteration before. An output is needed until
// the end of its iteration. The rest is a periodic instance (planner/core/periodic.h): what is
// carried from its producer until the last reader in the next iteration has two slots where that is
// more than a period, else one.
// Errors as PlanGraph; FailedPrecondition where options ask for another order, or for a strategy
// that needs pairs.
absl::StatusOr<GraphPlan> PlanLoop(const Graph& graph, const GraphOptions& options);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_LOOP_H_
