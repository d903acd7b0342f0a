// Reads a compact trace (compact_format.h), damaged or not. docs/reference/trace_format.md.
#ifndef REPRISE_TRACE_COMPACT_READER_H_
#define REPRISE_TRACE_COMPACT_READER_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace/event.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"

namespace reprise::trace {

// As ReadSpool (spool_reader.h). After damage, events are numbered as if what was lost had never
// been; frees of blocks whose allocation was lost match nothing.
absl::Status ReadCompact(const MappedFile& file, const std::string& path, Recording& recording,
                         absl::FunctionRef<void(const Event&)> on_event);

// The same, with the allocations and usable answers in `recording`, too. Errors as LoadRecording.
absl::Status LoadCompact(const MappedFile& file, const std::string& path, Recording& recording);

// The error of a trace with more allocations than 32-bit indices.
absl::Status TooManyAllocations(const std::string& path);

// Reads no further than the chunk that describes the process.
absl::StatusOr<Process> ReadCompactProcess(const MappedFile& file, const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_COMPACT_READER_H_
