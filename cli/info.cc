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

// What is said of one trace or instance.
struct ExaminedImage {
  std::string path;
  trace::Recording recording;  // without its allocations
  trace::Statistics statistics;
  bool is_instance = false;
  InstanceFile file;                    // of an instance
  std::vector<uint32_t> top_buffers{};  // rows of an instance: live at the peak, largest first
  int64_t period = 0;                   // of a periodic instance
  LoopSummary loop{};
  nlohmann::ordered_json loops = nlohmann::ordered_json::array();  // cli/loops.h
  std::vector<trace::MarkedThread> marks{};
};

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
constexpr uint64_t kMostEventsForLoops = 2'000'000;
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

int64_t PeakTime(const ExaminedImage& image) {
  if (image.period > 0) return image.loop.peak_time;
  return image.recording.first_instant +
         static_cast<int64_t>(trace::TimeOf(image.recording, image.statistics.peak_event));
}

int64_t FixedOffsets(const trace::CsvInstance& instance) {
  return std::count_if(instance.buffers.begin(), instance.buffers.end(),
                       [](const trace::CsvBuffer& it) { return it.offset.has_value(); });
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

// How much of the program's memory the recording is about.
void PrintExplained(const ExaminedImage& image) {
  const trace::Process& process = image.recording.process;
  if (process.peak_rss == 0) return;
  const double percent = ExplainedPercent(image.statistics.max_load, process.peak_rss);
  PrintLine("program's peak RSS",
            absl::StrFormat("%u (%s), the recorder included", process.peak_rss,
                            HumanBytes(static_cast<double>(process.peak_rss))));
  PrintLine(
      "explained by malloc",
      absl::StrFormat("%.1f %% of it%s", percent,
                      percent < 50 ? "; the rest: code, stacks, mmap, other allocators" : ""));
  const std::string advice = RuntimeAdvice(process.executable);
  if (percent < 50 && !advice.empty()) PrintLine("", advice);
}

void PrintSites(const ExaminedImage& image) {
  if (image.statistics.top_sites.empty()) return;
  std::printf("\nCall sites with most bytes at the peak\n");
  constexpr size_t kMostCallers = 4, kNameColumn = 27, kCallerColumn = 31;
  trace::Symbolizer symbolizer;
  std::vector<trace::CallSiteText> sites;
  for (const trace::SitePeak& it : image.statistics.top_sites) {
    sites.push_back(trace::DescribeCallSite(image.recording, it.site, &symbolizer));
  }
  const std::vector<std::string> lines = trace::DistinctLines(sites, trace::Detail::kPlace);
  for (size_t i = 0; i < sites.size(); ++i) {
    const trace::SitePeak& it = image.statistics.top_sites[i];
    std::printf("  %10s in %8llu  %s\n", HumanBytes(static_cast<double>(it.bytes)).c_str(),
                static_cast<unsigned long long>(it.blocks),
                LastColumn(lines[i], kNameColumn).c_str());
    const std::vector<std::string>& callers = sites[i].callers;
    for (size_t k = 0; k < std::min(callers.size(), kMostCallers); ++k) {
      std::printf("%27s<-  %s\n", "", LastColumn(callers[k], kCallerColumn).c_str());
    }
    if (callers.size() > kMostCallers) {
      std::printf("%27s<-  %zu more\n", "", callers.size() - kMostCallers);
    }
  }
}

void PrintBuffers(const ExaminedImage& image) {
  if (image.top_buffers.empty()) return;
  const bool offsets = image.file.instance.has_offsets;
  std::printf("\nBuffers with most bytes at the peak\n  %10s  %10s – %-10s%s  %s\n", "", "lower",
              "upper", offsets ? "        offset" : "", "id");
  for (const uint32_t row : image.top_buffers) {
    const trace::CsvBuffer& it = image.file.instance.buffers[row];
    const std::string offset =
        !offsets ? "" : absl::StrFormat("  %12s", it.offset ? absl::StrCat(*it.offset) : "free");
    std::printf("  %10s  %10lld – %-10lld%s  %s\n",
                HumanBytes(static_cast<double>(it.size)).c_str(), static_cast<long long>(it.lower),
                static_cast<long long>(it.upper), offset.c_str(),
                LastColumn(Printable(it.id), offsets ? 53 : 39).c_str());
  }
}

// Beside what is said of every input.
void PrintInstance(const ExaminedImage& image) {
  const InstanceFile& file = image.file;
  if (file.is_graph) {
    PrintLine("operators",
              absl::StrCat(file.operators.size(), " in ", Counted(file.streams, "stream"),
                           file.iterations > 0 ? ": a loop, shown for " : "",
                           file.iterations > 0 ? Counted(file.iterations, "iteration") : ""));
    PrintLine("buffers", absl::StrCat(Counted(file.tensors, "tensor"),
                                      file.iterations > 0 ? " in the body, " : ", ",
                                      image.statistics.buffers, " with memory of their own",
                                      file.iterations > 0 ? " in all iterations" : ""));
  } else {
    PrintLine("buffers", absl::StrCat(image.statistics.buffers));
  }
  if (image.period > 0) {
    PrintLine("period", absl::StrCat(image.period, ", ", Counted(image.loop.slots, "slot")));
    PrintLine("across its end",
              absl::StrFormat("%s (%s)", Counted(image.loop.crossing, "buffer"),
                              HumanBytes(static_cast<double>(image.loop.crossing_bytes))));
  }
  if (file.instance.has_offsets) {
    PrintLine("fixed offsets", absl::StrCat(FixedOffsets(file.instance)));
  }
}

// The executable, and the name that it was started by where that is another.
std::string DescribeProgram(const trace::Process& process) {
  const std::string file = process.executable.substr(process.executable.rfind('/') + 1);
  const std::string name = trace::ProgramName(process);
  return name == file ? process.executable : absl::StrCat(name, " (", process.executable, ")");
}

// Beside what is said of every input.
void PrintRecording(const ExaminedImage& image) {
  const trace::Recording& recording = image.recording;
  if (!recording.process.executable.empty()) {
    PrintLine("program", DescribeProgram(recording.process));
  }
  if (!recording.process.command.empty()) {
    PrintLine("command", absl::StrJoin(trace::SplitWords(recording.process.command), " "));
  }
  PrintLine("ended",
            recording.process.complete ? "in the ordinary way" : "killed, or still running");
  PrintLine("events", absl::StrCat(recording.events));
  PrintLine("lost events", absl::StrCat(recording.lost_events));
  PrintLine("threads", absl::StrCat(recording.threads.size()));
  PrintLine("buffers", absl::StrCat(image.statistics.buffers));
  PrintLine("never freed",
            absl::StrFormat("%u (%s)", image.statistics.buffers - image.statistics.frees,
                            HumanBytes(static_cast<double>(image.statistics.never_freed_bytes))));
}

void PrintMarks(const ExaminedImage& image) {
  for (const trace::MarkedThread& it : image.marks) {
    std::string line = absl::StrCat(it.marks);
    if (it.thread > 0) absl::StrAppend(&line, " in thread ", it.thread);
    if (it.marks > 1) {
      absl::StrAppend(&line, ", ", Counted(it.events, "event"), " (",
                      HumanBytes(static_cast<double>(it.bytes)), ") apart");
    }
    PrintLine("marks", line);
  }
}

void PrintLoops(const ExaminedImage& image) {
  for (const std::string& line : LoopLines(image.loops)) PrintLine("loop", line);
  if (image.recording.events > kMostEventsForLoops) {
    PrintLine("loop", "not looked for in so many events; reprise plan does");
  }
}

void Print(const ExaminedImage& image) {
  const trace::Recording& recording = image.recording;
  const trace::Statistics& statistics = image.statistics;
  const char* const kind = image.file.is_graph ? "graph" : image.is_instance ? "instance" : "trace";
  PrintLine(kind, image.path);
  if (image.is_instance) {
    PrintInstance(image);
  } else {
    PrintRecording(image);
  }
  PrintLine("max load",
            absl::StrFormat("%u (%s), at %s", statistics.max_load,
                            HumanBytes(static_cast<double>(statistics.max_load)),
                            image.is_instance ? absl::StrCat("time ", PeakTime(image))
                                              : absl::StrCat("event ", statistics.peak_event)));
  PrintLine("requested max load", absl::StrCat(statistics.requested_max_load));
  PrintLine("sum of sizes", absl::StrFormat("%u (%s)", statistics.sum_bytes,
                                            HumanBytes(static_cast<double>(statistics.sum_bytes))));
  PrintExplained(image);
  if (recording.unmatched_frees > 0) {
    PrintLine("unmatched frees", absl::StrCat(recording.unmatched_frees));
  }
  if (recording.implied_frees > 0) {
    PrintLine("implied frees", absl::StrCat(recording.implied_frees));
  }
  if (recording.process.unpreloadable > 0) {
    PrintLine("not preloadable",
              absl::StrCat(recording.process.unpreloadable,
                           recording.process.unpreloadable == 1 ? " child" : " children"));
  }
  PrintMarks(image);
  PrintLoops(image);
  PrintHistogram("Sizes requested", statistics.sizes, true);
  PrintHistogram(image.is_instance ? "Lifetimes" : "Lifetimes, in events", statistics.lifetimes,
                 false);
  if (image.is_instance) {
    PrintBuffers(image);
  } else {
    PrintSites(image);
  }
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
      Print(images[i]);
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
