// `reprise report`: one self-contained page that shows where memory went.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/option_scope.h"
#include "cli/progress.h"
#include "cli/report_input.h"
#include "report/facts.h"
#include "report/headline.h"
#include "report/measured_json.h"
#include "report/page.h"
#include "report/picture.h"
#include "report/repeats.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;

struct ReportOptions {
  const CLI::App* command = nullptr;
  std::string input;
  std::string output;
  std::vector<std::string> plans;
  std::string allocators = "glibc";
  std::string comparison;
  std::string replay;
  size_t most_blocks = 2'000'000;
  bool svg = false, png = false;
  bool ignore_unknown = false;
  bool touch = true;
};

// Names that tell several plans apart, where there are several.
void NameMaps(const std::vector<std::string>& plans, std::vector<HeapMap>& maps) {
  if (plans.size() < 2) return;
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::filesystem::path path(plans[i]);
    maps[i].name = absl::StrCat(
        "plan ", (path.has_filename() ? path : path.parent_path()).filename().string());
    maps[i].detail.clear();
  }
}

absl::StatusOr<std::vector<HeapMap>> LoadMaps(const Subject& subject,
                                              const ReportOptions& options) {
  std::vector<HeapMap> plans;
  for (const std::string& path : options.plans) {
    absl::StatusOr<HeapMap> map = LoadPlanMap(subject, path);
    if (!map.ok()) return map.status();
    plans.push_back(*std::move(map));
  }
  NameMaps(options.plans, plans);
  if (plans.empty() && subject.is_instance && subject.instance.has_offsets) {
    absl::StatusOr<HeapMap> map = LoadGivenMap(subject);
    if (!map.ok()) return map.status();
    plans.push_back(*std::move(map));
  }
  std::vector<HeapMap> maps;
  // An instance was never served by an allocator: it says what a compiler wants placed.
  if (options.allocators != "none" && !subject.is_instance) {
    const std::vector<std::string> names =
        absl::StrSplit(options.allocators, ',', absl::SkipEmpty());
    for (const std::string& name : names) {
      absl::StatusOr<HeapMap> map = RunAllocatorMap(subject, name, options.touch);
      if (absl::IsNotFound(map.status())) {
        std::fprintf(stderr, "reprise: skipped: %s\n",
                     Printable(std::string(map.status().message())).c_str());
        continue;
      }
      if (!map.ok()) return map.status();
      maps.push_back(*std::move(map));
    }
  }
  for (HeapMap& plan : plans) maps.push_back(std::move(plan));
  return maps;
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  base::AtomicFile file(path);
  file.Write(text);
  return Finish(file);
}

absl::Status WritePicture(const ReportOptions& options, const Subject& subject,
                          const std::vector<HeapMap>& maps) {
  if (maps.empty()) {
    return absl::FailedPreconditionError(
        "a picture shows maps: give a plan with --plan, or --allocators");
  }
  const std::string text =
      options.svg ? report::DrawSvg(subject, maps) : report::DrawPng(subject, maps);
  if (text.empty()) return absl::UnavailableError(absl::StrCat(options.output, ": libpng failed"));
  return WriteFile(options.output, text);
}

absl::StatusOr<nlohmann::json> LoadComparison(const Subject& subject,
                                              const ReportOptions& options) {
  const absl::StatusOr<std::string> text = report::ReadText(options.comparison);
  if (!text.ok()) return text.status();
  base::UnknownNames unknown(options.ignore_unknown);
  absl::StatusOr<nlohmann::json> comparison = report::ParseComparison(
      *text, options.comparison, std::filesystem::path(subject.path).filename().string(), unknown);
  WarnOfIgnored(options.comparison, unknown.Ignored());
  return comparison;
}

absl::StatusOr<nlohmann::json> LoadStatistics(const ReportOptions& options) {
  const absl::StatusOr<std::string> text = report::ReadText(options.replay);
  if (!text.ok()) return text.status();
  base::UnknownNames unknown(options.ignore_unknown);
  absl::StatusOr<nlohmann::json> statistics =
      report::ParseReplayStatistics(*text, options.replay, unknown);
  WarnOfIgnored(options.replay, unknown.Ignored());
  return statistics;
}

