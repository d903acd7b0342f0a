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
#include "cli/program.h"
#include "cli/recordings.h"
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

// What the launcher knows of the plans it offers.
struct Offer {
  std::vector<interpose::PlanEntry> entries;  // sorted by place, then by name
  std::vector<replay::PlanHeader> headers;    // one for each entry
  std::vector<int> files;  // some of them, open: they may be replaced while the program runs; or -1
};

constexpr size_t kMostOpenPlans = 256;  // of the descriptors, which are few

// Says in an offer which file was verified.
absl::Status Identify(int file, const std::string& name, interpose::PlanEntry& entry) {
  struct stat info {};
  if (fstat(file, &info) != 0) return SystemError(errno, name);
  entry.device = info.st_dev;
  entry.inode = info.st_ino;
  entry.bytes = static_cast<uint64_t>(info.st_size);
  entry.changed = info.st_ctim.tv_sec;
  entry.changed_nanoseconds = info.st_ctim.tv_nsec;
  return absl::OkStatus();
}

struct OfferedPlan {
  interpose::PlanEntry entry;
  replay::PlanHeader header;
  int file;
};

absl::Status CheckLanes(const replay::PlanFile& plan, const std::string& name) {
  const replay::PlanTable& table = plan.header().lanes;
  const auto* lanes = plan.table<replay::PlanLane>(table);
  if (std::none_of(lanes, lanes + table.count, [](const auto& lane) { return lane.path == 0; })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name,
                   ": a plan of a program with threads that was made with --lanes none cannot be "
                   "replayed; plan it with --lanes thread"));
}

// Reads and verifies a plan once for all processes that follow it.
absl::StatusOr<OfferedPlan> ReadPlan(const std::string& name) {
  OfferedPlan offered{};
  offered.file = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (offered.file < 0) return SystemError(errno, name);
  absl::Status status = Identify(offered.file, name, offered.entry);
  const absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(name, offered.file);
  if (status.ok()) status = plan.status();
  if (status.ok()) status = CheckLanes(*plan, name);
  if (status.ok()) status = replay::VerifyPlan(*plan, name);
  std::error_code error;
  const std::string absolute = fs::absolute(name, error).string();
  if (status.ok() && (error || absolute.size() >= sizeof(offered.entry.path))) {
    status = SystemError(ENAMETOOLONG, name);
  }
  if (!status.ok()) {
    close(offered.file);
    return status;
  }
  offered.header = plan->header();
  offered.entry.place = offered.header.place;
  offered.entry.root = (offered.header.flags & replay::kPlanRoot) != 0 ? 1 : 0;
  offered.entry.checksum = offered.header.checksum;
  std::strncpy(offered.entry.path, absolute.c_str(), sizeof(offered.entry.path) - 1);
  return offered;
}

absl::StatusOr<Offer> ReadPlans(const std::string& path) {
  if (absl::Status status = replay::CanBeReplayed(path); !status.ok()) return status;
  const absl::StatusOr<std::vector<std::string>> paths = replay::FindPlans(path);
  if (!paths.ok()) return paths.status();
  std::vector<OfferedPlan> plans;
  for (const std::string& name : *paths) {
    absl::StatusOr<OfferedPlan> plan = ReadPlan(name);
    if (!plan.ok()) return plan.status();
    if (plans.size() >= kMostOpenPlans) close(std::exchange(plan->file, -1));
    plans.push_back(*std::move(plan));
  }
  std::stable_sort(plans.begin(), plans.end(), [](const OfferedPlan& a, const OfferedPlan& b) {
    return a.entry.place < b.entry.place;
  });
  Offer offer;
  for (const OfferedPlan& plan : plans) {
    offer.entries.push_back(plan.entry);
    offer.headers.push_back(plan.header);
    offer.files.push_back(plan.file);
  }
  return offer;
}

// The sums of one image, or of several.
struct Totals {
  uint64_t planned = 0, improvised = 0, fallback = 0, blocked = 0, unmatched = 0, invalid_frees = 0,
           reallocs = 0, reallocs_in_place = 0, iterations = 0;
  uint64_t held_bytes = 0, table_bytes = 0, peak_rss = 0;
  uint64_t address_hash = 0, fallback_hash = 0;

  void Add(const Totals& other) {
    planned += other.planned;
    improvised += other.improvised;
    fallback += other.fallback;
    blocked += other.blocked;
    unmatched += other.unmatched;
    invalid_frees += other.invalid_frees;
    reallocs += other.reallocs;
    reallocs_in_place += other.reallocs_in_place;
    iterations += other.iterations;
    held_bytes += other.held_bytes;
    table_bytes += other.table_bytes;
    peak_rss = std::max(peak_rss, other.peak_rss);
    address_hash = address_hash * 31 + other.address_hash;
    fallback_hash = fallback_hash * 31 + other.fallback_hash;
  }

