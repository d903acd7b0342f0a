// What an execution in sequence costs, step by step: the model that searches for orders share.
#ifndef REPRISE_PLANNER_GRAPH_MEMORY_MODEL_H_
#define REPRISE_PLANNER_GRAPH_MEMORY_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "planner/graph/prepared_graph.h"

namespace reprise::planner::graph {

// A storage opens when the first of its openers runs and closes when the last of its closers has
// run. Read backwards a graph is a graph again, in which ends open and starts close: an execution
// of the one is, backwards, an execution of the other with the same loads.
struct MemoryModel {
  uint32_t nodes = 0;
  Lists successors;
  Lists predecessors;
  std::vector<int64_t> bytes;  // per storage; those of 0 bytes are left out
  Lists openers;               // per storage; none: open from the beginning
  Lists closers;               // per storage; none: never closes
  Lists opens;                 // per node: storages that it may open
  Lists closes;                // per node: storages that it may close
  int64_t initial = 0;         // bytes that are open before the first node
  int64_t floor = 0;           // bytes: the peak before the first node runs
  bool backwards = false;
};

MemoryModel MakeMemoryModel(const PreparedGraph& flow, bool backwards);

// The same, with more precedences than the flow's: `successors` imply those.
MemoryModel MakeMemoryModel(const PreparedGraph& flow, bool backwards, const Lists& successors);

// The peak of an execution; bytes. `order` is one of the model: backwards where that is.
int64_t PeakOf(const MemoryModel& model, std::span<const uint32_t> order);

// No execution has a lower peak: what must be open while a node runs, because paths lead from its
// start to the node and from there to one of its ends; the most over all nodes. Bytes.
// O(storages * nodes / 64) time, nodes^2 / 4 bytes of memory.
int64_t OrderBound(const PreparedGraph& flow);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_MEMORY_MODEL_H_
