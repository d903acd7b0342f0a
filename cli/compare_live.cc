#include "cli/compare_live.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/standard_input.h"
#include "replay/compare/live.h"
#include "replay/compare/significance.h"
#include "replay/plan/plan_file.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;
using replay::LiveRun;
using replay::Spread;

constexpr double kSignificant = 0.05;

// Who runs the program.
struct LiveContender {
  std::string name;
  std::string version;
  std::string object;  // where malloc comes from, as the dynamic linker binds it
  replay::LiveCommand command{};
  std::string stats{};  // replay only: the file of its counters
  std::vector<LiveRun> runs{};
  ordered_json counters{};  // replay only: of the last run
  std::string failure{};    // why its figures mean nothing; empty: they do
};

// What is compared, and how it is told.
struct Measure {
  const char* name;
  double (*get)(const LiveRun& run);
};
constexpr Measure kMeasures[] = {
    {"peak_rss", [](const LiveRun& run) { return static_cast<double>(run.peak_rss); }},
    {"wall_seconds", [](const LiveRun& run) { return run.wall_seconds; }},
    {"cpu_seconds", [](const LiveRun& run) { return run.cpu_seconds; }},
    {"page_faults", [](const LiveRun& run) { return static_cast<double>(run.page_faults); }},
};

std::vector<double> Values(const LiveContender& who, const Measure& measure) {
  std::vector<double> values;
  for (const LiveRun& run : who.runs) values.push_back(measure.get(run));
  return values;
}

// "no difference", or how many percent more or less than the first contender.
struct MeasuredDifference {
  double percent = 0;
  double probability = 1;
  bool differs() const { return probability < kSignificant; }
};
MeasuredDifference Against(const LiveContender& first, const LiveContender& who,
                           const Measure& measure) {
  const std::vector<double> base = Values(first, measure), values = Values(who, measure);
  const double median = replay::SpreadOf(base).median;
  MeasuredDifference verdict;
  verdict.probability = replay::ProbabilityOfNoDifference(base, values);
  if (median > 0) verdict.percent = 100 * (replay::SpreadOf(values).median / median - 1);
  return verdict;
}

