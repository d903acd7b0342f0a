// Placed instances as JSON, in the format of the Mondrian viewer of Samsung's ONE-vscode
// (*.tracealloc.json): named memory segments, each with allocations that have an offset, a size and
// a half-open lifetime.
#ifndef REPRISE_TRACE_FORMATS_MONDRIAN_H_
#define REPRISE_TRACE_FORMATS_MONDRIAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "trace/formats/csv.h"

namespace reprise::trace {

// Reads the file's only segment, or of several the one called `segment`. Buffers are called as
// their origin says; a name that comes again gets "#2", "#3" … Unknown fields are refused, or with
// `ignore_unknown` left aside and listed in CsvInstance::ignored. Errors: InvalidArgument "FILE:
// segments[0] .allocations[3].size: expected …, found …"; FailedPrecondition when there are several
// segments and none is chosen; opening as MappedFile::Open.
struct MondrianOptions {
  std::string segment{};
  bool ignore_unknown = false;
};
absl::StatusOr<CsvInstance> ReadMondrian(const std::string& path,
                                         const MondrianOptions& options = {});
absl::StatusOr<CsvInstance> ParseMondrian(const std::string& text, const std::string& name,
                                          const MondrianOptions& options = {});

// One allocation of a segment that is being written.
struct MondrianBuffer {
  std::string origin;
  int64_t lower = 0, upper = 0;  // live in [lower, upper)
  int64_t size = 0, offset = 0;  // bytes
};

// A file with one segment of `segment_bytes`; `next` is called for each of `count` buffers.
void WriteMondrian(const std::string& segment, int64_t segment_bytes, size_t count,
                   absl::FunctionRef<MondrianBuffer(size_t)> next,
                   absl::FunctionRef<void(const std::string&)> write);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_FORMATS_MONDRIAN_H_
