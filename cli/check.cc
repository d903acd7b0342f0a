// `reprise check`: the independent checker on a plan.
#include "planner/check.h"

#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/csv_instance.h"
#include "replay/plan_builder.h"
#include "replay/plan_file.h"
#include "trace/csv.h"
#include "trace/format.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

struct Arguments {
  std::string instance;
  std::string plan;
  bool json = false;
};

// What there is to check, wherever it came from.
struct Subject {
  planner::Instance instance;
  std::vector<int64_t> offsets;
  std::vector<std::string> names;  // of the buffers, for messages; empty: their indices
};

// The offsets of `plan`, by the ids of `instance`.
absl::StatusOr<Subject> LoadCsv(const Arguments& arguments) {
  const absl::StatusOr<trace::CsvInstance> csv = trace::ReadCsv(arguments.instance);
  if (!csv.ok()) return csv.status();
  const absl::StatusOr<trace::CsvInstance> plan = trace::ReadCsv(arguments.plan);
  if (!plan.ok()) return plan.status();
  if (!plan->has_offsets) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.plan, ":1: expected a column `offset`, found none"));
  }
  std::unordered_map<std::string, const trace::CsvBuffer*> planned;
  for (const trace::CsvBuffer& buffer : plan->buffers) planned.emplace(buffer.id, &buffer);
  if (plan->buffers.size() != csv->buffers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.plan, ": expected ",
                                                   csv->buffers.size(), " buffers, found ",
                                                   plan->buffers.size()));
  }
  Subject subject;
  subject.instance = ToInstance(*csv, /*keep_offsets=*/true);
  for (const trace::CsvBuffer& buffer : csv->buffers) {
    const auto found = planned.find(buffer.id);
    if (found == planned.end()) {
      return absl::InvalidArgumentError(absl::StrCat(arguments.plan, ": expected buffer '",
                                                     buffer.id, "', found no row of that id"));
    }
    if (!found->second->offset) {
      return absl::InvalidArgumentError(absl::StrCat(arguments.plan, ":", found->second->line,
                                                     ": expected an offset, found none"));
    }
    subject.offsets.push_back(*found->second->offset);
    subject.names.push_back(buffer.id);
  }
  return subject;
}

// A recording and its plan file.
absl::StatusOr<Subject> LoadRecordingAndPlan(const Arguments& arguments) {
  const absl::StatusOr<trace::Recording> recording = trace::LoadRecording(arguments.instance);
  if (!recording.ok()) return recording.status();
  const absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(arguments.plan);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::vector<int64_t>> offsets = replay::PlanOffsets(*plan, *recording);
  if (!offsets.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.plan, ": ", offsets.status().message()));
  }
  Subject subject;
  subject.instance = replay::WholeInstance(*recording);
  subject.offsets = *std::move(offsets);
  return subject;
}

int RunCheck(const Arguments& arguments) {
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(arguments.instance);
  if (!format.ok()) return Fail(format.status());
  const absl::StatusOr<Subject> subject =
      *format == trace::Format::kCsv ? LoadCsv(arguments) : LoadRecordingAndPlan(arguments);
  if (!subject.ok()) return Fail(subject.status());
  const planner::Instance& instance = subject->instance;
  if (const absl::Status status = planner::Validate(instance); !status.ok()) return Fail(status);

  const planner::CheckResult result = planner::Check(instance, subject->offsets);
  const auto name = [&](uint32_t buffer) {
    return subject->names.empty() ? std::to_string(buffer) : subject->names[buffer];
  };
  if (arguments.json) {
    nlohmann::ordered_json json;
    json["valid"] = result.valid;
    json["makespan"] = result.makespan;
    json["max_load"] = result.max_load;
    json["violations"] = nlohmann::ordered_json::array();
    for (const planner::Violation& violation : result.violations) {
      json["violations"].push_back(
          {{"first", name(violation.first)},
           {"second", name(violation.second)},
           {"message", planner::Describe(violation, instance, subject->offsets)}});
    }
    PrintJson(json);
  } else if (result.valid) {
    std::printf("valid: %zu buffers, makespan %lld, max load %lld\n", instance.buffers.size(),
                static_cast<long long>(result.makespan), static_cast<long long>(result.max_load));
  } else {
    std::printf("invalid\n");
    for (const planner::Violation& violation : result.violations) {
      std::printf("  %s\n", planner::Describe(violation, instance, subject->offsets).c_str());
    }
  }
  return result.valid ? kDone : kNo;
}

}  // namespace

void AddCheck(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("check", "check a plan with the independent checker");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("instance", arguments->instance, "INSTANCE.csv, or a trace")->required();
  command->add_option("plan", arguments->plan, "its plan: the CSV with offsets, or a plan file")
      ->required();
  command->add_flag("--json", arguments->json, "print one JSON object");
  command->callback([&run, arguments] { run = [arguments] { return RunCheck(*arguments); }; });
}

}  // namespace reprise::cli
