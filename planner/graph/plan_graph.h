// From a graph to a plan: an order of execution, safety, offsets.
#ifndef REPRISE_PLANNER_GRAPH_PLAN_GRAPH_H_
#define REPRISE_PLANNER_GRAPH_PLAN_GRAPH_H_

#include "absl/status/statusor.h"
#include "planner/graph/graph.h"
#include "planner/graph/graph_plan.h"

namespace reprise::planner::graph {

// Errors: InvalidArgument for a graph that is none (it names what is wrong); FailedPrecondition for
// options that do not suit the graph; Internal when the checker refused the plan. Thread-safe.
absl::StatusOr<GraphPlan> PlanGraph(const Graph& graph, const GraphOptions& options);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_PLAN_GRAPH_H_
