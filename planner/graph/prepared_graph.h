// A graph prepared for the algorithms: indices, adjacency, one execution in sequence, and storages
// in place of tensors.
#ifndef REPRISE_PLANNER_GRAPH_PREPARED_GRAPH_H_
#define REPRISE_PLANNER_GRAPH_PREPARED_GRAPH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/graph/graph.h"
#include "planner/graph/lists.h"

namespace reprise::planner::graph {

// The memory of a tensor and of its aliases. Needed from the first of its starts until the last of
// its ends is over, whatever the interleaving: it precedes another storage iff a path leads from
// every end of the one to every start of the other.
struct Storage {
  int64_t bytes =
      0;  // of all its tensors; rounded up to PreparedGraph::alignment, in a group to its own
  int64_t alignment = 1;
  int64_t offset = kFree;
  bool persistent = false;
  bool output = false;  // needed until the end; has starts, or is persistent
};

struct PreparedGraph {
  uint32_t nodes = 0;
  // What must have ended before what starts: readers after producers, writers in place after
  // readers of the old value; the order of streams only where that is needed for the latter. Each
  // once.
  Lists successors;
  Lists predecessors;            // the same backwards
  std::vector<uint32_t> stream;  // per node
  uint32_t streams = 0;
  // One execution of all nodes that keeps dependencies and streams. The order of a stream is the
  // order of its nodes in here.
  std::vector<uint32_t> sequence;
  bool order_given = false;  // the graph stated an order for every node: in streams or as a whole

  // What every storage's alignment is a multiple of. All offsets then are multiples of it, and all
  // sizes may as well be.
  int64_t alignment = 1;
  std::vector<Storage> storages;
  Lists
      starts;  // per storage: nodes that write it first, each once; none: there from the beginning
  Lists ends;  // per storage: its nodes, each once
  std::vector<uint32_t> storage_of;           // per tensor
  std::vector<int64_t> position;              // per tensor: bytes from its storage's beginning
  std::vector<std::vector<uint32_t>> groups;  // storages, side by side
};

// Errors: InvalidArgument that names the node, tensor or group, what was expected and what found:
// cycles, orders that contradict each other or the dependencies, values that are overwritten before
// they have been read, sizes whose sum overflows, aliases and groups that cannot be, and more nodes
// times streams than there is memory for.
absl::StatusOr<PreparedGraph> PrepareGraph(const Graph& graph);

// For every node its place in `sequence`.
std::vector<uint32_t> Places(std::span<const uint32_t> sequence);

// Bytes that are needed before the first node of `sequence` runs, and then while each node runs,
// when nodes run one after the other; one entry more than nodes.
std::vector<int64_t> Loads(const PreparedGraph& flow, std::span<const uint32_t> sequence);

// The largest of these: the peak, or max load, of an execution in sequence.
int64_t Peak(const PreparedGraph& flow, std::span<const uint32_t> sequence);

// The lifetime of every storage in an execution in sequence: half-open intervals of steps, that of
// the first node being 0. What is there from the beginning lives from -1.
struct Span {
  int64_t lower = 0;
  int64_t upper = 0;
};
std::vector<Span> Lifetimes(const PreparedGraph& flow, std::span<const uint32_t> sequence);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_PREPARED_GRAPH_H_
