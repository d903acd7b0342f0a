// `reprise plan`: offsets for every buffer of an instance, plan files for recordings.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/csv_instance.h"
#include "cli/feedback_file.h"
#include "cli/graph_file.h"
#include "cli/large_arrays.h"
#include "cli/loops.h"
#include "cli/option_scope.h"
#include "cli/periodic_csv.h"
#include "cli/plan_summary.h"
#include "cli/set_aside.h"
#include "planner/graph/place.h"
#include "planner/solve.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_file.h"
#include "trace/formats/csv.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct PlanOptions {
  const CLI::App* command = nullptr;
  std::string input;
  std::string output;
  planner::Options solve;
  std::string lanes = "auto";
  std::string loop = "auto";
  GraphChoices graph;
  std::optional<int64_t> capacity;       // bytes
  std::optional<int64_t> start_address;  // bytes
  int64_t period = planner::kNotPeriodic;
  std::vector<std::string> learn;  // statistics of replays
  bool ignore_unknown = false;
  bool json = false;
};

// Every strategy for any input.
std::vector<planner::StrategyInfo> AllStrategies() {
  std::vector<planner::StrategyInfo> all = planner::Strategies();
  const auto& graphs = planner::graph::GraphStrategies();
  all.insert(all.end(), graphs.begin(), graphs.end());
  all.push_back({"reorder", "graphs: --order reorder, then auto"});
  all.push_back({"olla_ilp", "graphs: --order olla_ilp, then auto"});
  return all;
}

int ListStrategies(bool as_json) {
  ordered_json list = ordered_json::array();
  for (const planner::StrategyInfo& strategy : AllStrategies()) {
    if (as_json) {
      list.push_back({{"name", strategy.name}, {"summary", strategy.summary}});
      if (!strategy.alias_of.empty()) list.back()["alias_of"] = strategy.alias_of;
    } else {
      absl::PrintF("%-28s %s\n", std::string(strategy.name), std::string(strategy.summary));
    }
  }
  if (as_json) PrintJson({{"strategies", list}});
  return kDone;
}

// Ctrl-C ends the search, not the command: the best plan so far is written.
std::atomic<bool> cancelled = false;
void Cancel(int) { cancelled = true; }

void ShowProgress(planner::Options& options) {
  if (isatty(STDERR_FILENO) == 0) return;
  options.on_improvement = [](int64_t makespan, std::string_view finder) {
    absl::FPrintF(stderr, "\r\033[K%s: makespan %s", std::string(finder),
                  HumanBytes(static_cast<double>(makespan)));
    std::fflush(stderr);
  };
}

void EndProgress() {
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
}

// Whether a search ended because its curve had flattened: since the last time that this was asked.
std::atomic<bool> flattened = false;
void Flatten() { flattened = true; }

// What reading has left of the budget.
double BudgetAfter(absl::Time start, double budget) {
  return std::max(0.0, budget - absl::ToDoubleSeconds(absl::Now() - start));
}

absl::StatusOr<ordered_json> PlanCsv(const PlanOptions& options, const std::string& output) {
  const absl::Time start = absl::Now();
  absl::StatusOr<trace::CsvInstance> csv = trace::ReadCsv(options.input, options.ignore_unknown);
  if (!csv.ok()) return csv.status();
  WarnOfIgnored(options.input, csv->ignored);
  planner::Instance instance = ToInstance(*csv, /*keep_offsets=*/true);
  const std::vector<EmptyRow> empty = EmptyRows(*csv, options.start_address.value_or(0));
  if (options.period != planner::kNotPeriodic) {
    absl::Status status = CheckPeriod(*csv, instance, options.period, options.input);
    if (!status.ok()) return status;
  }
  std::vector<trace::CsvBuffer>().swap(csv->buffers);  // from here on only the rows are needed
  instance.capacity = options.capacity;
  instance.start_address = options.start_address.value_or(0);
  planner::Options solve = options.solve;
  solve.budget_seconds = BudgetAfter(start, solve.budget_seconds);
  solve.name = NamesIn(options.input);
  absl::StatusOr<planner::PeriodicPlan> solved = SolveWithPeriod(instance, options.period, solve);
  if (!solved.ok()) {
    // "Does not fit" is an answer.
    const bool no = solved.status().code() == absl::StatusCode::kResourceExhausted;
    return absl::Status(no ? absl::StatusCode::kAborted : solved.status().code(),
                        absl::StrCat(options.input, ": ", solved.status().message()));
  }
  const planner::Plan* const plan = &solved->plan;
  const RowSlots rows = SlotsOfRows(plan->offsets, solved->first_slot, empty);
  base::AtomicFile file(output);
  file.Write(trace::FormatCsv(*csv, rows.offsets, rows.first));
  if (absl::Status status = Finish(file); !status.ok()) return status;
  ordered_json json =
      PlanSummary(static_cast<int64_t>(rows.first.size()) - 1, plan->max_load, plan->lower_bound,
                  plan->makespan, plan->strategy, plan->proven_optimal, plan->seconds, plan->seed);
  json["flat"] = flattened.exchange(false);
  if (options.period != planner::kNotPeriodic) {
    json["period"] = options.period;
    json["slots"] = plan->offsets.size();
  }
  return json;
}

