// `reprise check`: the independent checker on a plan.
#include "planner/core/check.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/csv_instance.h"
#include "cli/graph_file.h"
#include "cli/instance_file.h"
#include "cli/option_scope.h"
#include "cli/periodic_csv.h"
#include "planner/core/check_periodic.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_file.h"
#include "trace/format.h"
#include "trace/formats/csv.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

struct Arguments {
  const CLI::App* command = nullptr;
  std::string instance;
  std::string plan;
  int64_t start_address = 0;  // of CSV instances
  int64_t period = planner::kNotPeriodic;
  bool ignore_unknown = false;
  bool json = false;
};

// What there is to check, wherever it came from.
struct CheckInput {
  planner::Instance instance;
  std::vector<int64_t> offsets;    // with a period: of all slots
  std::vector<std::string> names;  // of the buffers, for messages; empty: their indices
  int64_t period = planner::kNotPeriodic;
  size_t unplanned = 0;  // buffers of a recording for which the plan has no offset
};

// The offsets of `plan`, by the ids of `instance`.
absl::StatusOr<CheckInput> LoadCsv(const std::string& instance, const std::string& plan_path,
                                   const Arguments& arguments) {
  const absl::StatusOr<trace::CsvInstance> csv = trace::ReadCsv(instance, arguments.ignore_unknown);
  if (!csv.ok()) return csv.status();
  WarnOfIgnored(instance, csv->ignored);
  CheckInput subject;
  subject.period = arguments.period;
  subject.instance = ToInstance(*csv, /*keep_offsets=*/true);
  subject.instance.start_address = arguments.start_address;
  const bool periodic = subject.period != planner::kNotPeriodic;
  if (periodic) {
    absl::Status status = CheckPeriod(*csv, subject.instance, subject.period, instance);
    if (!status.ok()) return status;
  }
  absl::StatusOr<std::vector<int64_t>> offsets =
      periodic ? PlannedSlots(*csv, subject.period, plan_path, arguments.ignore_unknown)
               : PlannedOffsets(*csv, plan_path, arguments.ignore_unknown);
  if (!offsets.ok()) return offsets.status();
  for (size_t row = 0; row < csv->buffers.size(); ++row) {
    if (csv->buffers[row].size == 0) continue;  // as ToInstance does
    if (!periodic) subject.offsets.push_back((*offsets)[row]);
    subject.names.push_back(csv->buffers[row].id);
  }
  if (periodic) subject.offsets = *std::move(offsets);
  return subject;
}

// A recording and its plan file.
absl::StatusOr<CheckInput> LoadRecordingAndPlan(const std::string& trace,
                                                const std::string& plan_path) {
  const absl::StatusOr<trace::Recording> recording = trace::LoadRecording(trace);
  if (!recording.ok()) return recording.status();
  const absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(plan_path);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::vector<int64_t>> offsets = replay::PlanOffsets(*plan, *recording);
  if (!offsets.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(plan_path, ": ", offsets.status().message()));
  }
  NoteDamage(trace, *recording);
  CheckInput subject;
  subject.instance = replay::WholeInstance(*recording);
  subject.offsets = *std::move(offsets);
  subject.unplanned = subject.instance.buffers.size();
  replay::KeepPlanned(subject.instance, subject.offsets);
  subject.unplanned -= subject.instance.buffers.size();
  return subject;
}

// One instance or trace and its plan, checked.
struct CheckedPlan {
  planner::CheckResult result;
  size_t buffers = 0;
  size_t unplanned = 0;
  bool recording = false;
  nlohmann::ordered_json violations = nlohmann::ordered_json::array();
  std::optional<int64_t> start_address;  // with which the plan would be valid

  nlohmann::ordered_json Json() const {
    nlohmann::ordered_json json = {{"valid", result.valid},
                                   {"makespan", result.makespan},
                                   {"max_load", result.max_load},
                                   {"violations", violations}};
    if (recording) json["unplanned_buffers"] = unplanned;
    return json;
  }
};

