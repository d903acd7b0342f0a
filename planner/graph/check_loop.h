// The independent checker of plans for graphs that are the body of a loop: it unrolls the loop into
// an ordinary graph. It shares no code with what makes plans.
#ifndef REPRISE_PLANNER_GRAPH_CHECK_LOOP_H_
#define REPRISE_PLANNER_GRAPH_CHECK_LOOP_H_

#include <cstdint>
#include <vector>

#include "planner/graph/check_graph.h"
#include "planner/graph/graph.h"

namespace reprise::planner::graph {

// Checks several iterations, in which tensor t of iteration i lies at slots[t][i mod its size], as
// CheckGraph does; ids in messages carry the iteration ("w in iteration 2"). What is carried must
// be read where it was written. `graph` is one that ValidateLoop takes; `slots` has one or two
// offsets per tensor (more are a violation), `order` one entry per node.
GraphCheck CheckLoop(const Graph& graph, const std::vector<std::vector<int64_t>>& slots,
                     const std::vector<uint32_t>& order, size_t most = 8);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_CHECK_LOOP_H_
