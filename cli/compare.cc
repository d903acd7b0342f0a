// `reprise compare`: drives each allocator, and a plan, with a recording.
#include "replay/compare.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "replay/plan_file.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;
using replay::Measurement;

struct Settings {
  std::string trace;
  std::string plan;
  std::string allocators = std::string(replay::kUsualAllocators);
  std::string order = "recorded";
  bool no_touch = false;
  bool json = false;
};

// An allocator without a result, and why: not installed, or it failed.
struct Missing {
  std::string allocator;
  absl::Status why;
};

// One recording, or the sum over all images of a directory.
struct Comparison {
  std::string trace;
  int64_t max_load = 0;  // bytes
  std::vector<Measurement> results;
};

ordered_json ToJson(const Measurement& it) {
  return {{"allocator", it.allocator},
          {"version", it.version},
          {"library", it.object},
          {"peak_rss", it.peak_rss},
          {"peak_rss_absolute", it.peak_rss_absolute},
          {"footprint", it.footprint},
          {"address_span", it.address_span},
          {"fragmentation", it.fragmentation},
          {"fragmentation_percent", it.fragmentation_percent},
          {"seconds", it.seconds},
          {"cpu_seconds", it.cpu_seconds},
          {"wall_seconds", it.wall_seconds},
          {"wait_seconds", it.wait_seconds},
          {"waits", it.waits},
          {"page_faults", it.page_faults},
          {"operations", it.operations},
          {"nanoseconds_per_operation",
           it.operations > 0 ? 1e9 * it.seconds / static_cast<double>(it.operations) : 0.0},
          {"failures", it.failures},
          {"threads", it.threads},
          {"threads_shared", it.threads_shared}};
}

ordered_json ToJson(const Comparison& comparison) {
  ordered_json json;
  if (!comparison.trace.empty()) json["trace"] = comparison.trace;
  json["max_load"] = comparison.max_load;
  json["results"] = ordered_json::array();
  for (const Measurement& result : comparison.results) json["results"].push_back(ToJson(result));
  return json;
}

void AddTo(Measurement& sum, const Measurement& it) {
  sum.peak_rss += it.peak_rss;
  sum.peak_rss_absolute += it.peak_rss_absolute;
  sum.footprint += it.footprint;
  sum.address_span += it.address_span;
  sum.fragmentation += it.fragmentation;
  sum.seconds += it.seconds;
  sum.cpu_seconds += it.cpu_seconds;
  sum.wall_seconds += it.wall_seconds;
  sum.wait_seconds += it.wait_seconds;
  sum.waits += it.waits;
  sum.page_faults += it.page_faults;
  sum.operations += it.operations;
  sum.failures += it.failures;
  sum.threads += it.threads;
  sum.threads_shared += it.threads_shared;
}

// Over all images, of the allocators that have a result for each of them.
Comparison Sum(const std::vector<Comparison>& images) {
  Comparison sum;
  for (const Comparison& image : images) sum.max_load += image.max_load;
  for (const Measurement& first : images.front().results) {
    Measurement total = {
        .allocator = first.allocator, .version = first.version, .object = first.object};
    size_t found = 0;
    for (const Comparison& image : images) {
      for (const Measurement& result : image.results) {
        if (result.allocator != first.allocator) continue;
        AddTo(total, result);
        ++found;
      }
    }
    if (found != images.size()) continue;
    if (sum.max_load > 0) {
      total.fragmentation_percent =
          100.0 * static_cast<double>(total.fragmentation) / static_cast<double>(sum.max_load);
    }
    sum.results.push_back(total);
  }
  return sum;
}

void PrintTable(const Comparison& comparison) {
  absl::PrintF("max load %s\n", HumanBytes(static_cast<double>(comparison.max_load)));
  absl::PrintF("%-20s %12s %12s %13s %10s %8s %12s\n", "allocator", "peak RSS", "footprint",
               "fragmentation", "time", "ns/op", "page faults");
  for (const Measurement& it : comparison.results) {
    absl::PrintF("%-20s %12s %12s %11.1f %% %8.3f s %8.1f %12d\n",
                 absl::StrCat(it.allocator, it.version.empty() ? "" : " ", it.version),
                 HumanBytes(static_cast<double>(it.peak_rss)),
                 HumanBytes(static_cast<double>(it.footprint)), it.fragmentation_percent,
                 it.seconds,
                 it.operations > 0 ? 1e9 * it.seconds / static_cast<double>(it.operations) : 0.0,
                 it.page_faults);
  }
}

// What a reader of the numbers has to know.
void Explain(const Measurement& it) {
  if (it.failures > 0) spdlog::warn("{} refused {} allocations", it.allocator, it.failures);
  if (it.threads_shared > 0) {
    spdlog::warn("{} threads are alive at once; {} of the recorded threads share one",
                 it.threads_at_once, it.threads_shared);
  }
}