absl::Status Report(const ReportOptions& options) {
  std::vector<std::string> inputs = options.plans;
  inputs.insert(inputs.end(), {options.input, options.comparison, options.replay});
  if (absl::Status status = KeepsInputs(options.output, inputs); !status.ok()) return status;
  Progress progress;
  progress.Say(absl::StrCat("reading ", options.input));
  absl::StatusOr<Subject> subject =
      LoadSubject(options.input, options.ignore_unknown,
                  options.plans.empty() ? std::string() : options.plans.front());
  if (!subject.ok()) return subject.status();
  const Kind kind = subject->is_graph      ? Kind::kGraph
                    : subject->is_instance ? Kind::kInstance
                                           : Kind::kRecording;
  if (absl::Status status = CheckScope(*options.command, kind); !status.ok()) return status;
  nlohmann::json comparison, replay;
  if (!options.comparison.empty()) {
    absl::StatusOr<nlohmann::json> loaded = LoadComparison(*subject, options);
    if (!loaded.ok()) return loaded.status();
    comparison = *std::move(loaded);
  }
  if (!options.replay.empty()) {
    absl::StatusOr<nlohmann::json> loaded = LoadStatistics(options);
    if (!loaded.ok()) return loaded.status();
    replay = *std::move(loaded);
  }
  progress.Say("performing the recording");
  const absl::StatusOr<std::vector<HeapMap>> maps = LoadMaps(*subject, options);
  if (!maps.ok()) return maps.status();
  progress.Say("looking up names, and drawing");

  if (options.svg || options.png) return WritePicture(options, *subject, *maps);

  const report::SiteTable sites =
      report::TabulateSites(subject->recording, subject->statistics.peak_event, subject->alignment);
  const std::vector<report::SiteName> names = report::NameSites(subject->recording, sites);
  report::Page page;
  page.title = absl::StrCat(subject->name, ": heap report");
  page.facts = report::GatherFacts(*subject, sites, names, *maps, comparison, replay);
  report::AddAdvice(*subject, sites, names, *maps, page.facts);
  page.facts["headline"] = report::Headline(page.facts);
  if (!options.plans.empty()) {
    absl::StatusOr<ordered_json> lanes = report::LaneFacts(*subject, options.plans.front());
    if (!lanes.ok()) return lanes.status();
    page.facts["lanes"] = *std::move(lanes);
  }
  const std::string plan = options.plans.empty() ? std::string() : options.plans.front();
  absl::Status repeats = report::AddRepeats(*subject, plan, page.facts);
  if (!repeats.ok()) return repeats;
  if (!report::HasChart()) page.fallback_curves = report::DrawCurves(page.facts);
  page.columns = report::GatherColumns(*subject, sites, *maps, options.most_blocks, page.facts);
  base::AtomicFile file(options.output);
  if (!file.ok()) return Finish(file);
  report::WritePage(page, [&](std::string_view text) { file.Write(text); });
  return Finish(file);
}

}  // namespace

void AddReport(CLI::App& app, Run& run) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Write one page that shows where memory went");
  options->command = command;
  command
      ->add_option("input", options->input,
                   "a trace, an instance as CSV, or a graph as JSON; -: standard input")
      ->required();
  command->add_option("-o,--output", options->output, "the page to write; -: standard output")
      ->required()
      ->type_name("FILE");
  command->add_option("--plan", options->plans, "show this plan; may be given again")
      ->type_name("PLAN")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--allocators", options->allocators,
                   "show where these allocators put the blocks (comma-separated), or none")
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("--compare", options->comparison, "what `reprise compare --json` printed")
      ->type_name("FILE");
  command->add_option("--replay", options->replay, "what `reprise replay --stats` wrote")
      ->type_name("FILE");
  command
      ->add_option("--density-above", options->most_blocks,
                   "from so many blocks on, show densities and the largest blocks instead of all")
      ->type_name("N")
      ->check(CheckWholeNumber)
      ->capture_default_str();
  auto* svg =
      command->add_flag("--svg", options->svg, "write only the maps, as a static picture: SVG");
  command->add_flag("--png", options->png, "the same as PNG")->excludes(svg);
  command->add_flag("--touch,!--no-touch", options->touch,
                    "let the allocators' blocks be written to (the default), or not");
  AddIgnoreUnknown(command, options->ignore_unknown);
  command->callback([&run, options] {
    run = [options] {
      const absl::Status status = Report(*options);
      return status.ok() ? kDone : Fail(status);
    };
  });
}

}  // namespace reprise::cli
