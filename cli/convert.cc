// `reprise convert`: from one format to another. A format is one row of the table below.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/convert_export.h"
#include "cli/instance_file.h"
#include "cli/option_scope.h"
#include "trace/format.h"
#include "trace/formats/android.h"
#include "trace/formats/csv.h"
#include "trace/formats/mondrian.h"
#include "trace/reader.h"
#include "trace/statistics.h"
#include "trace/trace_writer.h"

namespace reprise::cli {
namespace {

struct ConvertOptions {
  const CLI::App* command = nullptr;
  Source input;
  std::string output;
  std::string from, to;  // names of formats; empty: told from the content, from the file name
  std::string plan;      // where blocks lie, for formats that show it
  bool anonymize = false;
};

using OnEvent = absl::FunctionRef<void(const trace::Event&)>;

// Reads the input with `read`, more than once if it must, and writes the output. `tables` gets what
// the input holds beside its events.
using WriteFunction = absl::Status (*)(const ConvertOptions& options, ReadFunction read,
                                       trace::Recording& tables);

absl::StatusOr<trace::CsvInstance> LoadCsv(const Source& source) {
  absl::StatusOr<trace::CsvInstance> instance = trace::ReadCsv(source.path, source.ignore_unknown);
  if (instance.ok()) WarnOfIgnored(source.path, instance->ignored);
  return instance;
}

absl::StatusOr<trace::CsvInstance> LoadMondrian(const Source& source) {
  absl::StatusOr<trace::CsvInstance> instance = trace::ReadMondrian(
      source.path, {.segment = source.segment, .ignore_unknown = source.ignore_unknown});
  if (instance.ok()) WarnOfIgnored(source.path, instance->ignored);
  return instance;
}

absl::Status ReadCsvEvents(const Source& source, trace::Recording& tables, OnEvent on_event) {
  absl::StatusOr<trace::CsvInstance> instance = LoadCsv(source);
  if (!instance.ok()) return instance.status();
  tables = trace::ToRecording(*instance, source.names);
  trace::ForEachEvent(tables, on_event);
  return absl::OkStatus();
}

absl::Status ReadGraphEvents(const Source& source, trace::Recording& tables, OnEvent on_event) {
  const absl::StatusOr<InstanceFile> file = ReadInstance(source.path, source.ignore_unknown);
  if (!file.ok()) return file.status();
  tables = trace::ToRecording(file->instance, source.names);
  trace::ForEachEvent(tables, on_event);
  return absl::OkStatus();
}

absl::Status ReadTraceEvents(const Source& source, trace::Recording& tables, OnEvent on_event) {
  return trace::ReadTrace(source.path, tables, on_event);
}

absl::Status WriteTrace(const ConvertOptions& options, ReadFunction read,
                        trace::Recording& tables) {
  absl::StatusOr<std::unique_ptr<trace::TraceWriter>> writer =
      trace::TraceWriter::Create(options.output);
  if (!writer.ok()) return writer.status();
  if (options.anonymize) (*writer)->DropNames();
  const absl::Status status = read(
      options.input, tables, [&](const trace::Event& event) { (*writer)->Add(event, tables); });
  return status.ok() ? (*writer)->Finish(tables) : status;
}

absl::Status WriteAndroid(const ConvertOptions& options, ReadFunction read,
                          trace::Recording& tables) {
  base::AtomicFile file(options.output);
  if (!file.ok()) return Finish(file);
  const auto write = [&](const std::string& line) { file.Write(line); };
  trace::AndroidWriter writer(write);
  const absl::Status status =
      read(options.input, tables, [&](const trace::Event& event) { writer.Add(event); });
  if (!status.ok()) return status;
  writer.Finish();
  return Finish(file);
}

// An instance as the planner would see the recording: times are event indices, sizes are rounded up
// to 16 bytes, stricter alignments have a column if there are any. Rows come as the buffers die.
absl::Status WriteCsv(const ConvertOptions& options, ReadFunction read, trace::Recording& tables) {
  constexpr int kUsualAlignment = 4;  // log2
  bool alignments = false;
  trace::Recording ignored;
  absl::Status status = read(options.input, ignored, [&](const trace::Event& event) {
    alignments |= event.log2_alignment > kUsualAlignment;
  });
  if (!status.ok()) return status;
  base::AtomicFile file(options.output);
  if (!file.ok()) return Finish(file);
  file.Write(alignments ? "id,lower,upper,size,alignment\n" : "id,lower,upper,size\n");
  absl::flat_hash_map<uint64_t, trace::Event> live;
  bool fits = true;
  const auto write = [&](const trace::Event& event, uint64_t upper) {
    fits = fits && trace::BlockBytes(event.size) <= trace::kMaxSize;
    std::string row =
        absl::StrCat(event.block, ",", event.birth, ",", upper, ",", trace::BlockBytes(event.size));
    if (alignments) {
      const int log2 = event.log2_alignment > kUsualAlignment ? event.log2_alignment : 0;
      absl::StrAppend(&row, ",", uint64_t{1} << (log2 & 63));
    }
    file.Write(row + "\n");
  };
  status = read(options.input, tables, [&](const trace::Event& event) {
    if (event.kind == trace::EventKind::kAllocate) live.emplace(event.block, event);
    if (event.kind != trace::EventKind::kFree && event.kind != trace::EventKind::kImpliedFree) {
      return;
    }
    write(event, event.index);
    live.erase(event.block);
  });
  if (!status.ok()) return status;
  std::vector<trace::Event> rest;
  for (const auto& [block, event] : live) rest.push_back(event);
  std::sort(rest.begin(), rest.end(),
            [](const trace::Event& a, const trace::Event& b) { return a.block < b.block; });
  for (const trace::Event& event : rest) write(event, tables.events);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.input.path,
        ": expected blocks below 2^56 bytes when rounded up to 16, found one of 2^56"));
  }
  return Finish(file);
}

