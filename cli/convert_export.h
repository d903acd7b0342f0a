// The formats of other programs that `convert` writes, and instances that are placed already.
#ifndef REPRISE_CLI_CONVERT_EXPORT_H_
#define REPRISE_CLI_CONVERT_EXPORT_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "cli/instance_file.h"
#include "trace/event.h"
#include "trace/formats/csv.h"
#include "trace/recording.h"

namespace reprise::cli {

// What is read.
struct Source {
  std::string path;
  bool ignore_unknown = false;  // columns and fields that are not known are left aside
  std::string segment{};        // which one of a Mondrian file
  bool names = false;           // of an instance's buffers, which else are left out
};

// Streams a file's events, as trace::ReadTrace does.
using ReadFunction = absl::Status (*)(const Source& source, trace::Recording& tables,
                                      absl::FunctionRef<void(const trace::Event&)> on_event);

// Each reads the input twice with `read`, and writes the output as a whole or not at all. `tables`
// gets what the input holds beside its events.
enum class ExportFormat { kPerfetto, kCollapsed, kSpeedscope, kDhat, kSummary };
absl::Status WriteExport(ExportFormat format, const Source& input, const std::string& output,
                         ReadFunction read, trace::Recording& tables);

// An instance with its offsets, as CSV or as Mondrian JSON. FailedPrecondition when it has none and
// the format needs them.
absl::Status WritePlacedCsv(const trace::CsvInstance& instance, const std::string& output);
absl::Status WriteInstanceAsMondrian(const trace::CsvInstance& instance, const std::string& input,
                                     const std::string& output);

// The buffers of a graph with their names and given offsets. What CSV cannot say is named on
// stderr: that streams overlap, and that tensors must lie side by side.
absl::Status WriteGraphAsCsv(const InstanceFile& graph, const std::string& input,
                             const std::string& output);

// The blocks of a trace where the plan at `plan` puts them. FailedPrecondition when `plan` is
// empty.
absl::Status WriteTraceAsMondrian(const Source& input, const std::string& plan,
                                  const std::string& output);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_CONVERT_EXPORT_H_
