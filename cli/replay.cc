// `reprise replay`: runs a program from the arena that a plan describes.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/recordings.h"
#include "replay/arena/counters.h"
#include "replay/plan_file.h"
#include "replay/served.h"

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
};

using Offer = std::vector<interpose::PlanEntry>;  // sorted by place, then by name

absl::StatusOr<Offer> ReadPlans(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> paths = replay::FindPlans(path);
  if (!paths.ok()) return paths.status();
  Offer offer;
  for (const std::string& name : *paths) {
    const absl::StatusOr<replay::PlanFile> plan = replay::PlanFile::Read(name);
    if (!plan.ok()) return plan.status();
    const replay::PlanHeader& header = plan->header();
    const auto* lanes = plan->table<replay::PlanLane>(header.lanes);
    for (uint64_t i = 0; i < header.lanes.count; ++i) {
      if (lanes[i].path == 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            name,
            ": a plan of a program with threads that was made with --lanes none cannot be "
            "replayed; plan it with --lanes thread"));
      }
    }
    std::error_code error;
    const std::string absolute = fs::absolute(name, error).string();
    interpose::PlanEntry entry{};
    if (error || absolute.size() >= sizeof(entry.path)) return SystemError(ENAMETOOLONG, name);
    entry.place = header.place;
    entry.root = static_cast<uint32_t>(header.root);
    std::strncpy(entry.path, absolute.c_str(), sizeof(entry.path) - 1);
    offer.push_back(entry);
  }
  std::stable_sort(offer.begin(), offer.end(),
                   [](const auto& a, const auto& b) { return a.place < b.place; });
  return offer;
}

// The sums of one image, or of several.
struct Totals {
  uint64_t served = 0, improvised = 0, fallback = 0, blocked = 0, unmatched = 0, invalid_frees = 0,
           moved = 0;
  uint64_t arena_bytes = 0, table_bytes = 0, peak_rss = 0;
  uint64_t address_hash = 0, fallback_hash = 0;

  void Add(const Totals& other) {
    served += other.served;
    improvised += other.improvised;
    fallback += other.fallback;
    blocked += other.blocked;
    unmatched += other.unmatched;
    invalid_frees += other.invalid_frees;
    moved += other.moved;
    arena_bytes += other.arena_bytes;
    table_bytes += other.table_bytes;
    peak_rss = std::max(peak_rss, other.peak_rss);
    address_hash = address_hash * 31 + other.address_hash;
    fallback_hash = fallback_hash * 31 + other.fallback_hash;
  }

  uint64_t allocations() const { return served + fallback; }
  double served_percent() const {
    return allocations() > 0 ? 100.0 * static_cast<double>(served) / allocations() : 100.0;
  }

  ordered_json Json() const {
    return {{"allocations", allocations()},
            {"served", served},
            {"served_percent", served_percent()},
            {"improvised", improvised},
            {"fallback", fallback},
            {"blocked", blocked},
            {"unmatched", unmatched},
            {"invalid_frees", invalid_frees},
            {"lanes_moved", moved},
            {"arena_bytes", arena_bytes},
            {"table_bytes", table_bytes},
            {"peak_rss", peak_rss},
            {"address_hash", absl::StrFormat("%016x", address_hash)},
            {"fallback_hash", absl::StrFormat("%016x", fallback_hash)}};
  }
};

// One image: what its counters say, together with the plan that it ran by.
class ImageStatistics {
 public:
  // Without a plan (its file is gone) what followed it is not known.
  ImageStatistics(const ImageEntry& image, const std::string& counters,
                  const replay::PlanFile* plan)
      : lanes_(counters.size() / sizeof(LaneCounters)) {
    std::memcpy(lanes_.data(), counters.data(), lanes_.size() * sizeof(LaneCounters));
    const uint64_t planned = plan != nullptr ? plan->header().lanes.count : 0;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const LaneCounters& lane = lanes_[i];
      replay::Served served{lane.apart - lane.skipped, lane.apart_hash - lane.skipped_hash};
      if (i < planned) {
        const auto& entry = plan->table<replay::PlanLane>(plan->header().lanes)[i];
        const auto* words = plan->table<uint32_t>(plan->header().words);
        served = replay::ServedBy(entry, words + entry.first_word, lane);
      }
      served_.push_back(served.allocations);
      totals_.served += served.allocations;
      totals_.improvised += lane.improvised;
      totals_.arena_bytes += lane.annex_bytes;
      totals_.fallback += lane.fallback;
      totals_.blocked += lane.blocked;
      totals_.unmatched += lane.unmatched;
      totals_.invalid_frees += lane.invalid_frees;
      totals_.moved += lane.moved;
      totals_.address_hash = totals_.address_hash * 31 + served.address_hash;
      totals_.fallback_hash = totals_.fallback_hash * 31 + lane.fallback_hash;
    }
    totals_.peak_rss = image.peak_rss;
    if (plan != nullptr) {
      totals_.arena_bytes += plan->header().arena_bytes;
      totals_.table_bytes = plan->header().file_bytes;
    }
  }

  const Totals& totals() const { return totals_; }

  // What became of each lane, for those who want to know which thread went astray, and where.
  ordered_json LaneDetails() const {
    constexpr size_t kMostLanes = 256;
    ordered_json lanes = ordered_json::array();
    for (size_t i = 0; i < std::min(kMostLanes, lanes_.size()); ++i) {
      const LaneCounters& lane = lanes_[i];
      lanes.push_back({{"served", served_[i]},
                       {"improvised", lane.improvised},
                       {"annex_bytes", lane.annex_bytes},
                       {"fallback", lane.fallback},
                       {"blocked", lane.blocked},
                       {"unmatched", lane.unmatched},
                       {"diverged_at", lane.diverged_at},
                       {"expected", {{"shape", lane.expected_shape}, {"site", lane.expected_site}}},
                       {"seen", {{"shape", lane.seen_shape}, {"site", lane.seen_site}}}});
    }
    return lanes;
  }

 private:
  std::vector<LaneCounters> lanes_;
  std::vector<uint64_t> served_;  // by each
  Totals totals_;
};

