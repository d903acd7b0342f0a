// Parts of the checker: what tensors share, which nodes precede which, and whether every reader
// finds the value that it expects. They share no code with what makes plans.
#ifndef REPRISE_PLANNER_GRAPH_CHECK_VALUES_H_
#define REPRISE_PLANNER_GRAPH_CHECK_VALUES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/graph/graph.h"

namespace reprise::planner::graph {

// What the aliases of a graph say, tensor by tensor. The graph is one that PrepareGraph takes.
struct Sharing {
  enum Kind : uint8_t { kNew, kWindow, kOverwrite };
  std::vector<uint32_t> base;    // the tensor at the end of alias_of
  std::vector<int64_t> start;    // bytes from the base's first
  std::vector<int64_t> bytes;    // an alias of 0 bytes has its target's
  std::vector<Kind> kind;        // new bytes; a window onto those of the target; overwritten ones
  std::vector<uint32_t> origin;  // the tensor whose write made the value; itself but for windows
  std::vector<uint32_t> since;  // the node that must have ended for the value to be there, or kNone
  std::vector<uint32_t> overwrite;  // the nearest of it and its targets that is kOverwrite
  // alias_of leads to a tensor from those that have ranks in [rank, last).
  std::vector<size_t> rank, last;

  bool Leads(uint32_t from, uint32_t to) const {
    return rank[from] >= rank[to] && rank[from] < last[to];
  }

  explicit Sharing(const Graph& graph);
};

// Pairs of nodes: what the second one reads, the first one makes.
std::vector<std::pair<uint32_t, uint32_t>> DataDependencies(const Graph& graph,
                                                            const Sharing& sharing);

// Which node has always ended when another one starts: with one stream by the order, with several
// by vector clocks, 4 bytes for each node and stream.
class Timeline {
 public:
  // `order` holds every node once and keeps `dependencies`.
  Timeline(const Graph& graph, const std::vector<uint32_t>& order,
           const std::vector<std::pair<uint32_t, uint32_t>>& dependencies);

  bool Precedes(uint32_t first, uint32_t second) const {
    if (streams_ <= 1) return step_[first] < step_[second];
    return clock_[size_t{second} * streams_ + stream_[first]] >= place_[first];
  }
  int64_t step(uint32_t node) const { return step_[node]; }

 private:
  size_t streams_;
  std::vector<int64_t> step_;     // of every node in the order
  std::vector<uint32_t> stream_;  // of every node
  std::vector<uint32_t> place_;   // of every node in its stream, from 1
  std::vector<uint32_t> clock_;   // per node and stream: how many of its nodes have ended before
};

// Called with two tensors and what is wrong; false: enough.
using ValueReport = std::function<bool(uint32_t, uint32_t, const std::string&)>;

// Reports values that are overwritten before all who use them have ended, whatever the
// interleaving.
void CheckValues(const Graph& graph, const Sharing& sharing, const Timeline& timeline,
                 const ValueReport& report);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_CHECK_VALUES_H_