// A plan that replay would refuse is better refused before anything has run.
absl::Status CheckPlans(const std::string& plan) {
  if (plan.empty()) return absl::OkStatus();
  if (absl::Status status = replay::CanBeReplayed(plan); !status.ok()) return status;
  const absl::StatusOr<std::vector<std::string>> paths = replay::FindPlans(plan);
  if (!paths.ok()) return paths.status();
  for (const std::string& path : *paths) {
    const absl::StatusOr<replay::PlanFile> file = replay::PlanFile::Read(path);
    if (!file.ok()) return file.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LiveContender>> Contenders(const LiveSettings& settings,
                                                      const std::string& program, int input) {
  std::vector<LiveContender> contenders;
  for (replay::Allocator allocator : settings.allocators) {
    if (allocator.nothing) continue;
    const absl::Status chosen = replay::Choose(allocator, {});
    if (absl::IsNotFound(chosen) || absl::IsAborted(chosen)) {
      spdlog::warn("skipped: {}", Printable(std::string(chosen.message())));
      continue;
    }
    if (!chosen.ok()) return chosen;
    LiveContender who{.name = allocator.name, .version = "", .object = ""};
    who.command = {.words = settings.program, .input = input};
    if (!allocator.libraries.empty()) who.command.preload = allocator.libraries.front();
    const absl::StatusOr<std::string> object =
        replay::BindingOfMalloc(program, who.command.preload);
    if (absl::IsPermissionDenied(object.status())) return object.status();
    if (object.ok()) who.object = *object;
    // A preload that fails silently would be measured as glibc.
    if (object.ok() && !who.command.preload.empty()) {
      const std::string asked = std::filesystem::path(who.command.preload).filename();
      const std::string found = std::filesystem::path(*object).filename();
      if (!found.starts_with(asked.substr(0, asked.find(".so")))) {
        return absl::UnavailableError(
            absl::StrCat(program, ": malloc comes from ", *object, ", not ", who.command.preload));
      }
    }
    contenders.push_back(std::move(who));
  }
  if (!settings.plan.empty()) {
    LiveContender who{.name = "replay", .version = REPRISE_VERSION, .object = ""};
    // Without a name, so that nothing is left of it however this ends.
    const int stats = memfd_create("reprise-live-stats", MFD_CLOEXEC);
    if (stats == -1) return SystemError(errno, "a file for the counters");
    who.stats = absl::StrCat("/proc/", getpid(), "/fd/", stats);
    who.command = {.words = {"/proc/self/exe", "replay", settings.plan, "--stats", who.stats, "--"},
                   .input = input};
    who.command.words.front() = std::filesystem::read_symlink("/proc/self/exe").string();
    who.command.words.insert(who.command.words.end(), settings.program.begin(),
                             settings.program.end());
    contenders.push_back(std::move(who));
  }
  return contenders;
}

// Replay's own figures: memory is the program's, not its launcher's.
void TakeCounters(LiveContender& who, LiveRun& run) {
  std::ifstream file(who.stats);
  who.counters = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!who.counters.is_object()) return;
  run.peak_rss = who.counters.value("peak_rss", int64_t{0});
  who.counters.erase("images");
}

void CheckRuns(std::vector<LiveContender>& contenders) {
  const LiveRun& expected = contenders.front().runs.front();
  // What a program writes differently every time says nothing.
  bool repeats = true;
  for (const LiveRun& run : contenders.front().runs) {
    repeats &= run.output_hash == expected.output_hash;
  }
  if (!repeats) {
    spdlog::warn("{}: its runs wrote different things to standard output: not compared",
                 Printable(contenders.front().name));
  }
  for (LiveContender& who : contenders) {
    for (const LiveRun& run : who.runs) {
      if (run.status != expected.status) {
        who.failure = absl::StrCat("exit status ", run.status, " instead of ", expected.status);
      } else if (repeats && run.output_hash != expected.output_hash) {
        who.failure = "it wrote something else to standard output";
      }
      if (!who.failure.empty()) break;
    }
  }
}

ordered_json ToJson(const std::vector<LiveContender>& contenders) {
  ordered_json list = ordered_json::array();
  for (const LiveContender& who : contenders) {
    ordered_json one = {{"allocator", who.name},
                        {"library", who.object},
                        {"runs", who.runs.size()},
                        {"status", who.runs.front().status}};
    for (const Measure& measure : kMeasures) {
      const Spread spread = replay::SpreadOf(Values(who, measure));
      const MeasuredDifference verdict = Against(contenders.front(), who, measure);
      one[measure.name] = spread.median;
      ordered_json detail = {{"lower_quartile", spread.lower_quartile},
                             {"upper_quartile", spread.upper_quartile},
                             {"least", spread.least},
                             {"most", spread.most}};
      if (&who != &contenders.front()) {
        detail["percent_against_first"] = verdict.percent;
        detail["p"] = verdict.probability;
        detail["differs"] = verdict.differs();
      }
      one[absl::StrCat(measure.name, "_spread")] = detail;
    }
    one["same_output"] =
        who.runs.front().output_hash == contenders.front().runs.front().output_hash;
    if (!who.counters.is_null()) one["replay"] = who.counters;
    if (!who.failure.empty()) one["failure"] = who.failure;
    list.push_back(std::move(one));
  }
  return list;
}

std::string Tell(const MeasuredDifference& verdict) {
  if (!verdict.differs()) return "same";
  return absl::StrFormat("%+.1f %%", verdict.percent);
}

// "least peak RSS: replay -2.6 %; glibc and tcmalloc; mimalloc +15.2 %, jemalloc +35.9 %": what the
// table says, in order. Those between semicolons do not differ from the first contender.
void PrintRanking(const char* what, const std::vector<LiveContender>& contenders,
                  const Measure& measure) {
  const LiveContender& first = contenders.front();
  std::vector<std::string> same;
  std::multimap<double, std::string> less, more;  // by percent
  for (const LiveContender& who : contenders) {
    if (!who.failure.empty()) continue;
    const MeasuredDifference verdict = Against(first, who, measure);
    if (&who == &first || !verdict.differs()) {
      same.push_back(who.name);
    } else {
      auto& side = verdict.percent < 0 ? less : more;
      side.emplace(verdict.percent, absl::StrCat(who.name, " ", Tell(verdict)));
    }
  }
  const auto join = [](const std::multimap<double, std::string>& side) {
    return absl::StrJoin(side, ", ", [](std::string* out, const auto& it) { *out += it.second; });
  };
  absl::PrintF(
      "%s: %s\n", what,
      Printable(absl::StrCat(join(less), less.empty() ? "" : "; ", absl::StrJoin(same, " and "),
                             more.empty() ? "" : "; ", join(more))));
}

// Who is in no ranking, and why: "left out: jemalloc, mimalloc: it wrote something else".
void PrintLeftOut(const std::vector<LiveContender>& contenders) {
  std::map<std::string, std::vector<std::string>> names;  // by reason
  for (const LiveContender& who : contenders) {
    if (!who.failure.empty()) names[who.failure].push_back(who.name);
  }
  for (const auto& [reason, left_out] : names) {
    absl::PrintF("left out: %s: %s\n", Printable(absl::StrJoin(left_out, ", ")), Printable(reason));
  }
}

void PrintRow(const LiveContender& who, const LiveContender& first) {
  const Spread rss = replay::SpreadOf(Values(who, kMeasures[0]));
  const Spread time = replay::SpreadOf(Values(who, kMeasures[1]));
  const auto tell = [&](const Measure& measure) -> std::string {
    if (!who.failure.empty()) return "left out";
    return &who == &first ? "" : Tell(Against(first, who, measure));
  };
  constexpr double kMebibyte = 1 << 20;
  absl::PrintF(
      "%-9s %7.2f MiB %14s %8s %6.3f s %13s %8s\n", who.name, rss.median / kMebibyte,
      absl::StrFormat("%.2f-%.2f", rss.lower_quartile / kMebibyte, rss.upper_quartile / kMebibyte),
      tell(kMeasures[0]), time.median,
      absl::StrFormat("%.3f-%.3f", time.lower_quartile, time.upper_quartile), tell(kMeasures[1]));
}

void Print(const std::vector<LiveContender>& contenders, const LiveSettings& settings) {
  absl::PrintF("%s each, interleaved: median, and the middle half of the runs\n",
               Counted(settings.runs, "run"));
  absl::PrintF("%-9s %11s %14s %8s %8s %13s\n", "allocator", "peak RSS", "", "", "time", "");
  for (const LiveContender& who : contenders) PrintRow(who, contenders.front());
  absl::PrintF("differences are against %s; same: p >= %.2f (Mann-Whitney)\n",
               contenders.front().name, kSignificant);
  // The test cannot tell fewer runs than this apart, however far they lie from each other.
  if (settings.runs < 4) absl::PrintF("with fewer than 4 runs no difference can be shown\n");
  const int status = contenders.front().runs.front().status;
  if (status != 0) absl::PrintF("the program ended with status %d\n", status);
  for (const LiveContender& who : contenders) {
    if (!who.object.empty())
      absl::PrintF("  %-10s malloc from %s\n", Printable(who.name), Printable(who.object));
    if (who.counters.is_object() && who.counters.contains("served_percent")) {
      const auto planned = who.counters.value("planned", int64_t{0});
      absl::PrintF("  %-10s %.3f %% of the allocations as planned, %.3f %% from the arena\n",
                   who.name, Percent(planned, who.counters.value("allocations", int64_t{0})),
                   who.counters["served_percent"].get<double>());
    }
  }
  // Without the first there is nothing that others could differ from.
  if (settings.runs >= 4 && contenders.size() > 1 && contenders.front().failure.empty()) {
    absl::PrintF("\n");
    PrintRanking("least peak RSS", contenders, kMeasures[0]);
    PrintRanking("fastest", contenders, kMeasures[1]);
  }
  PrintLeftOut(contenders);
}

}  // namespace

