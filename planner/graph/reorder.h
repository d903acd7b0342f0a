// A lower peak by another order of execution (Steiner et al., OLLA, arXiv 2210.12924, section 2.2).
#ifndef REPRISE_PLANNER_GRAPH_REORDER_H_
#define REPRISE_PLANNER_GRAPH_REORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/graph/prepared_graph.h"
#include "planner/solve.h"

namespace reprise::planner::graph {

struct Ordering {
  std::vector<uint32_t> order;  // keeps the dependencies; streams follow it
  int64_t peak = 0;             // bytes, run in sequence
  int64_t bound = 0;            // bytes: no order has a lower peak; 0: unknown
  std::string finder;
};

// For graphs of any size. The given order first; then beams over sets of nodes, forwards and
// backwards, wider and wider. Up to 1,024 nodes, branch and bound on the precedences that orders
// below a mark have (low_orders.h), with beams in every case: an order, a bound, or with time both
// proven. In between local search: what lives at a peak step is closed before or opened after it.
// Never worse than the given order. With options.iterations the same order for the same seed; else
// until options.budget_seconds or a proof.
Ordering Reorder(const PreparedGraph& flow, const Options& options);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_REORDER_H_