// The start address with which a plan without one would be valid: it may have been made with it.
std::optional<int64_t> FindStartAddress(const CheckInput& input) {
  planner::Instance instance = input.instance;
  int64_t alignment = instance.alignment;
  int64_t offset = 0;  // of the first buffer that has this alignment
  const bool periodic = input.period != planner::kNotPeriodic;
  const std::vector<uint32_t> first_slot =
      periodic ? planner::FirstSlots(instance, input.period) : std::vector<uint32_t>();
  for (size_t i = 0; i < instance.alignments.size(); ++i) {
    if (instance.alignments[i] <= alignment) continue;
    alignment = instance.alignments[i];
    offset = input.offsets[periodic ? first_slot[i] : i];
  }
  if (instance.start_address != 0 || offset < 0) return std::nullopt;
  instance.start_address = (alignment - offset % alignment) % alignment;
  const bool valid = instance.start_address != 0 &&
                     (periodic ? planner::CheckPeriodic(instance, input.period, input.offsets).valid
                               : planner::Check(instance, input.offsets).valid);
  return valid ? std::optional(instance.start_address) : std::nullopt;
}

absl::StatusOr<CheckedPlan> CheckOne(const std::string& instance_path, const std::string& plan,
                                     const Arguments& arguments) {
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(instance_path);
  if (!format.ok()) return format.status();
  absl::StatusOr<CheckInput> subject = *format == trace::Format::kCsv
                                           ? LoadCsv(instance_path, plan, arguments)
                                           : LoadRecordingAndPlan(instance_path, plan);
  if (!subject.ok()) return subject.status();
  planner::Instance& instance = subject->instance;
  instance.start_address = arguments.start_address;
  const absl::Status valid = planner::Validate(instance, NamesIn(instance_path));
  if (!valid.ok()) {
    return absl::Status(valid.code(), absl::StrCat(instance_path, ": ", valid.message()));
  }
  CheckedPlan verdict;
  verdict.buffers = instance.buffers.size();
  verdict.unplanned = subject->unplanned;
  verdict.recording = *format != trace::Format::kCsv;
  const int64_t period = subject->period;
  const bool periodic = period != planner::kNotPeriodic;
  verdict.result = periodic ? planner::CheckPeriodic(instance, period, subject->offsets)
                            : planner::Check(instance, subject->offsets);
  if (!verdict.result.valid && *format == trace::Format::kCsv) {
    verdict.start_address = FindStartAddress(*subject);
  }
  const std::vector<uint32_t> first_slot =
      periodic ? planner::FirstSlots(instance, period) : std::vector<uint32_t>();
  const auto name = [&](uint32_t buffer) {
    return subject->names.empty() ? std::to_string(buffer) : subject->names[buffer];
  };
  // Violations of periodic plans name slots.
  const auto buffer_of = [&](uint32_t index) {
    if (!periodic) return index;
    const auto after = std::upper_bound(first_slot.begin(), first_slot.end(), index);
    return static_cast<uint32_t>(after - first_slot.begin() - 1);
  };
  planner::BufferName in_messages;
  if (!subject->names.empty()) {
    in_messages = [&](uint32_t buffer) { return absl::StrCat("buffer '", name(buffer), "'"); };
  }
  for (const planner::Violation& violation : verdict.result.violations) {
    verdict.violations.push_back(
        {{"first", name(buffer_of(violation.first))},
         {"second", name(buffer_of(violation.second))},
         {"message", periodic
                         ? planner::DescribePeriodic(violation, instance, period, subject->offsets,
                                                     in_messages)
                         : planner::Describe(violation, instance, subject->offsets, in_messages)}});
  }
  return verdict;
}