template <ExportFormat format>
absl::Status Export(const ConvertOptions& options, ReadFunction read, trace::Recording& tables) {
  Source input = options.input;
  input.names = true;
  return WriteExport(format, input, options.output, read, tables);
}

absl::Status WriteMondrianTrace(const ConvertOptions& options, ReadFunction /*read*/,
                                trace::Recording& /*tables*/) {
  return WriteTraceAsMondrian(options.input, options.plan, options.output);
}

absl::Status ReadMondrianEvents(const Source& source, trace::Recording& tables, OnEvent on_event) {
  absl::StatusOr<trace::CsvInstance> instance = LoadMondrian(source);
  if (!instance.ok()) return instance.status();
  tables = trace::ToRecording(*instance, source.names);
  trace::ForEachEvent(tables, on_event);
  return absl::OkStatus();
}

struct FormatRow {
  const char* name;
  const char* extension;  // of an output that is to have this format
  ReadFunction read;      // null: cannot be read
  WriteFunction write;    // null: cannot be written
  bool (*detect)(trace::Format format);
};

bool Never(trace::Format /*format*/) { return false; }

// Of rows that share the end of a name the longer one comes first.
constexpr FormatRow kFormats[] = {
    {"native", ".trace", ReadTraceEvents, WriteTrace,
     [](trace::Format format) {
       return format == trace::Format::kSpool || format == trace::Format::kCompact;
     }},
    {"heaptrack", ".heaptrack.txt", nullptr, Export<ExportFormat::kSummary>, Never},
    {"android", ".txt", ReadTraceEvents, WriteAndroid,
     [](trace::Format format) { return format == trace::Format::kAndroid; }},
    {"csv", ".csv", ReadCsvEvents, WriteCsv,
     [](trace::Format format) { return format == trace::Format::kCsv; }},
    {"mondrian", ".tracealloc.json", ReadMondrianEvents, WriteMondrianTrace,
     [](trace::Format format) { return format == trace::Format::kJson; }},
    {"graph", nullptr, ReadGraphEvents, nullptr, Never},  // see InputFormat
    {"perfetto", ".perfetto.json", nullptr, Export<ExportFormat::kPerfetto>, Never},
    {"collapsed", ".collapsed", nullptr, Export<ExportFormat::kCollapsed>, Never},
    {"speedscope", ".speedscope.json", nullptr, Export<ExportFormat::kSpeedscope>, Never},
    {"dhat", ".dhat.json", nullptr, Export<ExportFormat::kDhat>, Never},
};