// The process images that ran without a plan, forked children aside: they never have one.
size_t CountWithoutPlan(const LaunchResult& result) {
  return static_cast<size_t>(
      std::count_if(result.images.begin(), result.images.end(), [](const ImageEntry& image) {
        return image.forked == 0 && image.state != interpose::kImageReplayed;
      }));
}

// What those who do not read the statistics must know all the same.
void Warn(const LaunchResult& result, const Totals& sums) {
  const size_t without = CountWithoutPlan(result);
  // Of one that is alone its message says why.
  if (without > 0 && result.images.size() > 1) {
    absl::FPrintF(stderr, "reprise: %d of %d process images had no plan and ran as usual\n",
                  without, result.images.size());
  }
  if (sums.invalid_frees > 0) {
    absl::FPrintF(stderr,
                  "reprise: %d frees of what is no live block were ignored; glibc would have "
                  "aborted\n",
                  sums.invalid_frees);
  }
}

int RunReplay(const ReplayOptions& options) {
  const absl::StatusOr<Offer> offer = ReadPlans(options.plan);
  if (!offer.ok()) {
    Fail(offer.status());
    return kLauncher;
  }
  LaunchRequest request;
  request.program = options.program;
  request.flags = interpose::kSessionReplay;
  request.plans = *offer;
  request.keep_aslr = options.keep_aslr;
  if (!options.record.empty()) {
    const absl::StatusOr<std::string> directory = PrepareOutput(options.record);
    if (!directory.ok()) {
      Fail(directory.status());
      return kLauncher;
    }
    request.flags |= interpose::kSessionRecord;
    request.output = *directory;
  }
  // Found out now rather than after the program has run.
  std::ofstream stats;
  if (!options.stats.empty()) {
    stats.open(options.stats, std::ios::binary);
    if (!stats) {
      Fail(SystemError(errno, options.stats));
      return kLauncher;
    }
  }
  const absl::StatusOr<LaunchResult> result = Launch(request);
  if (!result.ok()) return FailLaunch(result.status());
  PrintMessages(*result);
  if (!options.record.empty()) FinishRecordings(request.output, *result);

  Totals sums;
  std::vector<ordered_json> images;
  for (size_t i = 0; i < result->images.size(); ++i) {
    const ImageEntry& image = result->images[i];
    if (image.state != interpose::kImageReplayed) continue;
    const absl::StatusOr<replay::PlanFile> plan =
        replay::PlanFile::Read((*offer)[std::min<size_t>(image.plan, offer->size() - 1)].path);
    if (!plan.ok()) Fail(plan.status());
    const ImageStatistics statistics(image, result->counters[i], plan.ok() ? &*plan : nullptr);
    sums.Add(statistics.totals());
    ordered_json entry = {{"executable", image.executable}};
    entry.update(statistics.totals().Json());
    entry["lanes"] = statistics.LaneDetails();
    images.push_back(std::move(entry));
  }
  Warn(*result, sums);
  if (options.stats.empty()) return result->exit_code;
  ordered_json json = sums.Json();
  if (images.empty()) json["served_percent"] = 0.0;
  json["images_without_plan"] = CountWithoutPlan(*result);
  json["images"] = images;
  stats << json.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  stats.close();
  if (!stats) {
    Fail(SystemError(errno, options.stats));
    return kLauncher;
  }
  return result->exit_code;
}

}  // namespace

void AddReplay(CLI::App& app, Run& run) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand("replay", "Run a program from the arena of a plan");
  command->add_option("plan", options->plan, "a plan file, or a folder of them")->required();
  command->add_option("--stats", options->stats, "write what was counted to this file, as JSON");
  command->add_option("--record", options->record, "record the run into this directory, too");
  command->add_flag("--keep-aslr", options->keep_aslr,
                    "leave address randomisation and PYTHONHASHSEED as they are");
  command->add_option("program", options->program, "the program and its arguments, after --")
      ->required();
  command->callback([options, &run] { run = [options] { return RunReplay(*options); }; });
}

}  // namespace reprise::cli
