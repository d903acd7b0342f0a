// Reads what a report is about, and where plans and allocators put its blocks.
#ifndef REPRISE_CLI_REPORT_INPUT_H_
#define REPRISE_CLI_REPORT_INPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/model.h"
#include "report/subject.h"

namespace reprise::cli {

using report::HeapMap;
using report::ImageLoad;
using report::Subject;

// Reads a trace, an instance (instance_file.h), or of a folder the trace with the highest max load;
// says on stderr which, when there are several. Columns that are not known are refused, or with
// `ignore_unknown` left aside and said. With `graph_plan` a graph is executed in the order of that
// plan. Errors are those of the readers.
absl::StatusOr<Subject> LoadSubject(const std::string& path, bool ignore_unknown,
                                    const std::string& graph_plan = "");

// Where the plan at `path` (a plan file, a folder of them, a CSV with offsets, a graph's plan) puts
// the blocks. Aborted when the independent checker refuses it.
absl::StatusOr<HeapMap> LoadPlanMap(const Subject& subject, const std::string& path);

// The same of an instance that has offsets itself, for all its buffers or for some.
absl::StatusOr<HeapMap> LoadGivenMap(const Subject& subject);

// Where an allocator puts them: lets it perform the recording. `name` as in compare's list.
// `touch`: writes to every page of the blocks; InvalidArgument when they take more than half of the
// memory.
absl::StatusOr<HeapMap> RunAllocatorMap(const Subject& subject, const std::string& name,
                                        bool touch);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_REPORT_INPUT_H_
