// `reprise info`: what a trace, an instance or a folder of traces holds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/explained.h"
#include "cli/info_text.h"
#include "cli/instance_file.h"
#include "cli/loops.h"
#include "cli/option_scope.h"
#include "cli/periodic_csv.h"
#include "replay/plan/block_bytes.h"
#include "replay/plan/loops.h"
#include "trace/call_sites.h"
#include "trace/format.h"
#include "trace/formats/csv.h"
#include "trace/marks.h"
#include "trace/reader.h"
#include "trace/statistics.h"
#include "trace/symbols.h"

namespace reprise::cli {
namespace {

constexpr size_t kTopSites = 10;

struct InfoOptions {
  const CLI::App* command = nullptr;
  std::string path;
  int64_t period = 0;  // 0: not periodic
  bool json = false;
  bool ignore_unknown = false;
};

// An instance: its times are instants of its own, its sizes count as they are given.
absl::StatusOr<ExaminedImage> ExamineInstance(const std::string& path, bool ignore_unknown) {
  absl::StatusOr<InstanceFile> file = ReadInstance(path, ignore_unknown);
  if (!file.ok()) return file.status();
  ExaminedImage image;
  image.path = path;
  image.is_instance = true;
  image.file = *std::move(file);
  image.recording = trace::ToRecording(image.file.instance, /*names=*/true);
  image.statistics = trace::ComputeStatistics(image.file.instance, image.recording);
  const uint64_t peak = image.statistics.peak_event;
  for (const trace::Allocation& it : image.recording.allocations) {
    if (it.birth <= peak && peak < it.death && it.size > 0) image.top_buffers.push_back(it.site);
  }
  std::stable_sort(image.top_buffers.begin(), image.top_buffers.end(), [&](uint32_t a, uint32_t b) {
    return image.file.instance.buffers[a].size > image.file.instance.buffers[b].size;
  });
  if (image.top_buffers.size() > kTopSites) image.top_buffers.resize(kTopSites);
  return image;
}

// The body of a loop: the load is that of the steady state.
absl::StatusOr<ExaminedImage> ExamineLoop(const InfoOptions& options) {
  absl::StatusOr<ExaminedImage> image = ExamineInstance(options.path, options.ignore_unknown);
  if (!image.ok()) return image.status();
  const trace::CsvInstance& instance = image->file.instance;
  const planner::Instance planned = ToInstance(instance, /*keep_offsets=*/true);
  absl::Status status = CheckPeriod(instance, planned, options.period, options.path);
  if (!status.ok()) return status;
  image->period = options.period;
  image->loop = Summarize(instance, options.period, kTopSites);
  image->statistics.max_load = static_cast<uint64_t>(image->loop.max_load);
  image->statistics.requested_max_load = image->statistics.max_load;
  image->top_buffers = image->loop.top_rows;
  return image;
}

// Needs all allocations in memory, and as long as all else.
nlohmann::ordered_json FindLoops(const std::string& path, uint64_t events) {
  replay::FoundLoops found;
  if (events > kMostEventsForLoops) return DescribeLoops(found);
  const absl::StatusOr<trace::Recording> recording = trace::LoadRecording(path);
  if (!recording.ok()) return DescribeLoops(found);
  const std::vector<replay::LaneLoops> lanes =
      replay::FindLoops(*recording, replay::BlockBytes(*recording), recording->threads.size() > 1);
  for (size_t i = 0; i < lanes.size(); ++i) found.Add(*recording, i, lanes[i]);
  found.Sort();
  return DescribeLoops(found);
}

// Where the marks are is known only behind the events: these are read once more.
absl::StatusOr<std::vector<trace::MarkedThread>> CountMarks(const std::string& path,
                                                            const std::vector<trace::Mark>& marks) {
  if (marks.empty()) return std::vector<trace::MarkedThread>{};
  trace::Recording again;
  trace::MarkCounter counter(marks);
  const absl::Status status =
      trace::ReadTrace(path, again, [&](const trace::Event& event) { counter.Add(event); });
  if (!status.ok()) return status;
  return counter.Finish();
}

absl::StatusOr<ExaminedImage> Examine(const std::string& path, const InfoOptions& options) {
  const bool ignore_unknown = options.ignore_unknown;
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(path);
  if (!format.ok()) return format.status();
  if (options.period > 0) return ExamineLoop(options);
  if (*format == trace::Format::kCsv || *format == trace::Format::kJson) {
    return ExamineInstance(path, ignore_unknown);
  }
  ExaminedImage image;
  image.path = path;
  trace::StatisticsBuilder builder;
  const absl::Status status = trace::ReadTrace(
      path, image.recording, [&](const trace::Event& event) { builder.Add(event); });
  if (!status.ok()) return status;
  image.statistics = builder.Finish(image.recording.sites, kTopSites);
  image.loops = FindLoops(path, image.recording.events);
  absl::StatusOr<std::vector<trace::MarkedThread>> marks = CountMarks(path, image.recording.marks);
  if (!marks.ok()) return marks.status();
  image.marks = *std::move(marks);
  return image;
}

// What only an instance has: names, times and offsets.
nlohmann::ordered_json DescribeBuffers(const ExaminedImage& image) {
  const trace::CsvInstance& instance = image.file.instance;
  nlohmann::ordered_json json = {{"peak_time", PeakTime(image)},
                                 {"fixed_offsets", FixedOffsets(instance)},
                                 {"top_buffers", nlohmann::ordered_json::array()}};
  for (const uint32_t row : image.top_buffers) {
    const trace::CsvBuffer& it = instance.buffers[row];
    json["top_buffers"].push_back(
        {{"id", it.id}, {"bytes", it.size}, {"lower", it.lower}, {"upper", it.upper}});
    if (it.offset) json["top_buffers"].back()["offset"] = *it.offset;
  }
  if (image.period > 0) {
    json["period"] = image.period;
    json["slots"] = image.loop.slots;
    json["crossing_buffers"] = image.loop.crossing;
    json["crossing_bytes"] = image.loop.crossing_bytes;
  }
  if (image.file.is_graph) {
    json["buffers"] = image.file.tensors;  // as `plan` counts them
    json["storages"] = instance.buffers.size();
    json["operators"] = image.file.operators.size();
    json["streams"] = image.file.streams;
    if (image.file.iterations > 0) json["iterations"] = image.file.iterations;
  }
  return json;
}

nlohmann::ordered_json DescribeFrame(const trace::Recording& recording, const trace::Frame& frame,
                                     trace::Symbolizer& symbolizer) {
  const trace::Symbol symbol = trace::FindSymbol(recording, frame, symbolizer);
  nlohmann::ordered_json one = nlohmann::ordered_json::object();
  if (frame.module != trace::kNone) one["module"] = recording.modules[frame.module].path;
  one["offset"] = frame.offset;
  one["function"] = symbol.function;
  one["file"] = symbol.file;
  one["line"] = symbol.line;
  return one;
}

nlohmann::ordered_json DescribeSites(const ExaminedImage& image) {
  trace::Symbolizer symbolizer;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const trace::SitePeak& peak : image.statistics.top_sites) {
    nlohmann::ordered_json one = {{"bytes", peak.bytes}, {"blocks", peak.blocks}};
    if (peak.site != trace::kNone) {
      const trace::Site& site = image.recording.sites[peak.site];
      one.update(DescribeFrame(image.recording, {site.module, site.offset}, symbolizer));
      if (site.stack != trace::kNone) {
        one["callers"] = nlohmann::ordered_json::array();
        for (const trace::Frame& frame : trace::CallersOf(image.recording, peak.site)) {
          one["callers"].push_back(DescribeFrame(image.recording, frame, symbolizer));
        }
      }
    }
    list.push_back(std::move(one));
  }
  return list;
}

nlohmann::ordered_json Describe(const ExaminedImage& image) {
  const trace::Recording& recording = image.recording;
  const trace::Statistics& statistics = image.statistics;
  nlohmann::ordered_json json = {
      {"events", recording.events},
      {"lost_events", recording.lost_events},
      {"threads", recording.threads.size()},
      {"buffers", statistics.buffers},
      {"max_load", statistics.max_load},
      {"requested_max_load", statistics.requested_max_load},
      {"sum_bytes", statistics.sum_bytes},
      {"unpreloadable", recording.process.unpreloadable},
      {"unmatched_frees", recording.unmatched_frees},
      {"implied_frees", recording.implied_frees},
      {"peak_event", statistics.peak_event},
      {"never_freed_bytes", statistics.never_freed_bytes},
      {"complete", recording.process.complete},
      {"executable", recording.process.executable},
      {"program", trace::ProgramName(recording.process)},
      {"path", image.path},
  };
  if (recording.process.peak_rss > 0) {
    json["program_peak_rss"] = recording.process.peak_rss;
    json["explained_percent"] = ExplainedPercent(statistics.max_load, recording.process.peak_rss);
  }
  if (!recording.process.command.empty()) {
    json["command"] = trace::SplitWords(recording.process.command);
    json["environment"] = trace::SplitWords(recording.process.environment);
  }
  nlohmann::ordered_json damage = nlohmann::ordered_json::array();
  for (const trace::Damage& one : recording.damage) {
    damage.push_back({{"offset", one.offset}, {"bytes", one.bytes}, {"reason", one.reason}});
  }
  json["damage"] = std::move(damage);
  if (!image.is_instance) {
    json["loops"] = image.loops;
    json["marks"] = nlohmann::ordered_json::array();
    for (const trace::MarkedThread& it : image.marks) {
      json["marks"].push_back(
          {{"thread", it.thread}, {"marks", it.marks}, {"events", it.events}, {"bytes", it.bytes}});
    }
  }
  json["top_sites"] = image.is_instance ? nlohmann::ordered_json::array() : DescribeSites(image);
  if (image.is_instance) json.update(DescribeBuffers(image));
  return json;
}

nlohmann::ordered_json Sum(const std::vector<ExaminedImage>& images) {
  nlohmann::ordered_json sum = nlohmann::ordered_json::object();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  uint64_t explained = 0;  // bytes, of the images whose peak RSS is known
  for (const ExaminedImage& image : images) {
    if (image.recording.process.peak_rss > 0) explained += image.statistics.max_load;
    list.push_back(Describe(image));
    for (const auto& [key, value] : list.back().items()) {
      if (value.is_number_unsigned() && key != "peak_event") {
        sum[key] = sum.value(key, uint64_t{0}) + value.get<uint64_t>();
      }
    }
  }
  if (const uint64_t peak_rss = sum.value("program_peak_rss", uint64_t{0}); peak_rss > 0) {
    sum["explained_percent"] = ExplainedPercent(explained, peak_rss);
  }
  sum["images"] = std::move(list);
  return sum;
}

void ReportMissing(const ExaminedImage& image) {
  NoteDamage(image.path, image.recording);
  if (image.recording.damage.empty() && image.recording.lost_events > 0) {
    absl::FPrintF(stderr, "reprise: %s: at least %s %s missing\n", Printable(image.path),
                  Counted(image.recording.lost_events, "event"),
                  image.recording.lost_events == 1 ? "is" : "are");
  }
}

int RunInfo(const InfoOptions& options) {
  if (options.period > 0) {
    const absl::StatusOr<Kind> kind = KindOf(options.path);
    if (!kind.ok()) return Fail(kind.status());
    absl::Status status = CheckScope(*options.command, *kind);
    if (!status.ok()) return Fail(status);
  }
  const absl::StatusOr<std::vector<std::string>> paths = trace::FindTraces(options.path);
  if (!paths.ok()) return Fail(paths.status());
  std::vector<ExaminedImage> images;
  int code = kDone;
  for (const std::string& path : *paths) {
    absl::StatusOr<ExaminedImage> image = Examine(path, options);
    if (image.ok()) {
      images.push_back(*std::move(image));
    } else {
      code = Fail(image.status());
    }
  }
  if (images.empty()) return code;
  if (options.json) {
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(options.path, ignored);
    PrintJson(folder ? Sum(images) : Describe(images[0]));
  } else {
    for (size_t i = 0; i < images.size(); ++i) {
      if (i > 0) std::printf("\n\n");
      PrintExamined(images[i]);
    }
  }
  for (const ExaminedImage& image : images) ReportMissing(image);
  return code;
}

}  // namespace

void AddInfo(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("info", "Say what a trace or an instance holds");
  auto options = std::make_shared<InfoOptions>();
  options->command = command;
  command
      ->add_option("input", options->path,
                   "a trace, an instance, or a folder of traces; -: standard input")
      ->required();
  AddPeriod(command, options->period);
  command->add_flag("--json", options->json, "print one JSON object");
  AddIgnoreUnknown(command, options->ignore_unknown);
  command->callback([&run, options] { run = [options] { return RunInfo(*options); }; });
}

}  // namespace reprise::cli