void Print(const std::string& title, const CheckedPlan& verdict) {
  absl::PrintF("%s%s: %s, makespan %d, max load %d", Printable(title),
               verdict.result.valid ? "valid" : "invalid", Counted(verdict.buffers, "buffer"),
               verdict.result.makespan, verdict.result.max_load);
  if (verdict.unplanned > 0) {
    absl::PrintF("; %d more without an offset, for the shared heap", verdict.unplanned);
  }
  absl::PrintF("\n");
  for (const auto& violation : verdict.violations) {
    absl::PrintF("  %s\n", Printable(violation["message"].get<std::string>()));
  }
  if (verdict.violations.size() == planner::kMostViolations) {
    absl::PrintF("  at most %d are listed\n", planner::kMostViolations);
  }
  if (verdict.start_address.has_value()) {
    absl::PrintF("  with --start-address %d it would be valid: was it planned with that?\n",
                 *verdict.start_address);
  }
}

// A folder of traces against a folder of plans: each trace has a plan of its name.
int CheckFolder(const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::string>> traces = trace::FindTraces(arguments.instance);
  if (!traces.ok()) return Fail(absl::InvalidArgumentError(traces.status().message()));
  CheckedPlan sums;
  sums.result.valid = true;
  nlohmann::ordered_json images = nlohmann::ordered_json::array();
  for (const std::string& trace : *traces) {
    const absl::StatusOr<CheckedPlan> verdict =
        CheckOne(trace, replay::PlanFor(arguments.plan, trace), arguments);
    if (!verdict.ok()) return Fail(verdict.status());
    sums.result.valid = sums.result.valid && verdict->result.valid;
    sums.recording = true;
    sums.unplanned += verdict->unplanned;
    sums.result.makespan += verdict->result.makespan;
    sums.result.max_load += verdict->result.max_load;
    nlohmann::ordered_json image = {{"trace", trace}};
    image.update(verdict->Json());
    images.push_back(std::move(image));
    if (!arguments.json) Print(trace + ": ", *verdict);
  }
  if (arguments.json) {
    nlohmann::ordered_json json = sums.Json();
    json["images"] = std::move(images);
    PrintJson(json);
  }
  return sums.result.valid ? kDone : kNo;
}

int RunCheck(const Arguments& arguments) {
  const absl::StatusOr<Kind> kind = KindOf(arguments.instance);
  if (!kind.ok()) return Fail(kind.status());
  if (absl::Status status = CheckScope(*arguments.command, *kind); !status.ok()) {
    return Fail(status);
  }
  if (trace::IsFolder(arguments.instance)) return CheckFolder(arguments);
  if (*kind == Kind::kGraph) {
    return CheckGraphFile(arguments.instance, arguments.plan, arguments.ignore_unknown,
                          arguments.json);
  }
  const absl::StatusOr<CheckedPlan> verdict =
      CheckOne(arguments.instance, replay::PlanFor(arguments.plan, arguments.instance), arguments);
  if (!verdict.ok()) return Fail(verdict.status());
  if (arguments.json) {
    PrintJson(verdict->Json());
  } else {
    Print("", *verdict);
  }
  return verdict->result.valid ? kDone : kNo;
}

}  // namespace

void AddCheck(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("check", "Verify a plan with code that the planner does not share");
  const auto arguments = std::make_shared<Arguments>();
  arguments->command = command;
  command
      ->add_option("instance", arguments->instance,
                   "INSTANCE.csv, GRAPH.json, a trace, or a folder of traces; -: standard input")
      ->required();
  command
      ->add_option(
          "plan", arguments->plan,
          "its plan: the CSV with offsets, a graph's plan, a plan file, or a folder of them")
      ->required();
  command
      ->add_option("--start-address", arguments->start_address,
                   "of a CSV instance: the address that offset 0 has, as for `plan`")
      ->transform(SizeInBytes())
      ->type_name("N");
  AddPeriod(command, arguments->period);
  command->add_flag("--json", arguments->json, "print one JSON object");
  AddIgnoreUnknown(command, arguments->ignore_unknown);
  command->callback([&run, arguments] { run = [arguments] { return RunCheck(*arguments); }; });
}

}  // namespace reprise::cli
