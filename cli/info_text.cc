#include "cli/info_text.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/explained.h"
#include "cli/loops.h"
#include "trace/call_sites.h"
#include "trace/symbols.h"

namespace reprise::cli {
namespace {

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

}  // namespace

int64_t PeakTime(const ExaminedImage& image) {
  if (image.period > 0) return image.loop.peak_time;
  return image.recording.first_instant +
         static_cast<int64_t>(trace::TimeOf(image.recording, image.statistics.peak_event));
}

int64_t FixedOffsets(const trace::CsvInstance& instance) {
  return std::count_if(instance.buffers.begin(), instance.buffers.end(),
                       [](const trace::CsvBuffer& it) { return it.offset.has_value(); });
}

void PrintExamined(const ExaminedImage& image) {
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

}  // namespace reprise::cli