// `alone`: the input is this trace, not a folder that it lies in.
absl::StatusOr<ordered_json> PlanRecording(const PlanOptions& options, LessonsFiles& lessons,
                                           const std::string& input, const std::string& output,
                                           bool alone) {
  const absl::Time start = absl::Now();
  const absl::StatusOr<trace::Recording> recording = trace::LoadRecording(input);
  if (!recording.ok()) return recording.status();
  const auto mode = options.lanes == "none"     ? replay::LaneMode::kNone
                    : options.lanes == "thread" ? replay::LaneMode::kThread
                                                : replay::LaneMode::kAuto;
  const absl::StatusOr<replay::Learned> learned = lessons.For(*recording, alone);
  if (!learned.ok()) return learned.status();
  planner::Options solve = options.solve;
  solve.budget_seconds = BudgetAfter(start, solve.budget_seconds);
  const auto loops = options.loop == "none"    ? replay::LoopMode::kNone
                     : options.loop == "marks" ? replay::LoopMode::kMarks
                                               : replay::LoopMode::kAuto;
  absl::StatusOr<replay::BuiltPlan> built =
      replay::BuildPlan(*recording, solve, mode, *learned, loops);
  if (!built.ok()) {
    // A lane that is too large is a fault of the input, not of this machine.
    const bool too_large = built.status().code() == absl::StatusCode::kResourceExhausted;
    return absl::Status(too_large ? absl::StatusCode::kOutOfRange : built.status().code(),
                        absl::StrCat(input, ": ", built.status().message()));
  }
  if (absl::Status status = replay::WritePlanFile(output, built->bytes); !status.ok()) {
    return status;
  }
  NoteDamage(input, *recording);
  ordered_json json = PlanSummary(
      static_cast<int64_t>(recording->allocations.size()), built->max_load, built->lower_bound,
      built->makespan, built->strategy, built->proven_optimal, built->seconds, options.solve.seed);
  json["usable_size_bytes"] = built->usable_size_bytes;
  if (built->estimated_held_bytes > 0) {
    json["estimated_held_bytes"] = built->estimated_held_bytes;
  }
  json["arena_bytes"] = built->arena_bytes;
  json["lanes"] = built->lanes;
  json["threads"] = built->threads;
  json["unplanned_buffers"] = built->unplanned;
  json["lane_overhead_percent"] = built->lane_overhead_percent;
  json["reallocs"] = built->reallocs;
  json["reallocs_in_place"] = built->reallocs_in_place;
  json["learned"] = built->learned;
  json["loops"] = DescribeLoops(built->loops);
  json["flat"] = flattened.exchange(false);
  return json;
}

fs::path PlanName(const std::string& trace) { return fs::path(trace).stem().string() + ".plan"; }

// Plans of an earlier recording would be taken for images of this one: those that are not going to
// be replaced are set aside. Nobody else writes there until this process ends.
absl::Status PrepareFolder(const std::string& path, const std::vector<std::string>& traces) {
  const absl::StatusOr<OutputFolder> folder = OpenFolder(path);
  if (!folder.ok()) return folder.status();
  if (absl::Status locked = LockFolder(*folder); !locked.ok()) return locked;
  std::set<fs::path> replaced;
  for (const std::string& trace : traces) replaced.insert(PlanName(trace));
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder->path, error)) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".plan" && !replaced.contains(name)) others.push_back(name.string());
  }
  const absl::StatusOr<std::string> old = SetAside(*folder, others);
  if (!old.ok()) return old.status();
  if (!old->empty()) {
    absl::FPrintF(stderr, "reprise: moved to %s: %s of another recording\n", Printable(*old),
                  Counted(others.size(), "plan"));
  }
  return absl::OkStatus();
}

