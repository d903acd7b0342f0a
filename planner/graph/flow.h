// A graph prepared for the algorithms: indices, adjacency, one execution in sequence, and storages
// in place of tensors.
#ifndef REPRISE_PLANNER_GRAPH_FLOW_H_
#define REPRISE_PLANNER_GRAPH_FLOW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/graph/graph.h"

namespace reprise::planner::graph {

// Lists of indices, one per owner, in one array.
struct Lists {
  std::vector<uint32_t> first = {0};  // one more than owners
  std::vector<uint32_t> items;

  size_t size() const { return first.size() - 1; }
  std::span<const uint32_t> operator[](size_t owner) const {
    return {items.data() + first[owner], items.data() + first[owner + 1]};
  }
  void Add(std::span<const uint32_t> list) {
    items.insert(items.end(), list.begin(), list.end());
    first.push_back(static_cast<uint32_t>(items.size()));
  }
};

// The memory of a tensor and of its aliases. Needed from the first of its starts until the last of
// its ends is over, whatever the interleaving: it precedes another storage iff a path leads from
// every end of the one to every start of the other.
struct Storage {
  int64_t bytes = 0;  // of the largest alias, rounded up to Flow::alignment
  int64_t alignment = 1;
  int64_t offset = kFree;
  bool persistent = false;
};

struct Flow {
  uint32_t nodes = 0;
  Lists successors;              // by tensors, not by streams; ascending, each once
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
  std::vector<std::vector<uint32_t>> groups;  // storages, side by side
};

// Errors: InvalidArgument that names the node, tensor or group, what was expected and what found:
// cycles, orders that contradict each other or the dependencies, sizes whose sum overflows, aliases
// and groups that cannot be.
absl::StatusOr<Flow> MakeFlow(const Graph& graph);

// For every node its place in `sequence`.
std::vector<uint32_t> Places(std::span<const uint32_t> sequence);

// Bytes that are needed before the first node of `sequence` runs, and then while each node runs,
// when nodes run one after the other; one entry more than nodes.
std::vector<int64_t> Loads(const Flow& flow, std::span<const uint32_t> sequence);

// The largest of these: the peak, or max load, of an execution in sequence.
int64_t Peak(const Flow& flow, std::span<const uint32_t> sequence);

// The lifetime of every storage in an execution in sequence: half-open intervals of steps, that of
// the first node being 0. What is there from the beginning lives from -1.
struct Span {
  int64_t lower = 0;
  int64_t upper = 0;
};
std::vector<Span> Lifetimes(const Flow& flow, std::span<const uint32_t> sequence);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_FLOW_H_
