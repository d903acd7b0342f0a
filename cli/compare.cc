// `reprise compare`: drives each allocator, and a plan, with a recording.
#include "replay/compare/compare.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/command.h"
#include "cli/compare_live.h"
#include "cli/compare_table.h"
#include "cli/machine_memory.h"
#include "cli/option_scope.h"
#include "cli/progress.h"
#include "cli/report_input.h"
#include "replay/compare/arena_placement.h"
#include "replay/plan/plan_file.h"
#include "replay/plan/plan_verifier.h"
#include "trace/reader.h"
#include "trace/statistics.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;
using replay::Measurement;

struct Settings {
  const CLI::App* command = nullptr;
  std::vector<std::string> words;  // the trace; with `live` the program and its arguments
  std::string trace;
  std::string plan;
  std::string allocators = std::string(replay::kUsualAllocators);
  std::string order = "recorded";
  std::vector<std::string> more_allocators;  // NAME=PATH
  int64_t runs = 0;                          // 0: not said
  bool live = false;
  int64_t samples = 500;
  bool touch = true;
  bool pins = false;
  bool what_if = false;
  bool json = false;
  bool ignore_unknown = false;
};

// What a reader of the numbers has to know.
void Explain(const Measurement& it) {
  if (it.failures > 0)
    spdlog::warn("{} refused {}", Printable(it.allocator), Counted(it.failures, "allocation"));
  if (it.threads_shared > 0) {
    spdlog::warn("most threads alive at once: {}; of the recorded threads {} share one",
                 it.threads_at_once, it.threads_shared);
  }
}

// Who is measured: an allocator, or a placement: the plan, or the heap of replay without one.
struct Contender {
  std::string name;
  const replay::Allocator* allocator = nullptr;
  replay::Placement placement{};
  // Blocks come from a heap, whose pages stay held. Else a block lies where the plan has it.
  bool is_heap = true;
};

// One recording under all contenders.
class Trial {
 public:
  Trial(const trace::Recording& recording, const replay::CompareOptions& options)
      : recording_(recording), options_(options) {}

  absl::StatusOr<Measurement> Measure(const Contender& who) const {
    if (who.allocator != nullptr) {
      return replay::MeasureAllocator(recording_, *who.allocator, options_);
    }
    absl::StatusOr<Measurement> measured =
        replay::MeasurePlan(recording_, who.placement.offsets, who.placement.arena_bytes, options_);
    if (measured.ok()) measured->allocator = who.name;
    return measured;
  }

  absl::StatusOr<replay::Observation> Observe(const Contender& who,
                                              const std::vector<uint64_t>& events) const {
    if (who.allocator != nullptr) {
      return replay::ObserveAllocator(recording_, *who.allocator, options_, events);
    }
    return replay::ObservePlan(recording_, who.placement.offsets, who.placement.arena_bytes,
                               options_, events);
  }

 private:
  const trace::Recording& recording_;
  const replay::CompareOptions& options_;
};

// The plan at `path`, and of a recording the heap of replay without a plan before it. A plan that
// has no place for some threads' blocks is performed as in replay: they come from that heap.
absl::Status AddPlan(const Subject& subject, const std::string& path,
                     std::vector<Contender>& contenders) {
  absl::StatusOr<HeapMap> map = LoadPlanMap(subject, path);
  if (!map.ok()) return map.status();
  static_assert(HeapMap::kNowhere == replay::Placement::kUnplanned);
  Contender plan{.name = "plan", .is_heap = false};
  plan.placement = {std::move(map->offsets), map->height, subject.alignment};
  if (!subject.is_instance) {
    absl::StatusOr<replay::Placement> heap = replay::PlaceByArena(subject.recording, nullptr);
    if (!heap.ok()) return heap.status();
    contenders.push_back({.name = "heap", .placement = *std::move(heap)});
    const std::vector<int64_t>& offsets = plan.placement.offsets;
    plan.is_heap = std::find(offsets.begin(), offsets.end(), HeapMap::kNowhere) != offsets.end();
  }
  if (plan.is_heap) {
    const std::string name = replay::PlanFor(path, subject.path);
    const absl::StatusOr<replay::PlanFile> file = replay::PlanFile::Read(name);
    if (!file.ok()) return file.status();
    if (absl::Status status = replay::VerifyPlan(*file, name); !status.ok()) return status;
    absl::StatusOr<replay::Placement> performed = replay::PlaceByArena(subject.recording, &*file);
    if (!performed.ok()) return performed.status();
    plan.placement = *std::move(performed);
  }
  contenders.push_back(std::move(plan));
  return absl::OkStatus();
}

