#include "cli/graph_file.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/check_loop.h"
#include "planner/graph/graph_json.h"
#include "planner/graph/loop.h"
#include "planner/graph/plan_graph.h"
#include "planner/graph/prepared_graph.h"
#include "trace/mapped_file.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;
using namespace planner::graph;  // NOLINT: all of it is about graphs

absl::StatusOr<trace::MappedFile> Open(const std::string& path) {
  return trace::MappedFile::Open(path);
}

std::string_view TextOf(const trace::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Unknown fields that are not refused.
using Ignored = std::vector<std::string>;

absl::StatusOr<Graph> ReadGraph(const std::string& path, Ignored* ignored) {
  const absl::StatusOr<trace::MappedFile> file = Open(path);
  if (!file.ok()) return file.status();
  return ParseGraph(TextOf(*file), path, ignored);
}

// A loop has lifetimes in place of unsafe pairs, and keeps its order.
ordered_json Summary(const GraphPlan& plan) {
  ordered_json summary = {
      {"buffers", plan.offsets.size()},
      {"max_load", plan.max_load},
      {"lower_bound", plan.lower_bound},
      {"makespan", plan.makespan},
      {"fragmentation", plan.makespan - plan.max_load},
      {"fragmentation_percent", Percent(plan.makespan - plan.max_load, plan.max_load)},
      {"strategy", plan.strategy},
      {"proven_optimal", plan.proven_optimal},
      {"seconds", plan.seconds},
      {"seed", plan.seed},
      {"streams", plan.streams},
      {"unsafe_pairs", plan.unsafe_pairs},
      {"order_changed", plan.order_changed},
      {"order_strategy", plan.order_finder},
      {"given_max_load", plan.given_max_load},
      {"order_lower_bound", plan.order_bound},
      {"order_seconds", plan.order_seconds},
      {"safety_seconds", plan.safety_seconds},
      {"place_seconds", plan.place_seconds}};
  if (plan.slots.empty()) return summary;
  size_t slots = 0;
  for (const std::vector<int64_t>& one : plan.slots) slots += one.size();
  for (const char* name :
       {"unsafe_pairs", "order_lower_bound", "order_seconds", "safety_seconds", "place_seconds"}) {
    summary.erase(name);
  }
  summary["slots"] = slots;
  return summary;
}

void Print(const GraphPlan& plan, const std::string& output, FILE* stream) {
  const std::string pairs = Counted(plan.unsafe_pairs, "unsafe pair");
  absl::FPrintF(stream, "%s\n  tensors   %d in %s, %s\n", Printable(output), plan.offsets.size(),
                Counted(plan.streams, "stream"), plan.slots.empty() ? pairs : "repeated");
  absl::FPrintF(stream, "  max load  %s", HumanBytes(static_cast<double>(plan.max_load)));
  if (plan.order_changed) {
    absl::FPrintF(stream, ", %.1f %% less than in the given order",
                  Percent(plan.given_max_load - plan.max_load, plan.given_max_load));
  }
  absl::FPrintF(stream, "\n  makespan  %s, %.3f %% above the max load%s\n",
                HumanBytes(static_cast<double>(plan.makespan)),
                Percent(plan.makespan - plan.max_load, plan.max_load),
                plan.proven_optimal ? " (optimal)" : "");
  absl::FPrintF(stream, "  found by  %s in %.3f s\n", plan.strategy, plan.seconds);
}

}  // namespace

int PlanGraphFile(const std::string& input, const std::string& output,
                  const planner::Options& options, const GraphChoices& choices, bool json) {
  Ignored ignored;
  const absl::StatusOr<Graph> graph = ReadGraph(input, choices.ignore_unknown ? &ignored : nullptr);
  if (!graph.ok()) return Fail(graph.status());
  WarnOfIgnored(input, absl::StrJoin(ignored, ", "));
  const absl::StatusOr<GraphPlan> plan =
      PlanGraph(*graph, {options, choices.order, choices.safety});
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
  if (!plan.ok()) return Fail(InFile(input, plan.status()));
  Figures figures = {{"makespan", absl::StrCat(plan->makespan)},
                     {"max_load", absl::StrCat(plan->max_load)},
                     {"lower_bound", absl::StrCat(plan->lower_bound)}};
  if (!graph->loop) figures.push_back({"unsafe_pairs", absl::StrCat(plan->unsafe_pairs)});
  figures.push_back({"order_changed", plan->order_changed ? "true" : "false"});
  base::AtomicFile file(output);
  file.Write(FormatPlan(*graph, {plan->offsets, plan->order, plan->slots}, figures));
  if (absl::Status status = Finish(file); !status.ok()) return Fail(status);
  FILE* const summaries = Summaries(output);
  if (json) {
    PrintJson(Summary(*plan), summaries);
  } else {
    Print(*plan, output, summaries);
  }
  return kDone;
}

int CheckGraphFile(const std::string& input, const std::string& plan_path, bool ignore_unknown,
                   bool json) {
  Ignored ignored;
  Ignored* const ignore = ignore_unknown ? &ignored : nullptr;
  const absl::StatusOr<Graph> graph = ReadGraph(input, ignore);
  if (!graph.ok()) return Fail(graph.status());
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(*graph);
  if (!flow.ok()) return Fail(InFile(input, flow.status()));
  const absl::StatusOr<trace::MappedFile> file = Open(plan_path);
  if (!file.ok()) return Fail(file.status());
  const absl::StatusOr<Placement> plan = ParsePlan(TextOf(*file), plan_path, *graph, ignore);
  if (!plan.ok()) return Fail(plan.status());
  WarnOfIgnored(input, absl::StrJoin(ignored, ", "));
  if (graph->loop) {
    if (absl::Status status = ValidateLoop(*graph, *flow); !status.ok()) {
      return Fail(InFile(input, status));
    }
  }
  const GraphCheck check = graph->loop ? CheckLoop(*graph, plan->slots, plan->order)
                                       : CheckGraph(*graph, plan->offsets, plan->order);
  if (json) {
    ordered_json violations = ordered_json::array();
    for (const GraphCheck::Violation& violation : check.violations) {
      violations.push_back({{"first", violation.first.text},
                            {"second", violation.second.text},
                            {"message", violation.message}});
    }
    PrintJson({{"valid", check.valid},
               {"makespan", check.makespan},
               {"max_load", check.max_load},
               {"violations", violations}});
  } else {
    absl::PrintF("%s: %s, makespan %d, max load %d\n", check.valid ? "valid" : "invalid",
                 Counted(graph->tensors.size(), "tensor"), check.makespan, check.max_load);
    for (const GraphCheck::Violation& violation : check.violations) {
      absl::PrintF("  %s\n", Printable(violation.message));
    }
  }
  return check.valid ? kDone : kNo;
}

}  // namespace reprise::cli