// Of those that can be read, or of those that can be written.
std::string FormatNames(bool readable) {
  std::string names;
  for (const FormatRow& row : kFormats) {
    if (readable ? row.read == nullptr : row.write == nullptr) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return names;
}

absl::StatusOr<const FormatRow*> FindFormat(const std::string& name) {
  std::vector<std::string_view> names;
  for (const FormatRow& row : kFormats) {
    if (name == row.name) return &row;
    names.push_back(row.name);
  }
  return absl::FailedPreconditionError(absl::StrCat("no format is called '", name, "'",
                                                    base::DidYouMean(name, names), "; there are ",
                                                    FormatNames(false)));
}

absl::StatusOr<const FormatRow*> InputFormat(const ConvertOptions& options) {
  if (!options.from.empty()) return FindFormat(options.from);
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(options.input.path);
  if (!format.ok()) return format.status();
  const absl::StatusOr<bool> graph = IsGraphFile(options.input.path);  // else Mondrian's JSON
  if (!graph.ok()) return graph.status();
  if (*graph) return FindFormat("graph");
  for (const FormatRow& row : kFormats) {
    if (row.detect(*format)) return &row;
  }
  return absl::InvalidArgumentError(absl::StrCat(options.input.path,
                                                 ": offset 0: expected one of the formats ",
                                                 FormatNames(true), ", found none"));
}

absl::StatusOr<const FormatRow*> OutputFormat(const ConvertOptions& options) {
  if (!options.to.empty()) return FindFormat(options.to);
  for (const FormatRow& row : kFormats) {
    if (row.extension != nullptr && absl::EndsWith(options.output, row.extension)) return &row;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(options.output, ": the name does not tell the format; say --to with one of ",
                   FormatNames(false)));
}

absl::Status CopyInstance(const ConvertOptions& options) {
  const absl::StatusOr<trace::CsvInstance> instance = LoadCsv(options.input);
  if (!instance.ok()) return instance.status();
  base::AtomicFile file(options.output);
  if (!file.ok()) return Finish(file);
  file.Write(instance->header + "\n" + instance->rows);
  return Finish(file);
}

// Instances keep their names and offsets, and as CSV every column; all else goes as events.
absl::Status Convert(const ConvertOptions& options, const FormatRow& from, const FormatRow& to,
                     trace::Recording& tables) {
  const bool as_rows = to.write == WriteCsv || to.write == WriteMondrianTrace;
  if (from.read == ReadGraphEvents && as_rows) {
    const absl::StatusOr<InstanceFile> graph =
        ReadInstance(options.input.path, options.input.ignore_unknown, options.plan);
    if (!graph.ok()) return graph.status();
    return to.write == WriteCsv
               ? WriteGraphAsCsv(*graph, options.input.path, options.output)
               : WriteInstanceAsMondrian(graph->instance, options.input.path, options.output);
  }
  const bool from_mondrian = from.read == ReadMondrianEvents;
  const bool to_mondrian = to.write == WriteMondrianTrace;
  const bool from_csv = from.read == ReadCsvEvents, to_csv = to.write == WriteCsv;
  if (from_csv && to_csv) return CopyInstance(options);
  const bool as_instance = (from_mondrian && (to_csv || to_mondrian)) || (from_csv && to_mondrian);
  if (!as_instance) return to.write(options, from.read, tables);
  const absl::StatusOr<trace::CsvInstance> instance =
      from_csv ? LoadCsv(options.input) : LoadMondrian(options.input);
  if (!instance.ok()) return instance.status();
  return to_csv ? WritePlacedCsv(*instance, options.output)
                : WriteInstanceAsMondrian(*instance, options.input.path, options.output);
}

Kind InputKind(const FormatRow& from) {
  if (from.read == ReadMondrianEvents) return Kind::kMondrian;
  if (from.read == ReadGraphEvents) return Kind::kRecording;  // has plans, as that has
  return from.read == ReadCsvEvents ? Kind::kInstance : Kind::kRecording;
}

Kind OutputKind(const FormatRow& to) {
  if (to.write == WriteTrace) return Kind::kNativeOutput;
  return to.write == WriteMondrianTrace ? Kind::kMondrianOutput : Kind::kOtherOutput;
}

int RunConvert(ConvertOptions options) {
  const absl::StatusOr<std::vector<std::string>> inputs = trace::FindTraces(options.input.path);
  if (!inputs.ok()) return Fail(inputs.status());
  if (inputs->size() != 1) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
        options.input.path, ": holds ", inputs->size(), " traces; convert them one by one")));
  }
  options.input.path = inputs->front();
  const absl::StatusOr<const FormatRow*> from = InputFormat(options);
  if (!from.ok()) return Fail(from.status());
  const absl::StatusOr<const FormatRow*> to = OutputFormat(options);
  if (!to.ok()) return Fail(to.status());
  // In another format it would no longer be what its name says.
  const bool replaces = *from == *to && !options.anonymize;
  const std::string kept_input = replaces ? "" : options.input.path;
  if (absl::Status status = KeepsInputs(options.output, {kept_input, options.plan}); !status.ok()) {
    return Fail(status);
  }
  if ((*from)->read == nullptr) {
    return Fail(absl::FailedPreconditionError(
        absl::StrCat("the format ", (*from)->name, " can only be written")));
  }
  if ((*to)->write == nullptr) {
    return Fail(absl::FailedPreconditionError(
        absl::StrCat("the format ", (*to)->name, " can only be read")));
  }
  for (const Kind kind : {InputKind(**from), OutputKind(**to)}) {
    if (absl::Status status = CheckScope(*options.command, kind); !status.ok()) return Fail(status);
  }
  trace::Recording tables;
  const absl::Status status = Convert(options, **from, **to, tables);
  if (!status.ok()) return Fail(status);
  NoteDamage(options.input.path, tables);
  return kDone;
}

}  // namespace

void AddConvert(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("convert", "Turn one format into another");
  auto options = std::make_shared<ConvertOptions>();
  options->command = command;
  command->add_option("input", options->input.path, "what to convert; -: standard input")
      ->required();
  command->add_option("output", options->output, "the file to write; -: standard output")
      ->required();
  command
      ->add_option("--from", options->from,
                   "its format, when the content does not tell: " + FormatNames(true))
      ->type_name("FORMAT");
  command
      ->add_option("--to", options->to,
                   "the format to write, when the name does not tell: " + FormatNames(false))
      ->type_name("FORMAT");
  command
      ->add_option("--plan", options->plan,
                   "where the blocks of a trace or a graph lie, for the format mondrian")
      ->type_name("PLAN");
  command
      ->add_option("--segment", options->input.segment, "which segment of a Mondrian file to read")
      ->type_name("NAME");
  command->add_flag("--anonymize", options->anonymize,
                    "leave out the names of modules and program; only for native output");
  AddIgnoreUnknown(command, options->input.ignore_unknown);
  command->callback([&run, options] { run = [options] { return RunConvert(*options); }; });
}

}  // namespace reprise::cli
