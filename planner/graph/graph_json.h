// Graphs and their plans as JSON (docs/reference/graph_format.md).
#ifndef REPRISE_PLANNER_GRAPH_GRAPH_JSON_H_
#define REPRISE_PLANNER_GRAPH_GRAPH_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/graph/graph.h"

namespace reprise::planner::graph {

// Reads a graph. Errors: InvalidArgument "NAME: where: expected ..., found ..."; `name` is the
// file's, for messages. Unknown fields are refused, or where `ignored` is given described in it.
// What PrepareGraph refuses is not looked for here. Where some tensor of the file states what kind
// of alias it is, those that do not are views; parts without an offset get one.
absl::StatusOr<Graph> ParseGraph(std::string_view text, const std::string& name,
                                 std::vector<std::string>* ignored = nullptr);

// The part of a plan that its reader needs: an offset per tensor, in the order of graph.tensors,
// and the execution that it holds for.
struct Placement {
  std::vector<int64_t> offsets;               // bytes
  std::vector<uint32_t> order;                // all nodes
  std::vector<std::vector<int64_t>> slots{};  // of a loop: as GraphPlan; else empty
};

// Figures that go in front of the placement: name and JSON value.
using Figures = std::vector<std::pair<std::string, std::string>>;

// The text of a plan file.
std::string FormatPlan(const Graph& graph, const Placement& plan, const Figures& figures);

// Reads a plan of `graph`. Errors as ParseGraph: unknown, missing and repeated ids, offsets that
// are none.
absl::StatusOr<Placement> ParsePlan(std::string_view text, const std::string& name,
                                    const Graph& graph,
                                    std::vector<std::string>* ignored = nullptr);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_GRAPH_JSON_H_
