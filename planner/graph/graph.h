// A dataflow graph as its owner states it: operators, the tensors between them, streams that run in
// parallel, tensors that must lie side by side.
#ifndef REPRISE_PLANNER_GRAPH_GRAPH_H_
#define REPRISE_PLANNER_GRAPH_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::planner::graph {

// No node, no tensor.
inline constexpr uint32_t kNone = ~uint32_t{0};

// An offset that the planner decides.
inline constexpr int64_t kFree = -1;

// What the owner calls a node, a tensor or a stream: text or a whole number. "1" and 1 differ.
struct Id {
  std::string text;
  bool number = false;

  bool operator==(const Id&) const = default;
};

// For messages: 'text' or number, printable.
std::string Quoted(const Id& id);

// An operator. Streams run in parallel, the nodes of one stream one after the other.
struct Node {
  Id id;
  uint32_t stream = 0;           // index into Graph::streams
  std::optional<int64_t> order;  // its place in its stream; ascending, gaps are allowed
};

// How a tensor uses the memory of another one.
enum class Alias : uint8_t {
  kNotStated,  // a view or a write: an old file does not tell
  kView,       // or a part of a tensor that is made of it
  kWrite,      // the producer overwrites what was there
};

// Memory that a node writes and others read. Needed from the start of its producer until all of its
// consumers have ended; without consumers, or consumed by its producer only, while that runs.
struct Tensor {
  Id id;
  uint32_t producer = kNone;  // kNone: it is there before the first node runs
  std::vector<uint32_t> consumers;
  int64_t bytes = 0;          // >= 0; 0: needs no memory; of an alias: as large as its target
  int64_t alignment = 1;      // of the offset; a power of two
  int64_t offset = kFree;     // given, or kFree
  uint32_t alias_of = kNone;  // the tensor whose memory this one uses: its target
  int64_t alias_offset = 0;   // bytes: where in its target it begins
  Alias alias = Alias::kNotStated;
  bool output = false;      // needed until the end of the graph
  bool persistent = false;  // needed before, during and after the execution
};

// The graph is the body of a loop, run again and again. Needs one stream and no groups.
struct Loop {
  std::vector<uint32_t> body;  // all nodes, in any order
  // Pairs of tensors: `second`, which has no producer, is in an iteration what the iteration before
  // made as `first`.
  std::vector<std::pair<uint32_t, uint32_t>> carried;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
  // Tensors that follow each other in memory without a gap, in this order.
  std::vector<std::vector<uint32_t>> groups;
  // The given sequential execution, all nodes; empty: none is given.
  std::vector<uint32_t> order;
  std::vector<Id> streams;
  std::optional<Loop> loop;
};

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_GRAPH_H_