// Where the plan puts the allocations of `recording`, which was read from `trace`.
absl::StatusOr<replay::Placement> LoadPlacement(const std::string& plan, const std::string& trace,
                                                const trace::Recording& recording) {
  const std::string path = replay::PlanFor(plan, trace);
  const absl::StatusOr<replay::PlanFile> file = replay::PlanFile::Read(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<int64_t>> offsets = replay::PlanOffsets(*file, recording);
  if (!offsets.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", offsets.status().message()));
  }
  return replay::Placement{*std::move(offsets), static_cast<int64_t>(file->header().arena_bytes)};
}

// Measures one recording. An allocator that fails goes to `failed`.
absl::StatusOr<Comparison> CompareOne(const std::string& path, const Settings& settings,
                                      const std::vector<replay::Allocator>& allocators,
                                      const replay::CompareOptions& options,
                                      std::vector<Missing>& failed) {
  absl::StatusOr<trace::Recording> recording = trace::LoadRecording(path);
  if (!recording.ok()) return recording.status();
  Comparison comparison = {path, replay::MaxLoad(*recording), {}};
  const auto take = [&](const std::string& name, absl::StatusOr<Measurement> result) {
    if (absl::IsAborted(result.status())) failed.push_back({name, result.status()});
    if (!result.ok()) return absl::IsAborted(result.status());
    Explain(*result);
    comparison.results.push_back(*std::move(result));
    return true;
  };
  std::optional<replay::Placement> placement;
  if (!settings.plan.empty()) {
    absl::StatusOr<replay::Placement> loaded = LoadPlacement(settings.plan, path, *recording);
    if (!loaded.ok()) return loaded.status();
    placement = *std::move(loaded);
  }
  for (const replay::Allocator& allocator : allocators) {
    absl::StatusOr<Measurement> result = replay::MeasureAllocator(*recording, allocator, options);
    if (!take(allocator.name, result)) return result.status();
  }
  if (!placement.has_value()) return comparison;
  absl::StatusOr<Measurement> result = replay::MeasurePlan(
      *recording, std::move(placement->offsets), placement->arena_bytes, options);
  if (!take("plan", result)) return result.status();
  return comparison;
}

ordered_json ToJson(const std::vector<Missing>& missing) {
  ordered_json json = ordered_json::array();
  for (const Missing& it : missing) {
    json.push_back({{"allocator", it.allocator}, {"reason", std::string(it.why.message())}});
  }
  return json;
}

absl::StatusOr<int> Compare(const Settings& settings) {
  absl::StatusOr<std::vector<replay::Allocator>> wanted =
      replay::ParseAllocators(settings.allocators);
  if (!wanted.ok()) return absl::FailedPreconditionError(wanted.status().message());
  replay::CompareOptions options;
  options.touch = !settings.no_touch;
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
      spdlog::warn("skipped: {}", std::string(status.message()));
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
  for (const Missing& it : failed) spdlog::error("{}", std::string(it.why.message()));

  const bool folder = images.size() > 1 || images.front().trace != settings.trace;
  const Comparison whole = folder ? Sum(images) : images.front();
  if (settings.json) {
    ordered_json json = ToJson(whole);
    if (!skipped.empty()) json["skipped"] = ToJson(skipped);
    if (!failed.empty()) json["failed"] = ToJson(failed);
    if (folder) {
      json["images"] = ordered_json::array();
      for (const Comparison& image : images) json["images"].push_back(ToJson(image));
    }
    PrintJson(json);
  } else {
    if (folder && images.size() > 1) absl::PrintF("%d process images, summed: ", images.size());
    PrintTable(whole);
  }
  return failed.empty() ? kDone : kNo;
}

}  // namespace

void AddCompare(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("compare", "drive each real allocator, and a plan, with a recording");
  const auto settings = std::make_shared<Settings>();
  command->add_option("TRACE", settings->trace, "a trace, or a directory of them")->required();
  command->add_option("--plan", settings->plan, "measure this plan as well");
  command
      ->add_option("--allocators", settings->allocators,
                   "comma-separated: glibc, jemalloc, mimalloc, tcmalloc, NAME=LIBRARY.so")
      ->capture_default_str();
  command
      ->add_option("--order", settings->order,
                   "recorded: one thread at a time, as it was; dependencies: threads contend, "
                   "only a free waits for its allocation")
      ->check(CLI::IsMember({"recorded", "dependencies"}))
      ->capture_default_str();
  command->add_flag("--no-touch", settings->no_touch, "do not write to the blocks");
  command->add_flag("--json", settings->json, "one JSON object on standard output");
  command->callback([settings, &run] {
    run = [settings] {
      const absl::StatusOr<int> code = Compare(*settings);
      return code.ok() ? *code : Fail(code.status());
    };
  });
}

}  // namespace reprise::cli
