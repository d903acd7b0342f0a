// Reads a compact trace (compact_format.h), damaged or not. docs/trace-format.md.
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

// How many allocations the file's end mark tells of, for making room; 0 when that is not to be had
// or not to be believed.
uint64_t CountAllocations(const MappedFile& file);

// Reads no further than the chunk that describes the process.
absl::StatusOr<Process> ReadCompactProcess(const MappedFile& file, const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_COMPACT_READER_H_
