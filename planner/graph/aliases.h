// What the aliases of a graph mean (docs/reference/graph_format.md): where tensors lie in the
// memory that they share, and which nodes must have ended before others start, so that all read
// what they expect.
#ifndef REPRISE_PLANNER_GRAPH_ALIASES_H_
#define REPRISE_PLANNER_GRAPH_ALIASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/graph/graph.h"
#include "planner/graph/lists.h"

namespace reprise::planner::graph {

// What a tensor is to the memory that it lies in.
enum class Use : uint8_t {
  kOwn,     // no alias
  kPart,    // written before the tensor that is made of it
  kView,    // names bytes, writes none
  kWrite,   // overwrites bytes
  kEither,  // a view or a write, planned as both
};

// `before` ends before `after` starts.
struct Precedence {
  uint32_t before = kNone;  // a node that writes or reads `tensor`
  uint32_t after = kNone;   // the node that produces `alias`, or reads it
  uint32_t tensor = kNone;
  uint32_t alias = kNone;  // a view of `tensor`, or what overwrites it
};

struct Aliases {
  std::vector<uint32_t> root;      // per tensor: the one without alias_of
  std::vector<uint32_t> depth;     // per tensor: how many alias_of lead to the root
  std::vector<uint32_t> number;    // per tensor: all that are below it have numbers from its own,
  std::vector<uint32_t> end;       // up to, not with, this one
  std::vector<int64_t> position;   // per tensor: bytes from the root's beginning
  std::vector<int64_t> size;       // per tensor: bytes
  std::vector<Use> use;            // per tensor
  std::vector<uint32_t> version;   // per tensor: the one that wrote its value; itself but for views
  std::vector<uint32_t> maker;     // per tensor: the node that it is there after, or kNone
  std::vector<uint32_t> write;     // per tensor: the nearest of it and its targets that is a write
  std::vector<Precedence> views;   // dependencies: a view is there when its target is
  std::vector<Precedence> writes;  // a write comes after the node that made its target

  // Whether alias_of leads from `below` to `t`.
  bool Holds(uint32_t t, uint32_t below) const {
    return number[t] <= number[below] && number[below] < end[t];
  }
};

// Errors: InvalidArgument that names the tensor: cycles of aliases, views that leave their target,
// writes without a producer, and aliases that could be several things.
absl::StatusOr<Aliases> ResolveAliases(const Graph& graph);

// Whoever uses a value before whoever overwrites it. `order` is topological for `successors`, which
// hold all dependencies, the views and writes of `aliases`. Errors: InvalidArgument that names the
// tensor and both nodes, for two writers between which there is no path, and for values that must
// not be overwritten; or that says that there are too many pairs.
absl::StatusOr<std::vector<Precedence>> FindHazards(const Graph& graph, const Aliases& aliases,
                                                    const std::vector<uint32_t>& order,
                                                    const Lists& successors);

// "tensor 'a': expected node 'r', which reads it, to end before node 'w' starts, which overwrites
// it with tensor 'b'". For a view: "..., which makes the view 'b' of it".
std::string Describe(const Graph& graph, const Precedence& precedence);

// What to add to an old file so that this precedence may not be needed; empty for others.
std::string Remedy(const Graph& graph, const Precedence& precedence);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_ALIASES_H_
