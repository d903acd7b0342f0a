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
#include "trace/format.h"
#include "trace/formats/csv.h"
#include "trace/reader.h"
#include "trace/statistics.h"
#include "trace/symbols.h"

namespace reprise::cli {
namespace {

constexpr size_t kTopSites = 10;

// What is said of one trace or instance.
struct Image {
  std::string path;
  trace::Recording recording;  // without its allocations
  trace::Statistics statistics;
  bool instance = false;
};

struct InfoOptions {
  std::string path;
  bool json = false;
  bool ignore_unknown = false;
};

// An instance: its times are instants of its own, its sizes count as they are given.
absl::StatusOr<Image> ExamineInstance(const std::string& path, bool ignore_unknown) {
  const absl::StatusOr<trace::CsvInstance> instance = trace::ReadCsv(path, ignore_unknown);
  if (!instance.ok()) return instance.status();
  WarnOfIgnored(path, instance->ignored);
  Image image;
  image.path = path;
  image.instance = true;
  image.recording = trace::ToRecording(*instance);
  image.statistics = trace::ComputeStatistics(*instance, image.recording);
  return image;
}

absl::StatusOr<Image> Examine(const std::string& path, bool ignore_unknown) {
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(path);
  if (!format.ok()) return format.status();
  if (*format == trace::Format::kCsv) return ExamineInstance(path, ignore_unknown);
  Image image;
  image.path = path;
  trace::StatisticsBuilder builder;
  const absl::Status status = trace::ReadTrace(
      path, image.recording, [&](const trace::Event& event) { builder.Add(event); });
  if (!status.ok()) return status;
  image.statistics = builder.Finish(image.recording.sites, kTopSites);
  return image;
}

trace::Symbol SymbolOf(const trace::Recording& recording, uint32_t site_index,
                       trace::Symbolizer& symbolizer) {
  if (site_index == trace::kNone) return {};
  const trace::Site& site = recording.sites[site_index];
  return trace::FindSymbol(recording, {site.module, site.offset}, symbolizer);
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

nlohmann::ordered_json DescribeSites(const Image& image) {
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

nlohmann::ordered_json Describe(const Image& image) {
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
      {"path", image.path},
  };
  if (!recording.process.command.empty()) {
    json["command"] = trace::SplitWords(recording.process.command);
    json["environment"] = trace::SplitWords(recording.process.environment);
  }
  nlohmann::ordered_json damage = nlohmann::ordered_json::array();
  for (const trace::Damage& one : recording.damage) {
    damage.push_back({{"offset", one.offset}, {"bytes", one.bytes}, {"reason", one.reason}});
  }
  json["damage"] = std::move(damage);
  json["top_sites"] = DescribeSites(image);
  return json;
}

nlohmann::ordered_json Sum(const std::vector<Image>& images) {
  nlohmann::ordered_json sum = nlohmann::ordered_json::object();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Image& image : images) {
    list.push_back(Describe(image));
    for (const auto& [key, value] : list.back().items()) {
      if (value.is_number_unsigned() && key != "peak_event") {
        sum[key] = sum.value(key, uint64_t{0}) + value.get<uint64_t>();
      }
    }
  }
  sum["images"] = std::move(list);
  return sum;
}

std::string Range(size_t entry, bool bytes) {
  if (entry == 0) return "0";
  const double low = entry == 1 ? 1 : static_cast<double>(uint64_t{1} << (entry - 1));
  return bytes ? HumanBytes(low) : absl::StrFormat("%.0f", low);
}

void PrintHistogram(const char* title, const trace::Histogram& histogram, bool bytes) {
  const uint64_t highest = *std::max_element(histogram.begin(), histogram.end());
  if (highest == 0) return;
  std::printf("\n%s\n", title);
  for (size_t i = 0; i < histogram.size(); ++i) {
    if (histogram[i] == 0) continue;
    constexpr uint64_t kBarWidth = 40;
    const auto bar = static_cast<size_t>((static_cast<double>(histogram[i]) * kBarWidth) /
                                         static_cast<double>(highest));
    std::printf("  >= %-10s %12llu  %s\n", Range(i, bytes).c_str(),
                static_cast<unsigned long long>(histogram[i]), std::string(bar, '#').c_str());
  }
}

void PrintLine(const char* name, const std::string& value) {
  std::printf("%-20s %s\n", name, Printable(value).c_str());
}

void Print(const Image& image) {
  const trace::Recording& recording = image.recording;
  const trace::Statistics& statistics = image.statistics;
  PrintLine(image.instance ? "instance" : "trace", image.path);
  if (!recording.process.executable.empty()) {
    PrintLine("program", recording.process.executable);
  }
  if (!recording.process.command.empty()) {
    PrintLine("command", absl::StrJoin(trace::SplitWords(recording.process.command), " "));
  }
  PrintLine("ended",
            recording.process.complete ? "in the ordinary way" : "killed, or still running");
  PrintLine("events", absl::StrCat(recording.events));
  PrintLine("lost events", absl::StrCat(recording.lost_events));
  PrintLine("threads", absl::StrCat(recording.threads.size()));
  PrintLine("buffers", absl::StrCat(statistics.buffers));
  PrintLine("never freed",
            absl::StrFormat("%u (%s)", statistics.buffers - statistics.frees,
                            HumanBytes(static_cast<double>(statistics.never_freed_bytes))));
  PrintLine("max load", absl::StrFormat("%u (%s), at event %u", statistics.max_load,
                                        HumanBytes(static_cast<double>(statistics.max_load)),
                                        statistics.peak_event));
  PrintLine("requested max load", absl::StrCat(statistics.requested_max_load));
  PrintLine("sum of sizes", absl::StrFormat("%u (%s)", statistics.sum_bytes,
                                            HumanBytes(static_cast<double>(statistics.sum_bytes))));
  if (recording.unmatched_frees > 0) {
    PrintLine("unmatched frees", absl::StrCat(recording.unmatched_frees));
  }
  if (recording.implied_frees > 0) {
    PrintLine("implied frees", absl::StrCat(recording.implied_frees));
  }
  if (recording.process.unpreloadable > 0) {
    PrintLine("not preloadable", absl::StrCat(recording.process.unpreloadable, " children"));
  }
  PrintHistogram("Sizes requested", statistics.sizes, true);
  PrintHistogram("Lifetimes, in events", statistics.lifetimes, false);
  if (!statistics.top_sites.empty()) std::printf("\nCall sites with most bytes at the peak\n");
  trace::Symbolizer symbolizer;
  for (const trace::SitePeak& site : statistics.top_sites) {
    const trace::Symbol symbol = SymbolOf(recording, site.site, symbolizer);
    std::printf("  %10s in %8llu  %s\n", HumanBytes(static_cast<double>(site.bytes)).c_str(),
                static_cast<unsigned long long>(site.blocks),
                trace::DescribeSite(recording, site.site, symbol).c_str());
    for (const trace::Frame& frame : trace::CallersOf(recording, site.site)) {
      const trace::Symbol caller = trace::FindSymbol(recording, frame, symbolizer);
      std::printf("%28s%s\n", "", trace::DescribeFrame(recording, frame, caller).c_str());
    }
  }
}

// One line per stretch that could not be read; true when there was any.
bool ReportDamage(const Image& image) {
  PrintDamage(image.path, image.recording);
  if (image.recording.lost_events > 0) {
    absl::FPrintF(stderr, "reprise: %s: at least %s %s missing\n", Printable(image.path),
                  Counted(image.recording.lost_events, "event"),
                  image.recording.lost_events == 1 ? "is" : "are");
  }
  return !image.recording.damage.empty();
}

int RunInfo(const InfoOptions& options) {
  const absl::StatusOr<std::vector<std::string>> paths = trace::FindTraces(options.path);
  if (!paths.ok()) return Fail(paths.status());
  std::vector<Image> images;
  int code = kDone;
  for (const std::string& path : *paths) {
    absl::StatusOr<Image> image = Examine(path, options.ignore_unknown);
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
      Print(images[i]);
    }
  }
  for (const Image& image : images) {
    if (ReportDamage(image)) code = kBadInput;
  }
  return code;
}

}  // namespace

void AddInfo(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("info", "Say what a trace or an instance holds");
  auto options = std::make_shared<InfoOptions>();
  command
      ->add_option("input", options->path,
                   "a trace, an instance, or a folder of traces; -: standard input")
      ->required();
  command->add_flag("--json", options->json, "print one JSON object");
  AddIgnoreUnknown(command, options->ignore_unknown);
  command->callback([&run, options] { run = [options] { return RunInfo(*options); }; });
}

}  // namespace reprise::cli
