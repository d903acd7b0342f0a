#include "cli/instance_file.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/prepared_graph.h"
#include "trace/format.h"
#include "trace/formats/mondrian.h"
#include "trace/mapped_file.h"

namespace reprise::cli {
namespace {

namespace graph = planner::graph;
using trace::MappedFile;

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

absl::StatusOr<InstanceFile> ReadGraph(const std::string& path, const MappedFile& file,
                                       bool ignore_unknown, const std::string& plan_path) {
  std::vector<std::string> ignored;
  std::vector<std::string>* const ignore = ignore_unknown ? &ignored : nullptr;
  const absl::StatusOr<graph::Graph> graph = graph::ParseGraph(Text(file), path, ignore);
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<graph::PreparedGraph> flow = graph::PrepareGraph(*graph);
  if (!flow.ok()) return InFile(path, flow.status());
  WarnOfIgnored(path, absl::StrJoin(ignored, ", "));
  if (graph->loop) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": loop: expected a graph without one (only `plan` and `check` take "
                     "loops)"));
  }
  InstanceFile result;
  result.is_graph = true;
  result.tensors = graph->tensors.size();
  result.streams = flow->streams;
  result.groups = flow->groups.size();
  result.instance.buffers = BuffersOf(*graph, *flow);
  std::vector<uint32_t> order = flow->sequence;
  if (!plan_path.empty()) {
    const absl::StatusOr<MappedFile> plan_file = MappedFile::Open(plan_path);
    if (!plan_file.ok()) return plan_file.status();
    const absl::StatusOr<graph::Placement> plan =
        graph::ParsePlan(Text(*plan_file), plan_path, *graph, ignore);
    if (!plan.ok()) return plan.status();
    const graph::GraphCheck check = graph::CheckGraph(*graph, plan->offsets, plan->order);
    if (!check.valid) return NotValid(plan_path, path, check.violations.front().message);
    order = plan->order;
    for (size_t t = 0; t < graph->tensors.size(); ++t) {
      result.instance.buffers[flow->storage_of[t]].offset = plan->offsets[t] - flow->position[t];
    }
  }
  for (const uint32_t node : order) result.operators.push_back(graph->nodes[node].id.text);
  const std::vector<graph::Span> spans = graph::Lifetimes(*flow, order);
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