int PlanDirectory(PlanOptions options, LessonsFiles& lessons) {
  const absl::StatusOr<std::vector<std::string>> traces = trace::FindTraces(options.input);
  if (!traces.ok()) return Fail(absl::InvalidArgumentError(traces.status().message()));
  if (options.output.empty()) {
    options.output = fs::path(options.input).lexically_normal().string();
    while (options.output.size() > 1 && options.output.back() == '/') options.output.pop_back();
    options.output += ".plan";
  }
  if (absl::Status status = PrepareFolder(options.output, *traces); !status.ok()) {
    return Fail(status);
  }
  std::error_code error;
  // Shared by the size of the traces: what one leaves over, the next ones have.
  double budget = options.solve.budget_seconds;
  std::vector<double> weights;
  double weight_left = 0;
  for (const std::string& trace : *traces) {
    weights.push_back(static_cast<double>(fs::file_size(trace, error)) + 1);
    weight_left += weights.back();
  }
  std::vector<ordered_json> images;
  for (size_t i = 0; i < traces->size(); ++i) {
    options.solve.budget_seconds = budget * weights[i] / weight_left;
    weight_left -= weights[i];
    const fs::path output = fs::path(options.output) / PlanName((*traces)[i]);
    absl::StatusOr<ordered_json> image =
        PlanRecording(options, lessons, (*traces)[i], output.string(), /*alone=*/false);
    if (!image.ok()) return Fail(image.status());
    budget = std::max(0.0, budget - (*image)["seconds"].get<double>());
    ordered_json named = {{"trace", (*traces)[i]}, {"plan", output.string()}};
    named.update(*image);
    images.push_back(std::move(named));
  }
  EndProgress();
  if (absl::Status used = lessons.AllUsed(); !used.ok()) return Fail(used);
  const ordered_json sums = SumOfPlans(images, options.solve.seed);
  if (options.json) {
    PrintJson(sums);
  } else {
    for (const ordered_json& image : images)
      PrintPlan(image, image["plan"].get<std::string>(), stdout);
    if (images.size() > 1) PrintPlan(sums, absl::StrCat(images.size(), " images in all"), stdout);
  }
  return kDone;
}

// Where the plan of a file goes by itself.
absl::StatusOr<std::string> OutputBeside(const std::string& input, Kind kind) {
  std::error_code error;
  const bool standard = input == base::kStandardStream;
  if (standard || !fs::is_regular_file(input, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a plan of ", standard ? "standard input" : input,
                     " needs -o: expected -o FILE, or -o - for standard output"));
  }
  const char* extension = ".plan";
  if (kind == Kind::kInstance) extension = ".plan.csv";
  if (kind == Kind::kGraph) extension = ".plan.json";
  return fs::path(input).replace_extension(extension).string();
}

int RunPlan(PlanOptions options) {
  if (options.solve.strategy == "list") return ListStrategies(options.json);
  if (options.input.empty()) {
    return Fail(
        absl::FailedPreconditionError("plan: an input is required (see `reprise help plan`)"));
  }
  const std::vector<planner::StrategyInfo> strategies = AllStrategies();
  std::vector<std::string_view> names;
  for (const planner::StrategyInfo& info : strategies) names.push_back(info.name);
  if (std::find(names.begin(), names.end(), options.solve.strategy) == names.end()) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
        "--strategy: no strategy is called '", options.solve.strategy, "'",
        base::DidYouMean(options.solve.strategy, names), " (see `reprise plan --strategy list`)")));
  }
  const auto& general = planner::Strategies();
  const absl::Status graphs_only = absl::FailedPreconditionError(absl::StrCat(
      "--strategy: '", options.solve.strategy, "' is for graphs (see `reprise help plan`)"));
  const bool any_input = std::any_of(
      general.begin(), general.end(),
      [&](const planner::StrategyInfo& info) { return info.name == options.solve.strategy; });
  ReturnLargeArrays();
  std::signal(SIGINT, Cancel);
  options.solve.cancel = &cancelled;
  // Who names a budget wants it to be used.
  if (options.command->get_option("--budget")->count() == 0) options.solve.on_flat = Flatten;
  ShowProgress(options.solve);
  base::UnknownNames unknown(options.ignore_unknown);
  absl::StatusOr<LessonsFiles> lessons = LessonsFiles::Read(options.learn, unknown);
  if (!lessons.ok()) return Fail(lessons.status());
  WarnOfIgnored(absl::StrJoin(options.learn, ", "), unknown.Ignored());
  const absl::StatusOr<Kind> kind = KindOf(options.input);
  if (!kind.ok()) return Fail(kind.status());
  if (absl::Status status = CheckScope(*options.command, *kind); !status.ok()) return Fail(status);
  if (*kind != Kind::kGraph && !any_input) return Fail(graphs_only);
  if (trace::IsFolder(options.input)) return PlanDirectory(options, *lessons);
  if (options.output.empty()) {
    absl::StatusOr<std::string> output = OutputBeside(options.input, *kind);
    if (!output.ok()) return Fail(output.status());
    options.output = *std::move(output);
  }
  std::vector<std::string> inputs = options.learn;
  inputs.push_back(options.input);
  if (absl::Status status = KeepsInputs(options.output, inputs); !status.ok()) return Fail(status);
  if (*kind == Kind::kGraph) {
    if (options.solve.strategy == "reorder" || options.solve.strategy == "olla_ilp") {
      options.graph.order = std::exchange(options.solve.strategy, "auto");
    }
    options.graph.ignore_unknown = options.ignore_unknown;
    return PlanGraphFile(options.input, options.output, options.solve, options.graph, options.json);
  }
  const absl::StatusOr<ordered_json> plan =
      *kind == Kind::kInstance
          ? PlanCsv(options, options.output)
          : PlanRecording(options, *lessons, options.input, options.output, /*alone=*/true);
  EndProgress();
  if (!plan.ok()) return Fail(plan.status());
  FILE* const summaries = Summaries(options.output);
  if (options.json) {
    PrintJson(*plan, summaries);
  } else {
    PrintPlan(*plan, options.output, summaries);
  }
  return kDone;
}

}  // namespace

