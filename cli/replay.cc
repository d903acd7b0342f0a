// `reprise replay`: runs a program from the arena that a plan describes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/apart.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/plan_offer.h"
#include "cli/program.h"
#include "cli/recordings.h"
#include "cli/replay_counts.h"
#include "cli/replay_findings.h"
#include "cli/replay_runs.h"
#include "cli/replay_summary.h"
#include "replay/arena/lane_notes.h"
#include "replay/plan/counters.h"
#include "replay/plan/plan_file.h"
#include "replay/plan/plan_verifier.h"
#include "replay/plan/replay_totals.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;
using interpose::ImageEntry;
using nlohmann::ordered_json;
using replay::LaneCounters;

struct ReplayOptions {
  std::string plan;
  std::string stats;
  std::string record;
  std::vector<std::string> program;
  bool keep_aslr = false;
  bool release = false;
  bool strict = false;
  std::string huge_pages = "auto";
};

// An image in the statistics.
ordered_json ImageJson(const ImageEntry& image, const ReplayTotals& totals,
                       const std::vector<LaneCounters>& counters,
                       const std::vector<replay::Served>& served, const replay::PlanHeader& plan,
                       const Findings& findings) {
  ordered_json json = {{"executable", image.executable}};
  json.update(totals.Json());
  json["place"] = absl::StrFormat("%016x", plan.place);
  json["recording"] = {{"events", plan.events}, {"hash", absl::StrFormat("%016x", plan.recording)}};
  json["lanes"] = LaneDetails(counters, served);
  AddFindings(findings, json);
  return json;
}

// The process images that may have a plan: forked children never have one.
size_t CountReplayable(const LaunchResult& result) {
  return static_cast<size_t>(
      std::count_if(result.images.begin(), result.images.end(),
                    [](const ImageEntry& image) { return image.forked == 0; }));
}

// Those of them that ran without one.
size_t CountWithoutPlan(const LaunchResult& result) {
  return static_cast<size_t>(
      std::count_if(result.images.begin(), result.images.end(), [](const ImageEntry& image) {
        return image.forked == 0 && (image.state & interpose::kImageReplayed) == 0;
      }));
}

// What those who do not read the statistics must know all the same.
void Warn(const LaunchResult& result, const ReplayTotals& sums, bool strict) {
  const size_t without = CountWithoutPlan(result);
  // Of one that is alone its message says why, of others the answer to --strict.
  if (without > 0 && result.images.size() > 1 && !strict) {
    absl::FPrintF(stderr, "reprise: %d of %s had no plan and ran as usual\n", without,
                  Counted(CountReplayable(result), "process image"));
  }
  if (sums.invalid_frees > 0) {
    absl::FPrintF(stderr,
                  "reprise: ignored %s of what is no live block; glibc would have aborted\n",
                  Counted(sums.invalid_frees, "free"));
  }
}

// Says whether all addresses were as planned, unless that was `said`. Returns kDone, or kNo when
// they were not.
int JudgeStrictly(const LaunchResult& result, const ReplayTotals& sums, bool said) {
  const size_t without = CountWithoutPlan(result);
  if (without == 0 && sums.elsewhere() == 0) {
    const bool fewer = sums.planned < sums.recorded - sums.recorded / 100;
    absl::FPrintF(stderr, "reprise: all addresses were as planned: %s%s\n",
                  Counted(sums.planned, "allocation"),
                  fewer ? absl::StrCat(", of ", sums.recorded, " recorded") : std::string());
    return kDone;
  }
  if (said) return kNo;
  absl::FPrintF(stderr, "reprise: addresses were not as planned: %d of %s went elsewhere%s\n",
                sums.elsewhere(), Counted(sums.allocations(), "allocation"),
                without > 0 ? absl::StrCat(", and no plan had ", Counted(without, "process image"))
                            : std::string());
  return kNo;
}