  uint64_t served() const { return planned + improvised; }
  uint64_t allocations() const { return served() + fallback; }
  uint64_t elsewhere() const { return improvised + fallback; }
  double served_percent() const {
    return allocations() > 0 ? 100.0 * static_cast<double>(served()) / allocations() : 100.0;
  }

  ordered_json Json() const {
    return {{"allocations", allocations()},
            {"served", served()},
            {"served_percent", served_percent()},
            {"planned", planned},
            {"improvised", improvised},
            {"fallback", fallback},
            {"blocked", blocked},
            {"unmatched", unmatched},
            {"invalid_frees", invalid_frees},
            {"lanes_moved", 0},  // each lane has addresses of its own
            {"reallocs", reallocs},
            {"reallocs_in_place", reallocs_in_place},
            {"iterations", iterations},
            {"held_bytes", held_bytes},
            {"arena_bytes", held_bytes},
            {"table_bytes", table_bytes},
            {"peak_rss", peak_rss},
            {"address_hash", absl::StrFormat("%016x", address_hash)},
            {"fallback_hash", absl::StrFormat("%016x", fallback_hash)}};
  }
};

// One per lane of the plan, and one for everything else; none where the image left no counters.
std::vector<LaneCounters> CountersOf(const std::string& bytes, const replay::PlanHeader& plan) {
  std::vector<LaneCounters> counters(std::min<size_t>(plan.lanes.count + replay::kOtherCounters,
                                                      bytes.size() / sizeof(LaneCounters)));
  std::memcpy(static_cast<void*>(counters.data()), bytes.data(),
              counters.size() * sizeof(LaneCounters));
  for (size_t i = plan.lanes.count + 1; i < counters.size(); ++i) {
    LaneCounters& other = counters[plan.lanes.count];
    other.heap.allocations += counters[i].heap.allocations;
    other.heap.addresses += counters[i].heap.addresses;
  }
  if (counters.size() > plan.lanes.count) counters.resize(plan.lanes.count + 1);
  return counters;
}

// What each of them served. Without the plan file what followed it is not known.
std::vector<replay::Served> ServedBy(const std::vector<LaneCounters>& counters,
                                     const replay::PlanFile* plan) {
  std::vector<replay::Served> served;
  for (size_t i = 0; i < counters.size(); ++i) {
    if (plan == nullptr || i >= plan->header().lanes.count) {
      served.push_back({});
      continue;
    }
    const auto& lane = plan->table<replay::PlanLane>(plan->header().lanes)[i];
    const auto* words = plan->table<uint32_t>(plan->header().words) + lane.first_word;
    const auto* loops = plan->table<replay::PlanLoop>(plan->header().loops) + lane.first_loop;
    served.push_back(replay::ServedBy(lane, words, loops, counters[i]));
  }
  return served;
}

Totals TotalsOf(const ImageEntry& image, const std::vector<LaneCounters>& counters,
                const std::vector<replay::Served>& served, const replay::PlanHeader& plan) {
  constexpr uint64_t kPage = 4096;
  Totals totals;
  for (size_t i = 0; i < counters.size(); ++i) {
    const LaneCounters& lane = counters[i];
    totals.planned += served[i].planned;
    totals.iterations += served[i].iterations;
    totals.improvised += lane.heap.allocations;
    totals.fallback += lane.fallback;
    totals.blocked += lane.blocked;
    totals.unmatched += lane.unmatched;
    totals.invalid_frees += lane.invalid_frees;
    totals.reallocs += lane.reallocs;
    totals.reallocs_in_place += lane.reallocs_in_place;
    totals.address_hash = totals.address_hash * 31 + served[i].address_hash;
    totals.fallback_hash = totals.fallback_hash * 31 +
                           replay::MixAddress(0, lane.heap.addresses + lane.fallback_addresses);
  }
  totals.peak_rss = image.peak_rss;
  if (counters.size() > plan.lanes.count) {
    totals.held_bytes = counters[plan.lanes.count].most_held * kPage;
  }
  totals.table_bytes = plan.file_bytes;
  return totals;
}

// Allocations of threads whose lane has no box.
uint64_t BoxlessOf(const std::vector<LaneCounters>& counters, const replay::PlanFile* plan) {
  uint64_t boxless = 0;
  for (size_t i = 0; plan != nullptr && i + 1 < counters.size(); ++i) {
    const auto& lane = plan->table<replay::PlanLane>(plan->header().lanes)[i];
    if (lane.box_bytes == 0) boxless += counters[i].heap.allocations;
  }
  return boxless;
}

