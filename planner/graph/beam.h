// Search over the sets of nodes that may have run: the orders of execution of a graph, with those
// that ran the same nodes made one.
#ifndef REPRISE_PLANNER_GRAPH_BEAM_H_
#define REPRISE_PLANNER_GRAPH_BEAM_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/graph/memory_model.h"

namespace reprise::planner::graph {

struct BeamOptions {
  uint32_t width = 16;        // of the sets of the same size, as many are followed
  int64_t limit = INT64_MAX;  // orders whose peak reaches it are of no use
  int64_t good = 0;           // no order has a lower peak
};

struct BeamOutcome {
  std::vector<uint32_t> order;  // of the model; empty: none below the limit was found
  int64_t peak = INT64_MAX;
  bool exhausted = false;  // nothing was left out: there is none below the limit but this, and none
                           // better
};

// Layer by layer from the empty set. A chain of nodes, each of which waits for the one before, that
// frees in the end at least what it opened, at no new peak, runs at once: no order is better for
// waiting with it. Of equal sets the one of the lower peak is kept.
// With a width that no layer exceeds this is the exact dynamic program over the antichains.
// Deterministic but for `stop`.
BeamOutcome SearchOrders(const MemoryModel& model, const BeamOptions& options,
                         const std::function<bool()>& stop);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_BEAM_H_