// Writes the statistics and says what went elsewhere than planned. Returns kDone, kNo (only if
// strict) or kLauncher.
int Conclude(const ReplayOptions& options, const Offer& offer, const LaunchResult& result,
             std::optional<base::AtomicFile>& stats) {
  ReplayTotals sums;
  std::vector<ordered_json> images;
  std::vector<SummarizedImage> astray;
  trace::Symbolizer symbolizer;
  TakenPlans taken(offer);
  for (size_t i = 0; i < result.images.size(); ++i) {
    const ImageEntry& image = result.images[i];
    if ((image.state & interpose::kImageReplayed) == 0) continue;
    if (image.plan >= offer.headers.size()) continue;
    const replay::PlanHeader& plan = offer.headers[image.plan];
    const std::vector<LaneCounters> counters = CountersOf(result.counters[i], plan);
    // Reading the plan again takes a while: only where something is to be said of it.
    const ReplayTotals least = TotalsOf(image, counters, ServedBy(counters, nullptr), plan);
    const bool needs_plan = !options.stats.empty() || options.strict;
    if (!needs_plan && least.elsewhere() == 0) {
      sums.Add(least);
      continue;
    }
    const replay::PlanFile* file = taken.Get(image.plan);
    const std::vector<replay::Served> served = ServedBy(counters, file);
    ReplayTotals totals = TotalsOf(image, counters, served, plan);
    if (file != nullptr) totals.recorded = RecordedOf(*file);
    sums.Add(totals);
    const bool worth_saying = WorthSaying(totals.allocations(), totals.elsewhere());
    Findings findings;
    if (file != nullptr && (worth_saying || !options.stats.empty()))
      findings = FindWhatWentWrong(result.counters[i], *file, symbolizer);
    images.push_back(ImageJson(image, totals, counters, served, plan, findings));
    if (!worth_saying) continue;
    const uint64_t laneless = counters.empty() ? 0 : counters.back().heap.allocations;
    astray.push_back({image.executable, totals.allocations(), totals.elsewhere(), laneless,
                      BoxlessOf(counters, file), image.place == plan.place,
                      (plan.flags & replay::kPlanLearned) != 0, std::move(findings)});
  }
  Warn(result, sums, options.strict);
  if (const std::string line = SlightLine(sums.allocations(), sums.elsewhere());
      astray.empty() && !line.empty() && !options.strict) {
    absl::FPrintF(stderr, "reprise: %s\n", line);
  }
  const bool said = astray.size() == 1 && result.images.size() == 1;
  for (const std::string& line :
       SummaryLines(std::move(astray), {options.keep_aslr, options.stats})) {
    absl::FPrintF(stderr, "reprise: %s\n", Printable(line));
  }
  const int answer = options.strict ? JudgeStrictly(result, sums, said) : kDone;
  if (options.stats.empty()) return answer;
  ordered_json json = sums.Json();
  if (images.empty()) json["served_percent"] = 0.0;
  json["images_without_plan"] = CountWithoutPlan(result);
  json["images"] = images;
  if (!stats) stats.emplace(options.stats);
  stats->Write(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  const absl::Status written = Finish(*stats);
  stats.reset();  // removes a temporary file; the process that this runs in destroys nothing
  if (written.ok()) return answer;
  Fail(written);
  return kLauncher;
}

// What the program is started with; the output folder of --record is prepared.
absl::StatusOr<LaunchRequest> MakeRequest(const ReplayOptions& options, const Offer& offer,
                                          const std::string& program_path) {
  LaunchRequest request;
  request.path = program_path;
  request.program = options.program;
  request.flags = interpose::kSessionReplay;
  if (options.release) request.flags |= interpose::kSessionRelease;
  if (options.huge_pages == "always") request.flags |= interpose::kSessionHugePages;
  if (options.huge_pages == "never") request.flags |= interpose::kSessionNoHugePages;
  request.plans = offer.entries;
  for (const replay::PlanHeader& header : offer.headers) {
    request.counters_bytes.push_back(replay::CountersLayout::Of(header).bytes);
  }
  request.keep_aslr = options.keep_aslr;
  if (options.record.empty()) return request;
  const absl::StatusOr<std::string> directory = PrepareOutput(options.record);
  if (!directory.ok()) return directory.status();
  request.flags |= interpose::kSessionRecord;
  request.output = *directory;
  return request;
}

int FailLauncher(const absl::Status& status) {
  Fail(status);
  return kLauncher;
}

int RunReplay(const ReplayOptions& options) {
  const std::string lines = LinesOfThisRun();
  const absl::StatusOr<Offer> offer = OfferPlans(options.plan);
  if (!offer.ok()) return FailLauncher(offer.status());
  const absl::StatusOr<std::string> path = FindPreloadable(options.program[0]);
  if (!path.ok()) return FailLaunch(path.status());
  if (absl::Status status = KeepsInputs(options.stats, {options.plan, *path}); !status.ok()) {
    return FailLauncher(status);
  }
  const absl::StatusOr<LaunchRequest> request = MakeRequest(options, *offer, *path);
  if (!request.ok()) return FailLauncher(request.status());
  // What is wrong with the file is found out now rather than after the program has run. The program
  // does not see it, unless it is a pipe, which stays open.
  std::optional<base::AtomicFile> stats;
  if (!options.stats.empty()) {
    stats.emplace(options.stats);
    if (!stats->ok()) return FailLauncher(absl::UnavailableError(stats->problem()));
    if (!stats->direct()) stats.reset();
  }
  absl::StatusOr<LaunchResult> result = Launch(*request);
  if (!result.ok()) return FailLaunch(result.status());
  SpeakInto(lines);
  PrintMessages(*result);
  if (!options.record.empty()) FinishApart(request->output, *result);
  const int concluded = RunApart([&] { return Conclude(options, *offer, *result, stats); },
                                 "what was counted in replay is not told", kDone);
  const bool own_status = concluded == kDone || (concluded == kNo && result->exit_code != 0);
  return own_status ? result->exit_code : concluded;
}

}  // namespace

void AddReplay(CLI::App& app, const Program& program, Run& run) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand("replay", "Run a program from the arena of a plan");
  command->add_option("plan", options->plan, "a plan file, or a folder of them")->required();
  command->add_option("--stats", options->stats, "write what was counted to this file, as JSON")
      ->type_name("FILE");
  command->add_option("--record", options->record, "record the run into this folder, too")
      ->type_name("DIR");
  command->add_flag("--keep-aslr", options->keep_aslr,
                    "leave address randomisation and hash seeds as they are");
  command->add_flag("--strict", options->strict,
                    "exit with 1 unless every allocation went where the plan said");
  command->add_flag("--release", options->release,
                    "give back pages of the arena that the plan leaves idle for long");
  command
      ->add_option(
          "--huge-pages", options->huge_pages,
          "for the arena: auto (where the plan says that they cost no memory), never, always")
      ->check(OneOf({"auto", "never", "always"}))
      ->capture_default_str();
  auto runs = std::make_shared<int64_t>(1);
  command->add_option("--runs", *runs, "repeat it so often, and say how the runs varied")
      ->check(WholeNumber(1, 1000))
      ->type_name("N");
  command->add_option("program", options->program, "the program and its arguments, after --");
  command->callback([options, runs, &program, &run] {
    TakeProgram(program, options->program);
    run = [options, runs] {
      if (*runs == 1) return RunReplay(*options);
      const absl::StatusOr<int> code = RepeatReplay(*runs, options->stats);
      return code.ok() ? *code : FailLaunch(code.status());
    };
  });
}

}  // namespace reprise::cli
