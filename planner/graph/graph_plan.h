// What is asked of a plan for a graph, and what it is.
#ifndef REPRISE_PLANNER_GRAPH_GRAPH_PLAN_H_
#define REPRISE_PLANNER_GRAPH_GRAPH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/options.h"

namespace reprise::planner::graph {

struct GraphOptions {
  // A strategy of Strategies() or GraphStrategies(); the budget is for ordering and placing.
  Options solve;
  // given: as the graph states it. reorder: by heuristics. olla_ilp: by an integer program. auto:
  // given where the graph states an order, else reorder.
  std::string order = "auto";
  // ancestor or stream_graph: two ways to the same pairs.
  std::string safety = "stream_graph";
};

struct GraphPlan {
  std::vector<int64_t> offsets;  // bytes; one per tensor
  // Of a loop: iteration i has tensor t at slots[t][i mod slots[t].size()]; offsets are the first
  // ones. Else empty.
  std::vector<std::vector<int64_t>> slots;
  std::vector<uint32_t> order;  // the execution in sequence; every stream follows it
  int64_t makespan = 0;         // bytes
  int64_t max_load = 0;         // bytes: the peak of `order`, run in sequence
  int64_t given_max_load = 0;   // bytes: that of the given order
  int64_t order_bound = 0;      // bytes: no order has a lower peak, as far as is known; 0: unknown
  int64_t lower_bound = 0;      // bytes: no plan for this order has a smaller makespan
  std::string strategy;
  bool proven_optimal = false;  // makespan == lower_bound
  bool order_changed = false;
  std::string order_finder = "given";
  int64_t unsafe_pairs = 0;  // of storages: tensors with memory of their own
  uint32_t streams = 0;
  double seconds = 0;         // wall-clock
  double order_seconds = 0;   // of these, for the order
  double safety_seconds = 0;  // CPU seconds of the calling thread, for the unsafe pairs
  double place_seconds = 0;   // CPU seconds of the calling thread, for the offsets
  uint64_t seed = 0;
};

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_GRAPH_PLAN_H_