// How the load stands at `events`, and how much of it was requested.
struct LoadAt {
  std::vector<int64_t> live, requested;  // bytes
};
LoadAt LoadAtEvents(const trace::Recording& recording, const std::vector<uint64_t>& events,
                    uint64_t alignment) {
  LoadAt result;
  int64_t live = 0, requested = 0;
  trace::ForEachEvent(recording, [&](const trace::Event& event) {
    // Everything below this event's index has happened.
    while (result.live.size() < events.size() && events[result.live.size()] < event.index) {
      result.live.push_back(live);
      result.requested.push_back(requested);
    }
    const auto bytes = static_cast<int64_t>(trace::BlockBytes(event.size, alignment));
    const auto size = static_cast<int64_t>(event.size);
    if (event.kind == trace::EventKind::kAllocate) {
      live += bytes;
      requested += size;
    } else if (event.kind == trace::EventKind::kFree ||
               event.kind == trace::EventKind::kImpliedFree) {
      live -= bytes;
      requested -= size;
    }
  });
  result.live.resize(events.size(), live);
  result.requested.resize(events.size(), requested);
  return result;
}

// Measures one recording. A contender that fails goes to `failed`.
absl::StatusOr<Comparison> CompareOne(const std::string& path, const Settings& settings,
                                      const std::vector<replay::Allocator>& allocators,
                                      replay::CompareOptions options,
                                      std::vector<Missing>& failed) {
  Progress progress;
  progress.Say(absl::StrCat("reading ", path));
  const absl::StatusOr<Subject> subject = LoadSubject(path, settings.ignore_unknown);
  if (!subject.ok()) return subject.status();
  const Kind kind = subject->is_instance ? Kind::kInstance : Kind::kRecording;
  if (absl::Status scope = CheckScope(*settings.command, kind); !scope.ok()) return scope;
  const trace::Recording& recording = subject->recording;
  const trace::Statistics& statistics = subject->statistics;
  if (settings.touch) {
    if (absl::Status fits = FitsInMemory(path, statistics.max_load); !fits.ok()) return fits;
  }
  options.alignment = subject->alignment;
  options.max_load = static_cast<int64_t>(statistics.max_load);
  std::vector<Contender> contenders;
  for (const replay::Allocator& it : allocators) contenders.push_back({it.name, &it});
  if (!settings.plan.empty()) {
    absl::Status added = AddPlan(*subject, settings.plan, contenders);
    if (!added.ok()) return added;
  }
  Comparison comparison = {
      .trace = path,
      .max_load = static_cast<int64_t>(statistics.max_load),
      .requested_max_load = static_cast<int64_t>(statistics.requested_max_load)};
  if (settings.what_if) comparison.what_if = DescribeWhatIf(recording);
  const Trial trial(recording, options);
  // Interleaved, so that whatever else the machine does meets all of them.
  std::vector<std::vector<Measurement>> runs(contenders.size());
  std::vector<bool> out(contenders.size());
  for (int64_t run = 0; run < settings.runs; ++run) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      if (out[i]) continue;
      progress.Say(absl::StrFormat("%s: run %d of %d of %s", path, run + 1, settings.runs,
                                   contenders[i].name));
      absl::StatusOr<Measurement> measured = trial.Measure(contenders[i]);
      if (absl::IsAborted(measured.status()) || absl::IsUnavailable(measured.status())) {
        failed.push_back({contenders[i].name, measured.status()});
        out[i] = true;
        continue;
      }
      if (!measured.ok()) return measured.status();
      progress.Clear();
      if (run == 0) Explain(*measured);
      runs[i].push_back(*std::move(measured));
    }
  }
  const bool watch = options.order == replay::Order::kRecorded;
  std::vector<uint64_t> events;
  LoadAt load;
  if (watch) {
    events = replay::SampleEvents(recording, static_cast<size_t>(settings.samples),
                                  statistics.peak_event);
    load = LoadAtEvents(recording, events, options.alignment);
    if (settings.samples > 0) {
      comparison.events = events;
      comparison.live = load.live;
    }
  }
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (out[i]) continue;
    Result result = Summarize(runs[i]);
    const bool nothing = contenders[i].allocator != nullptr && contenders[i].allocator->nothing;
    if (watch && !nothing && !events.empty()) {
      progress.Say(absl::StrCat(path, ": looking on at ", contenders[i].name));
      absl::StatusOr<replay::Observation> seen = trial.Observe(contenders[i], events);
      if (!seen.ok()) return seen.status();
      replay::TakeFootprint(result.median, *seen, *options.max_load);
      if (settings.pins) {
        const HeapMap map = report::CompactAddresses(recording, *seen);
        const replay::Pins pins =
            contenders[i].is_heap
                ? replay::FindPins(recording, map.offsets, &map.returned, 10, options.alignment)
                : replay::FindPins(recording, contenders[i].placement.offsets, nullptr, 10,
                                   options.alignment);
        result.pins = DescribePins(recording, pins);
      }
      seen->addresses = {};
      seen->returned = {};
      const auto peak = std::lower_bound(events.begin(), events.end(), statistics.peak_event);
      // What was refused was requested, but lies nowhere.
      if (result.median.failures == 0) {
        replay::Decompose(result.median, *seen, statistics.peak_event,
                          load.requested[static_cast<size_t>(peak - events.begin())]);
      }
      if (settings.samples > 0) result.observation = *std::move(seen);
    }
    comparison.results.push_back(std::move(result));
  }
  return comparison;
}

