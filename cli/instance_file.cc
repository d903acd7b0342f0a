#include "cli/instance_file.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/check_loop.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/loop.h"
#include "planner/graph/prepared_graph.h"
#include "planner/graph/unroll.h"
#include "trace/format.h"
#include "trace/formats/mondrian.h"
#include "trace/mapped_file.h"

namespace reprise::cli {
namespace {

namespace graph = planner::graph;
using trace::MappedFile;

constexpr size_t kShownIterations = 2;  // of a loop

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Mondrian files are told from graphs by their field `segments`. Broken JSON is no Mondrian file.
bool IsMondrian(const MappedFile& file) {
  bool found = false;
  const auto look = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& key) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1) {
      found |= key == "segments" || key == "schema_version";
    }
    return depth == 0;
  };
  // Damaged or not: its reader says what is wrong.
  const nlohmann::json ignored = nlohmann::json::parse(Text(file), look, false);
  return found;
}

// A buffer for each storage, called after its tensors: the owner first, of the others a few.
std::vector<trace::CsvBuffer> BuffersOf(const graph::Graph& graph,
                                        const graph::PreparedGraph& flow) {
  constexpr size_t kMostNamed = 4;
  std::vector<std::vector<std::string>> names(flow.storages.size());
  for (const bool owners : {true, false}) {
    for (size_t t = 0; t < graph.tensors.size(); ++t) {
      const bool owner = graph.tensors[t].alias_of == graph::kNone;
      std::vector<std::string>& all = names[flow.storage_of[t]];
      if (owner == owners && all.size() < kMostNamed) all.push_back(graph.tensors[t].id.text);
    }
  }
  std::vector<trace::CsvBuffer> buffers(flow.storages.size());
  for (size_t s = 0; s < buffers.size(); ++s) {
    const graph::Storage& storage = flow.storages[s];
    buffers[s].id = absl::StrJoin(names[s], " = ");
    buffers[s].size = storage.bytes;
    buffers[s].alignment = storage.alignment;
    if (storage.offset != graph::kFree) buffers[s].offset = storage.offset;
  }
  return buffers;
}

// What is shown of a graph file: the graph itself, or some iterations of a loop.
struct ShownGraph {
  graph::Graph graph;
  graph::PreparedGraph flow;
  std::vector<uint32_t> order{};
  std::vector<int64_t> offsets{};  // one per tensor; empty without a plan
  size_t tensors = 0;              // InstanceFile
  size_t iterations = 0;
};

// The plan at `plan_path`, checked. Aborted when it is not valid.
absl::StatusOr<graph::Placement> ReadGraphPlan(const std::string& path, const graph::Graph& graph,
                                               const std::string& plan_path,
                                               std::vector<std::string>* ignore) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(plan_path);
  if (!file.ok()) return file.status();
  absl::StatusOr<graph::Placement> plan = graph::ParsePlan(Text(*file), plan_path, graph, ignore);
  if (!plan.ok()) return plan.status();
  const graph::GraphCheck check = graph.loop ? graph::CheckLoop(graph, plan->slots, plan->order)
                                             : graph::CheckGraph(graph, plan->offsets, plan->order);
  if (!check.valid) return NotValid(plan_path, path, check.violations.front().message);
  return plan;
}

// Turns a loop into two of its iterations: in the second one it is as it is from then on.
absl::Status UnrollShown(const std::string& path, const std::vector<std::vector<int64_t>>& slots,
                         ShownGraph& shown) {
  graph::Unrolled unrolled = graph::Unroll(shown.graph, slots, shown.order, kShownIterations);
  shown.graph = std::move(unrolled.graph);
  shown.order = std::move(unrolled.order);
  shown.offsets = std::move(unrolled.offsets);
  shown.graph.order = shown.order;
  shown.iterations = kShownIterations;
  absl::StatusOr<graph::PreparedGraph> flow = graph::PrepareGraph(shown.graph);
  if (!flow.ok()) return InFile(path, flow.status());
  shown.flow = *std::move(flow);
  return absl::OkStatus();
}

absl::StatusOr<ShownGraph> ReadShownGraph(const std::string& path, const MappedFile& file,
                                          bool ignore_unknown, const std::string& plan_path) {
  std::vector<std::string> ignored;
  std::vector<std::string>* const ignore = ignore_unknown ? &ignored : nullptr;
  absl::StatusOr<graph::Graph> graph = graph::ParseGraph(Text(file), path, ignore);
  if (!graph.ok()) return graph.status();
  absl::StatusOr<graph::PreparedGraph> flow = graph::PrepareGraph(*graph);
  if (!flow.ok()) return InFile(path, flow.status());
  WarnOfIgnored(path, absl::StrJoin(ignored, ", "));
  if (graph->loop) {
    absl::Status status = graph::ValidateLoop(*graph, *flow);
    if (!status.ok()) return InFile(path, status);
  }
  ShownGraph shown = {.graph = *std::move(graph), .flow = *std::move(flow)};
  shown.tensors = shown.graph.tensors.size();
  graph::Placement plan;
  if (!plan_path.empty()) {
    absl::StatusOr<graph::Placement> read = ReadGraphPlan(path, shown.graph, plan_path, ignore);
    if (!read.ok()) return read.status();
    plan = *std::move(read);
  }
  shown.order = plan_path.empty() ? shown.flow.sequence : plan.order;
  shown.offsets = std::move(plan.offsets);
  if (!shown.graph.loop) return shown;
  absl::Status status = UnrollShown(path, plan.slots, shown);
  if (!status.ok()) return status;
  return shown;
}

