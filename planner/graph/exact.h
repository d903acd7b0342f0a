// Bounds and exact search for conflicts that are pairs.
#ifndef REPRISE_PLANNER_GRAPH_EXACT_H_
#define REPRISE_PLANNER_GRAPH_EXACT_H_

#include <cstdint>
#include <functional>

#include "planner/graph/conflict.h"

namespace reprise::planner::graph {

// A set of storages that conflict in pairs cannot share a byte, so their sum is a lower bound. The
// set is what lives at an instant of the sequence, grown by whatever conflicts with all of it, from
// several instants, and best of all. Bytes.
int64_t CliqueBound(const PreparedGraph& flow, const PairSet& unsafe);

struct ExactOutcome {
  BlockOffsets offsets;    // better than `record`; empty: none was found
  bool exhausted = false;  // nothing better than what is known exists
};

// Depth-first over the blocks by rising offset, each as low as it goes: one such order is optimal
// where every block has one member. With groups it need not be, and the search proves nothing.
// Gives up after `nodes` placements (0: no limit) or when `stop` says so.
ExactOutcome SearchExactly(const ConflictProblem& problem, int64_t lower_bound, int64_t record,
                           int64_t nodes, const std::function<bool()>& stop);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_EXACT_H_