// Says once for each reason who failed for it. Returns what that makes of the comparison.
int TellFailures(const std::vector<Missing>& failed) {
  std::map<std::string, std::vector<std::string>> names;
  int code = failed.empty() ? kDone : kSystem;
  for (const Missing& it : failed) {
    if (absl::IsAborted(it.why)) code = kNo;
    const std::string message(it.why.message());
    const absl::string_view reason = absl::StripPrefix(message, it.allocator + ": ");
    std::vector<std::string>& all = names[std::string(absl::StripPrefix(reason, "plan: "))];
    if (std::find(all.begin(), all.end(), it.allocator) == all.end()) all.push_back(it.allocator);
  }
  for (const auto& [reason, who] : names) {
    spdlog::error("{}: {}", Printable(absl::StrJoin(who, ", ")), Printable(reason));
  }
  return code;
}

absl::StatusOr<int> Compare(Settings settings) {
  std::string list = settings.allocators;
  for (const std::string& one : settings.more_allocators) {
    if (one.find('=') == std::string::npos) {
      return absl::FailedPreconditionError(
          absl::StrCat("--allocator: expected NAME=LIBRARY.so, found ", one));
    }
    absl::StrAppend(&list, ",", one);
  }
  absl::StatusOr<std::vector<replay::Allocator>> wanted = replay::ParseAllocators(list);
  if (!wanted.ok()) return absl::FailedPreconditionError(wanted.status().message());
  if (settings.live) {
    return CompareLive({.program = settings.words,
                        .plan = settings.plan,
                        .allocators = *std::move(wanted),
                        .runs = settings.runs > 0 ? settings.runs : 5,
                        .json = settings.json});
  }
  if (settings.words.size() != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected one trace, found ", settings.words.size(), " words"));
  }
  settings.trace = settings.words.front();
  settings.runs = std::max<int64_t>(settings.runs, 1);
  replay::CompareOptions options;
  options.touch = settings.touch;
  if (settings.order != "recorded") options.order = replay::Order::kDependencies;
  absl::StatusOr<std::string> player = replay::FindPlayer();
  if (!player.ok()) return absl::UnavailableError(player.status().message());
  options.player = *std::move(player);
  absl::StatusOr<std::vector<std::string>> traces = trace::FindTraces(settings.trace);
  if (!traces.ok()) return traces.status();

  std::vector<replay::Allocator> allocators;
  std::vector<Missing> skipped;
  for (replay::Allocator& allocator : *wanted) {
    absl::Status status = replay::Choose(allocator, options);
    if (status.ok()) {
      allocators.push_back(std::move(allocator));
    } else if (absl::IsNotFound(status) || absl::IsAborted(status)) {
      spdlog::warn("skipped: {}", Printable(std::string(status.message())));
      skipped.push_back({allocator.name, status});
    } else {
      return status;
    }
  }

  std::vector<Comparison> images;
  std::vector<Missing> failed;
  for (const std::string& path : *traces) {
    absl::StatusOr<Comparison> image = CompareOne(path, settings, allocators, options, failed);
    if (!image.ok()) return image.status();
    images.push_back(*std::move(image));
  }
  const int code = TellFailures(failed);

  const bool folder = images.size() > 1 || images.front().trace != settings.trace;
  Comparison whole = Sum(images);
  if (folder) {
    // Series belong to one recording each: they stand under `images`.
    whole.trace.clear();
    whole.events.clear();
    for (Result& result : whole.results) result.observation = {};
  }
  if (settings.json) {
    ordered_json json = ToJson(whole);
    if (!skipped.empty()) json["skipped"] = ToJson(skipped);
    if (!failed.empty()) json["failed"] = ToJson(failed);
    if (folder) {
      json["images"] = ordered_json::array();
      for (const Comparison& image : images) json["images"].push_back(ToJson(image));
    }
    PrintJson(json);
  } else if (!whole.results.empty()) {
    if (folder && images.size() > 1)
      absl::PrintF("%s, summed: ", Counted(images.size(), "process image"));
    PrintTable(whole);
    if (settings.pins) PrintPins(images);
  }
  return code;
}

}  // namespace

