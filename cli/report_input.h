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

// Reads a trace, an instance, or of a folder the trace with the highest max load; says on stderr
// which, when there are several. Columns that are not known are refused, or with `ignore_unknown`
// left aside and said. Errors are those of the readers.
absl::StatusOr<Subject> LoadSubject(const std::string& path, bool ignore_unknown);

// Where the plan at `path` (a plan file, a folder of them, or for an instance a CSV with offsets)
// puts the blocks.
absl::StatusOr<HeapMap> LoadPlanMap(const Subject& subject, const std::string& path);

// Where an allocator puts them: lets it perform the recording. `name` as in compare's list.
// `touch`: writes to every page of the blocks; InvalidArgument when they take more than half of the
// memory.
absl::StatusOr<HeapMap> RunAllocatorMap(const Subject& subject, const std::string& name,
                                        bool touch);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_REPORT_INPUT_H_
