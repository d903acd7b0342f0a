// Instances from files: CSV, dataflow graphs and Mondrian files, for commands that take any.
#ifndef REPRISE_CLI_INSTANCE_FILE_H_
#define REPRISE_CLI_INSTANCE_FILE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/formats/csv.h"

namespace reprise::cli {

struct InstanceFile {
  trace::CsvInstance instance;
  // Only of a graph; of a loop two iterations are shown. A tensor with memory of its own is a
  // buffer, called after it and after those that share its memory ("x = x.view"). Time is the place
  // in the order of execution: the n-th operator, from 1 on, runs in [n, n + 1); 0 is before all of
  // them.
  bool is_graph = false;
  size_t tensors = 0;     // of a loop: of its body
  size_t iterations = 0;  // of a loop: shown one after the other; 0: no loop
  size_t streams = 0;
  size_t groups = 0;
  std::vector<std::string> operators;  // names, in the order of execution
};

// Whether the file holds JSON that is no Mondrian file: a graph. Errors as trace::DetectFormat.
absl::StatusOr<bool> IsGraphFile(const std::string& path);

// Reads `path`; unknown names are refused, or warned of with `ignore_unknown`. With `graph_plan`, a
// plan of a graph, the order of execution and the offsets are the plan's. Errors: one line with the
// file; Aborted when that plan is not valid.
absl::StatusOr<InstanceFile> ReadInstance(const std::string& path, bool ignore_unknown,
                                          const std::string& graph_plan = "");

// The rows of the CSV file at `plan` in the order of those of `instance`, by their ids; each has an
// offset, with `slots` perhaps several. InvalidArgument, one line, when a row or an offset is
// missing.
absl::StatusOr<std::vector<trace::CsvBuffer>> PlannedRows(const trace::CsvInstance& instance,
                                                          const std::string& plan,
                                                          bool ignore_unknown, bool slots);

// The offsets of the rows of `instance` in the CSV file at `plan`, by their ids. InvalidArgument,
// one line, when a row or an offset is missing.
absl::StatusOr<std::vector<int64_t>> PlannedOffsets(const trace::CsvInstance& instance,
                                                    const std::string& plan, bool ignore_unknown);

// Aborted: the plan is not valid for the instance, and why, in one line.
absl::Status NotValid(const std::string& plan, const std::string& instance, const std::string& why);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_INSTANCE_FILE_H_
