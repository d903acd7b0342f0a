// Orders, and orders with offsets, by integer programs (Steiner et al., OLLA, section 3), solved by
// COIN-OR CBC. Without CBC, and for programs out of its reach, the start comes back as it is.
#ifndef REPRISE_PLANNER_GRAPH_OLLA_ILP_H_
#define REPRISE_PLANNER_GRAPH_OLLA_ILP_H_

#include <cstdint>
#include <vector>

#include "planner/graph/prepared_graph.h"
#include "planner/graph/reorder.h"
#include "planner/solve.h"

namespace reprise::planner::graph {

// The order of least peak, from `start`, until options.budget_seconds: an order and a bound.
// Thread-safe.
Ordering OrderByIntegerProgram(const PreparedGraph& flow, const Options& options, Ordering start);

struct OrderedPlan {
  std::vector<uint32_t> order;   // keeps the dependencies
  std::vector<int64_t> offsets;  // bytes; per storage
  int64_t makespan = 0;          // bytes
  int64_t bound = 0;             // bytes: no order has a plan with a smaller makespan
};

// Order and offsets at once, of one stream: for small graphs without groups, and alignments beyond
// that of the flow. As above, from `start`.
OrderedPlan PlanByIntegerProgram(const PreparedGraph& flow, const Options& options,
                                 OrderedPlan start);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_OLLA_ILP_H_