absl::StatusOr<int> CompareLive(const LiveSettings& settings) {
  const absl::StatusOr<std::string> program = FindPreloadable(settings.program.front());
  if (!program.ok()) return program.status();
  const absl::StatusOr<std::string> player = replay::FindPlayer();
  if (!player.ok()) return absl::UnavailableError(player.status().message());
  if (absl::Status status = CheckPlans(settings.plan); !status.ok()) return status;
  const absl::StatusOr<int> input = KeepInput();
  if (!input.ok()) return input.status();
  absl::StatusOr<std::vector<LiveContender>> contenders = Contenders(settings, *program, *input);
  if (!contenders.ok()) return contenders.status();
  if (contenders->empty()) return absl::FailedPreconditionError("no allocator to compare");

  // The first round only warms caches.
  Progress progress;
  for (int64_t run = -1; run < settings.runs; ++run) {
    for (LiveContender& who : *contenders) {
      progress.Say(run < 0 ? absl::StrCat("warming up: ", who.name)
                           : absl::StrFormat("run %d of %d: %s", run + 1, settings.runs, who.name));
      absl::StatusOr<LiveRun> measured = replay::RunLive(*player, who.command);
      if (!measured.ok()) return measured.status();
      if (run < 0) continue;
      if (!who.stats.empty()) TakeCounters(who, *measured);
      who.runs.push_back(*measured);
    }
  }
  progress.Clear();
  CheckRuns(*contenders);
  bool failed = false;
  for (const LiveContender& who : *contenders) {
    if (who.failure.empty()) continue;
    failed = true;
    spdlog::error("{}: {}", Printable(who.name), Printable(who.failure));
  }
  if (settings.json) {
    ordered_json json = {{"program", settings.program}, {"results", ToJson(*contenders)}};
    PrintJson(json);
  } else {
    Print(*contenders, settings);
  }
  return failed ? kNo : kDone;
}

}  // namespace reprise::cli