void AddCompare(CLI::App& app, const Program& program, Run& run) {
  CLI::App* command =
      app.add_subcommand("compare", "Compare allocators, and a plan, on a recording");
  const auto settings = std::make_shared<Settings>();
  settings->command = command;
  command->add_option("TRACE", settings->words,
                      "a trace (-: standard input), or a folder of them; with --live: the "
                      "program, after --");
  command->add_flag("--live", settings->live,
                    "run the program itself under each allocator, and replay it from the plan");
  command->add_option("--plan", settings->plan, "measure this plan as well")->type_name("PLAN");
  command
      ->add_option("--allocators", settings->allocators,
                   "comma-separated: glibc, jemalloc, mimalloc, tcmalloc, NAME=LIBRARY.so")
      ->capture_default_str()
      ->type_name("LIST");
  command
      ->add_option("--order", settings->order,
                   "recorded: one thread at a time, as it was; dependencies: threads contend, "
                   "only a free waits for its allocation")
      ->check(OneOf({"recorded", "dependencies"}))
      ->capture_default_str();
  command
      ->add_option("--allocator", settings->more_allocators,
                   "NAME=LIBRARY.so: one more; may be given again")
      ->expected(1)
      ->take_all()
      ->type_name("NAME=FILE");
  command
      ->add_option("--runs", settings->runs,
                   "measure so often, interleaved; medians are shown (1; with --live 5)")
      ->check(WholeNumber(1, 1000));
  command
      ->add_option("--samples", settings->samples,
                   "look at resident memory so often, in a run of its own; 0: not at all")
      ->check(WholeNumber(0, 100000))
      ->capture_default_str();
  command->add_flag("--pins", settings->pins,
                    "say which blocks kept free memory from being used when more was taken");
  command->add_flag("--what-if", settings->what_if,
                    "say what the max load would be if the blocks of the largest call sites were "
                    "freed at once, pooled, or given a lane");
  command->add_flag("--touch,!--no-touch", settings->touch,
                    "write to every page of the blocks (the default), or do not");
  command->add_flag("--json", settings->json, "one JSON object on standard output");
  AddIgnoreUnknown(command, settings->ignore_unknown);
  command->callback([settings, &program, &run] {
    if (settings->live) {
      TakeProgram(program, settings->words);
    } else {  // a trace may have any name
      settings->words.insert(settings->words.end(), program.begin(), program.end());
    }
    run = [settings] {
      const absl::StatusOr<int> code = Compare(*settings);
      return code.ok() ? *code : Fail(code.status());
    };
  });
}

}  // namespace reprise::cli