void AddPlan(CLI::App& app, Run& run) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Find an offset for every buffer");
  options->command = command;
  command->add_option(
      "input", options->input,
      "a trace, a folder of traces, a CSV instance, or a graph as JSON; -: standard input");
  command
      ->add_option("-o,--output", options->output,
                   "the plan: a file (-: standard output), or a folder when the input is one")
      ->type_name("FILE");
  command
      ->add_option("--strategy", options->solve.strategy, "how to search; `list` prints the names")
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--budget", options->solve.budget_seconds, "to spend at most")
      ->capture_default_str()
      ->type_name("SECONDS")
      ->check(CheckSeconds);
  command
      ->add_option(
          "--lanes", options->lanes,
          "auto: a lane for each thread where that costs little memory in replay; thread: for "
          "each thread; none: the recording as one instance")
      ->capture_default_str()
      ->check(OneOf({"auto", "thread", "none"}));
  command
      ->add_option(
          "--loop", options->loop,
          "auto: what a thread does again and again is planned once, and replayed as often "
          "as the program likes; marks: the same between the program's own marks "
          "(reprise/marks.h); "
          "none: the plan ends with the recording")
      ->capture_default_str()
      ->check(OneOf({"auto", "marks", "none"}));
  command
      ->add_option("--capacity", options->capacity,
                   "of a CSV instance: bytes that the plan may need; exit 1 when it needs more")
      ->transform(SizeInBytes())
      ->type_name("BYTES");
  command
      ->add_option("--start-address", options->start_address,
                   "of a CSV instance: the address that offset 0 will have, for alignments")
      ->transform(SizeInBytes())
      ->type_name("N");
  AddPeriod(command, options->period);
  command
      ->add_option("--worst-case-fragmentation", options->solve.worst_case_fragmentation,
                   "bytes above the lower bound that are good enough: stop there")
      ->capture_default_str()
      ->transform(SizeInBytes())
      ->type_name("BYTES");
  command
      ->add_option("--iterations", options->solve.iterations,
                   "of iterative strategies; 0: as many as the budget allows")
      ->capture_default_str()
      ->check(CheckWholeNumber);
  command
      ->add_option(
          "--order", options->graph.order,
          "of execution of a graph: given, reorder, olla_ilp; auto: given, where the graph "
          "states one, else reorder")
      ->capture_default_str()
      ->check(OneOf({"auto", "given", "reorder", "olla_ilp"}));
  command
      ->add_option("--safety", options->graph.safety,
                   "how the unsafe pairs of a graph are found; both find the same")
      ->capture_default_str()
      ->check(OneOf({"stream_graph", "ancestor"}));
  command
      ->add_option("--learn", options->learn,
                   "what `replay --stats` wrote of a plan of this recording: plan around what went "
                   "wrong; may be given several times")
      ->type_name("STATS")
      ->expected(1)
      ->take_all();
  command->add_option("--seed", options->solve.seed, "of the random numbers")
      ->capture_default_str()
      ->check(CheckWholeNumber);
  command->add_option("--threads", options->solve.threads, "0: as many as the machine has")
      ->capture_default_str()
      ->check(WholeNumber(0, 1024));
  command->add_flag("--json", options->json, "print one JSON object");
  AddIgnoreUnknown(command, options->ignore_unknown);
  command->callback([options, &run] { run = [options] { return RunPlan(*options); }; });
}

}  // namespace reprise::cli
