#include "cli/convert_export.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/report_input.h"
#include "trace/formats/export.h"
#include "trace/formats/mondrian.h"

namespace reprise::cli {
namespace {

constexpr size_t kLoadPoints = 10'000;

// A field of a CSV file; lines cannot hold line ends.
std::string Quoted(const std::string& text) {
  const std::string line = absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}});
  const bool plain = line.find_first_of(",\"#") == std::string::npos && !line.empty() &&
                     line.front() != ' ' && line.back() != ' ';
  return plain ? line : absl::StrCat("\"", absl::StrReplaceAll(line, {{"\"", "\"\""}}), "\"");
}

}  // namespace

absl::Status WriteExport(ExportFormat format, const Source& input, const std::string& output,
                         ReadFunction read, trace::Recording& tables) {
  trace::StatisticsBuilder statistics;
  trace::LoadPoints load(kLoadPoints);
  uint64_t bytes = 0, blocks = 0;
  trace::Recording first;
  absl::Status status = read(input, first, [&](const trace::Event& event) {
    statistics.Add(event);
    if (event.kind == trace::EventKind::kAllocate) {
      bytes += event.size;
      ++blocks;
    } else if (event.kind == trace::EventKind::kFree ||
               event.kind == trace::EventKind::kImpliedFree) {
      bytes -= event.size;
      --blocks;
    } else {
      return;
    }
    load.Add({trace::TimeOf(first, event.index), bytes, blocks});
  });
  if (!status.ok()) return status;
  trace::Profile profile;
  profile.statistics = statistics.Finish(first.sites, 0);
  profile.load = load.points();
  trace::SiteAccountsBuilder accounts(tables, profile.statistics.peak_event);
  status = read(input, tables, [&](const trace::Event& event) { accounts.Add(event); });
  if (!status.ok()) return status;
  profile.recording = &tables;
  profile.accounts = accounts.Finish();
  trace::Symbolizer symbolizer;
  Progress progress;
  for (const trace::SiteAccount& it : profile.accounts) {
    progress.Count("names of call sites", profile.symbols.size(), profile.accounts.size());
    const auto named = [&](const trace::Frame& frame) {
      return trace::NamedFrame{frame, trace::FindSymbol(tables, frame, symbolizer)};
    };
    profile.symbols.push_back(
        it.site == trace::kNone
            ? trace::Symbol()
            : named({tables.sites[it.site].module, tables.sites[it.site].offset}).symbol);
    std::vector<trace::NamedFrame>& callers = profile.callers.emplace_back();
    for (const trace::Frame& frame : trace::CallersOf(tables, it.site)) {
      callers.push_back(named(frame));
    }
  }
  progress.Clear();
  base::AtomicFile file(output);
  if (!file.ok()) return Finish(file);
  const auto write = [&](const std::string& text) { file.Write(text); };
  switch (format) {
    case ExportFormat::kPerfetto:
      trace::WritePerfetto(profile, write);
      break;
    case ExportFormat::kCollapsed:
      trace::WriteCollapsed(profile, write);
      break;
    case ExportFormat::kSpeedscope:
      trace::WriteSpeedscope(profile, write);
      break;
    case ExportFormat::kDhat:
      trace::WriteDhat(profile, write);
      break;
    case ExportFormat::kSummary:
      trace::WriteSummary(profile, write);
      break;
  }
  return Finish(file);
}

absl::Status WritePlacedCsv(const trace::CsvInstance& instance, const std::string& output) {
  base::AtomicFile file(output);
  if (!file.ok()) return Finish(file);
  file.Write("id,lower,upper,size,offset\n");
  for (const trace::CsvBuffer& it : instance.buffers) {
    file.Write(absl::StrCat(Quoted(it.id), ",", it.lower, ",", it.upper, ",", it.size, ",",
                            it.offset.value_or(0), "\n"));
  }
  return Finish(file);
}

absl::Status WriteGraphAsCsv(const InstanceFile& graph, const std::string& input,
                             const std::string& output) {
  if (graph.streams > 1 || graph.groups > 0) {
    absl::FPrintF(stderr, "reprise: %s: CSV holds one order of execution: left out are %s and %s\n",
                  Printable(input), Counted(graph.streams, "stream"),
                  Counted(graph.groups, "group"));
  }
  const trace::CsvInstance& instance = graph.instance;
  base::AtomicFile file(output);
  if (!file.ok()) return Finish(file);
  file.Write(absl::StrCat("id,lower,upper,size", instance.has_alignments ? ",alignment" : "",
                          instance.has_offsets ? ",offset" : "", "\n"));
  for (const trace::CsvBuffer& it : instance.buffers) {
    std::string row = absl::StrCat(Quoted(it.id), ",", it.lower, ",", it.upper, ",", it.size);
    if (instance.has_alignments) absl::StrAppend(&row, ",", it.alignment);
    if (instance.has_offsets) absl::StrAppend(&row, ",", it.offset ? absl::StrCat(*it.offset) : "");
    file.Write(row + "\n");
  }
  return Finish(file);
}

absl::Status WriteInstanceAsMondrian(const trace::CsvInstance& instance, const std::string& input,
                                     const std::string& output) {
  int64_t end = 0;
  for (const trace::CsvBuffer& it : instance.buffers) {
    if (!it.offset) {
      return absl::InvalidArgumentError(
          absl::StrCat(input, ":", it.line, ": expected an offset, found none; plan it first"));
    }
    end = std::max(end, *it.offset + it.size);
  }
  base::AtomicFile file(output);
  if (!file.ok()) return Finish(file);
  trace::WriteMondrian(
      FileName(input), end, instance.buffers.size(),
      [&](size_t i) {
        const trace::CsvBuffer& it = instance.buffers[i];
        return trace::MondrianBuffer{it.id, it.lower, it.upper, it.size, *it.offset};
      },
      [&](const std::string& text) { file.Write(text); });
  return Finish(file);
}

absl::Status WriteTraceAsMondrian(const Source& input, const std::string& plan,
                                  const std::string& output) {
  if (plan.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(input.path, ": this format shows where blocks lie: give a plan with --plan"));
  }
  const absl::StatusOr<Subject> subject = LoadSubject(input.path, input.ignore_unknown);
  if (!subject.ok()) return subject.status();
  const absl::StatusOr<HeapMap> map = LoadPlanMap(*subject, plan);
  if (!map.ok()) return map.status();
  const trace::Recording& recording = subject->recording;
  std::vector<uint32_t> placed;
  for (uint32_t i = 0; i < map->offsets.size(); ++i) {
    if (map->offsets[i] != HeapMap::kNowhere) placed.push_back(i);
  }
  base::AtomicFile file(output);
  if (!file.ok()) return Finish(file);
  trace::WriteMondrian(
      subject->name, map->height, placed.size(),
      [&](size_t i) {
        const trace::Allocation& it = recording.allocations[placed[i]];
        const uint64_t death = it.death == trace::kNever ? recording.events : it.death;
        return trace::MondrianBuffer{
            absl::StrCat(placed[i]), static_cast<int64_t>(it.birth), static_cast<int64_t>(death),
            static_cast<int64_t>(trace::BlockBytes(it.size)), map->offsets[placed[i]]};
      },
      [&](const std::string& text) { file.Write(text); });
  return Finish(file);
}

}  // namespace reprise::cli
