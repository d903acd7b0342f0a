// Feeds the readers of graphs and of their plans anything at all. The first byte says what the
// others are:
//   0  a graph; what is one, and small, is planned, its plan checked, written and read again
//   1  the plan of a graph
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/plan_graph.h"
#include "planner/graph/prepared_graph.h"

namespace {

using namespace reprise::planner::graph;  // NOLINT(google-build-using-namespace)

// Larger ones take too long for a fuzzer.
constexpr size_t kSmall = 100;

void Require(bool condition) {
  if (!condition) std::abort();
}

// One line that names the file.
void RequireMessage(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(!status.message().empty());
  const std::string message(status.message());
  Require(reprise::base::Printable(message) == message);
}

void RequireValid(const Graph& graph, const GraphPlan& plan) {
  const GraphCheck check = CheckGraph(graph, plan.offsets, plan.order);
  Require(check.valid && check.makespan == plan.makespan && check.max_load == plan.max_load);
}

void ReadGraph(const std::string& text) {
  std::vector<std::string> ignored;
  absl::StatusOr<Graph> graph = ParseGraph(text, "fuzz");
  if (!graph.ok()) {
    RequireMessage(graph.status());
    // Without the unknown fields it may be a graph.
    graph = ParseGraph(text, "fuzz", &ignored);
    if (!graph.ok()) return RequireMessage(graph.status());
    Require(!ignored.empty());
  }
  if (graph->nodes.size() > kSmall || graph->tensors.size() > kSmall) {
    const absl::StatusOr<PreparedGraph> flow = PrepareGraph(*graph);
    if (!flow.ok()) RequireMessage(flow.status());
    return;
  }
  GraphOptions options;
  options.solve.strategy = "first_fit_by_size";
  options.order = "given";
  const absl::StatusOr<GraphPlan> plan = PlanGraph(*graph, options);
  if (!plan.ok()) return RequireMessage(plan.status());
  RequireValid(*graph, *plan);
  options.safety = "ancestor";
  const absl::StatusOr<GraphPlan> other = PlanGraph(*graph, options);
  Require(other.ok() && other->unsafe_pairs == plan->unsafe_pairs);
  const std::string written = FormatPlan(*graph, {plan->offsets, plan->order}, {});
  const absl::StatusOr<Placement> read = ParsePlan(written, "fuzz", *graph);
  Require(read.ok() && read->offsets == plan->offsets && read->order == plan->order);
  options.order = "reorder";
  options.solve.iterations = 1;
  const absl::StatusOr<GraphPlan> reordered = PlanGraph(*graph, options);
  // Given offsets may suit one order and not another.
  if (!reordered.ok()) return RequireMessage(reordered.status());
  RequireValid(*graph, *reordered);
}

void ReadPlan(const std::string& text) {
  static const Graph graph = *ParseGraph(
      R"({"nodes": [{"id": "n1"}, {"id": 2}, {"id": "n3"}],
          "tensors": [{"id": "a", "producer": "n1", "consumers": [2, "n3"], "bytes": 512},
                      {"id": 5, "producer": 2, "bytes": 64, "alignment": 64}]})",
      "graph");
  const absl::StatusOr<Placement> plan = ParsePlan(text, "fuzz", graph);
  if (!plan.ok()) return RequireMessage(plan.status());
  Require(plan->offsets.size() == graph.tensors.size());
  CheckGraph(graph, plan->offsets, plan->order);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 1) {
    ReadPlan(rest);
  } else {
    ReadGraph(rest);
  }
  return 0;
}