absl::StatusOr<InstanceFile> ReadGraph(const std::string& path, const MappedFile& file,
                                       bool ignore_unknown, const std::string& plan_path) {
  const absl::StatusOr<ShownGraph> shown = ReadShownGraph(path, file, ignore_unknown, plan_path);
  if (!shown.ok()) return shown.status();
  const graph::Graph& graph = shown->graph;
  const graph::PreparedGraph& flow = shown->flow;
  InstanceFile result;
  result.is_graph = true;
  result.tensors = shown->tensors;
  result.iterations = shown->iterations;
  result.streams = flow.streams;
  result.groups = flow.groups.size();
  result.instance.buffers = BuffersOf(graph, flow);
  for (size_t t = 0; t < shown->offsets.size(); ++t) {
    result.instance.buffers[flow.storage_of[t]].offset = shown->offsets[t] - flow.position[t];
  }
  for (const uint32_t node : shown->order) result.operators.push_back(graph.nodes[node].id.text);
  const std::vector<graph::Span> spans = graph::Lifetimes(flow, shown->order);
  for (size_t s = 0; s < spans.size(); ++s) {
    trace::CsvBuffer& buffer = result.instance.buffers[s];
    buffer.lower = spans[s].lower + 1;
    buffer.upper = spans[s].upper + 1;
    result.instance.has_alignments |= buffer.alignment > 1;
    result.instance.has_offsets |= buffer.offset.has_value();
  }
  return result;
}

}  // namespace

absl::StatusOr<bool> IsGraphFile(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return trace::DetectFormat(*file, path) == trace::Format::kJson && !IsMondrian(*file);
}

absl::StatusOr<InstanceFile> ReadInstance(const std::string& path, bool ignore_unknown,
                                          const std::string& graph_plan) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const bool json = trace::DetectFormat(*file, path) == trace::Format::kJson;
  if (json && !IsMondrian(*file)) return ReadGraph(path, *file, ignore_unknown, graph_plan);
  absl::StatusOr<trace::CsvInstance> instance =
      json ? trace::ReadMondrian(path, {.ignore_unknown = ignore_unknown})
           : trace::ReadCsv(path, ignore_unknown);
  if (!instance.ok()) return instance.status();
  WarnOfIgnored(path, instance->ignored);
  InstanceFile result;
  result.instance = *std::move(instance);
  return result;
}

absl::StatusOr<std::vector<trace::CsvBuffer>> PlannedRows(const trace::CsvInstance& instance,
                                                          const std::string& plan_path,
                                                          bool ignore_unknown, bool slots) {
  absl::StatusOr<trace::CsvInstance> plan = trace::ReadCsv(plan_path, ignore_unknown, slots);
  if (!plan.ok()) return plan.status();
  WarnOfIgnored(plan_path, plan->ignored);
  if (!plan->has_offsets) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan_path, ":1: expected a column `offset`, found none"));
  }
  if (plan->buffers.size() != instance.buffers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(plan_path, ": expected ",
                                                   Counted(instance.buffers.size(), "buffer"),
                                                   ", found ", plan->buffers.size()));
  }
  absl::flat_hash_map<std::string, trace::CsvBuffer*> planned;
  for (trace::CsvBuffer& buffer : plan->buffers) planned.emplace(buffer.id, &buffer);
  std::vector<trace::CsvBuffer> rows;
  rows.reserve(instance.buffers.size());
  for (const trace::CsvBuffer& buffer : instance.buffers) {
    const auto found = planned.find(buffer.id);
    if (found == planned.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(plan_path, ": expected buffer '", buffer.id, "', found no row of that id"));
    }
    if (!found->second->offset) {
      return absl::InvalidArgumentError(
          absl::StrCat(plan_path, ":", found->second->line, ": expected an offset, found none"));
    }
    rows.push_back(std::move(*found->second));
  }
  return rows;
}

absl::StatusOr<std::vector<int64_t>> PlannedOffsets(const trace::CsvInstance& instance,
                                                    const std::string& plan_path,
                                                    bool ignore_unknown) {
  const absl::StatusOr<std::vector<trace::CsvBuffer>> rows =
      PlannedRows(instance, plan_path, ignore_unknown, /*slots=*/false);
  if (!rows.ok()) return rows.status();
  std::vector<int64_t> offsets;
  offsets.reserve(rows->size());
  for (const trace::CsvBuffer& row : *rows) offsets.push_back(*row.offset);
  return offsets;
}

absl::Status NotValid(const std::string& plan, const std::string& instance,
                      const std::string& why) {
  return absl::AbortedError(absl::StrCat(plan, ": not a valid plan of ", instance, ": ", why));
}

}  // namespace reprise::cli