// What became of each lane, for those who want to know which thread left its plan, and where.
ordered_json LaneDetails(const std::vector<LaneCounters>& counters,
                         const std::vector<replay::Served>& served) {
  constexpr size_t kMostLanes = 256;
  ordered_json lanes = ordered_json::array();
  for (size_t i = 0; i < std::min(kMostLanes, counters.size()); ++i) {
    const LaneCounters& lane = counters[i];
    lanes.push_back({{"served", served[i].planned + lane.heap.allocations},
                     {"planned", served[i].planned},
                     {"improvised", lane.heap.allocations},
                     {"fallback", lane.fallback},
                     {"blocked", lane.blocked},
                     {"unmatched", lane.unmatched},
                     {"diverged_at", lane.diverged_at},
                     {"expected", {{"shape", lane.expected_shape}, {"site", lane.expected_site}}},
                     {"seen", {{"shape", lane.seen_shape}, {"site", lane.seen_site}}}});
  }
  return lanes;
}

// A plan that was taken, or nothing, and a line that says so, when its file is another by now.
std::optional<replay::PlanFile> PlanOf(const Offer& offer, size_t number) {
  const char* path = offer.entries[number].path;
  absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(path, offer.files[number]);
  if (plan.ok() && plan->header().checksum == offer.headers[number].checksum) {
    return *std::move(plan);
  }
  absl::FPrintF(stderr,
                "reprise: %s: changed while the program ran: what was served as planned is not "
                "counted\n",
                Printable(path));
  return std::nullopt;
}

// The plans that were taken, each read again once, when it is needed for the first time.
class TakenPlans {
 public:
  explicit TakenPlans(const Offer& offer) : offer_(offer) {}
  const replay::PlanFile* Get(size_t number) {
    auto plan = plans_.find(number);
    if (plan == plans_.end()) plan = plans_.emplace(number, PlanOf(offer_, number)).first;
    return plan->second ? &*plan->second : nullptr;
  }

 private:
  const Offer& offer_;
  std::map<size_t, std::optional<replay::PlanFile>> plans_;
};

// An image in the statistics.
ordered_json ImageJson(const ImageEntry& image, const Totals& totals,
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

// The process images that ran without a plan, forked children aside: they never have one.
size_t CountWithoutPlan(const LaunchResult& result) {
  return static_cast<size_t>(
      std::count_if(result.images.begin(), result.images.end(), [](const ImageEntry& image) {
        return image.forked == 0 && (image.state & interpose::kImageReplayed) == 0;
      }));
}

// What those who do not read the statistics must know all the same.
void Warn(const LaunchResult& result, const Totals& sums, bool strict) {
  const size_t without = CountWithoutPlan(result);
  // Of one that is alone its message says why, of others the answer to --strict.
  if (without > 0 && result.images.size() > 1 && !strict) {
    absl::FPrintF(stderr, "reprise: %d of %s had no plan and ran as usual\n", without,
                  Counted(result.images.size(), "process image"));
  }
  if (sums.invalid_frees > 0) {
    absl::FPrintF(stderr,
                  "reprise: ignored %s of what is no live block; glibc would have aborted\n",
                  Counted(sums.invalid_frees, "free"));
  }
}

// Says whether all addresses were as planned, unless that was `said`. Returns kDone, or kNo when
// they were not.
int JudgeStrictly(const LaunchResult& result, const Totals& sums, bool said) {
  const size_t without = CountWithoutPlan(result);
  if (without == 0 && sums.elsewhere() == 0) {
    absl::FPrintF(stderr, "reprise: all addresses were as planned: %s\n",
                  Counted(sums.planned, "allocation"));
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
  Totals sums;
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
    const Totals least = TotalsOf(image, counters, ServedBy(counters, nullptr), plan);
    const bool needs_plan = !options.stats.empty() || options.strict;
    if (!needs_plan && least.elsewhere() == 0) {
      sums.Add(least);
      continue;
    }
    const replay::PlanFile* file = taken.Get(image.plan);
    const std::vector<replay::Served> served = ServedBy(counters, file);
    const Totals totals = TotalsOf(image, counters, served, plan);
    sums.Add(totals);
    const bool worth_saying = WorthSaying(totals.allocations(), totals.elsewhere());
    Findings findings;
    if (file != nullptr && (worth_saying || !options.stats.empty()))
      findings = FindWhatWentWrong(result.counters[i], *file, symbolizer);
    images.push_back(ImageJson(image, totals, counters, served, plan, findings));
    if (!worth_saying) continue;
    const uint64_t laneless = counters.empty() ? 0 : counters.back().heap.allocations;
    astray.push_back({image.executable, totals.allocations(), totals.elsewhere(), laneless,
                      BoxlessOf(counters, file), std::move(findings)});
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
  const absl::StatusOr<Offer> offer = ReadPlans(options.plan);
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
