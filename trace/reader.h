// Reading traces of any format: spool, compact or Android text, told apart by their content.
#ifndef REPRISE_TRACE_READER_H_
#define REPRISE_TRACE_READER_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace/event.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"

namespace reprise::trace {

// Streams the trace at `path`: calls `on_event` for each event in the global order. `recording`
// must be empty; it gets everything but the allocations and usable answers: modules, sites and
// threads before the first event that names them, counts, ranges and damage as they are met.
// Memory does not grow with the events. Damage is not an error: what can be read is handed out.
// Errors (one line that begins with the path): the file cannot be opened; it is no trace
// (InvalidArgument); it is of a newer version (Unimplemented); its header is cut short, or it is
// damaged and no event can be read (DataLoss); a line of a text is wrong (InvalidArgument).
absl::Status ReadTrace(const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event);

// The same of bytes that are at hand; `path` is what errors call them.
absl::Status ReadTrace(const MappedFile& file, const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event);

// The whole trace in memory, about 50 bytes per allocation. Errors as ReadTrace, and
// OutOfRange when there are more allocations than 32-bit indices.
absl::StatusOr<Recording> LoadRecording(const std::string& path);

// Adds what an event says to recording.allocations and usable_answers. Events come in order.
void AppendEvent(Recording& recording, const Event& event);

// Only what is known of the process; does not read the events. Errors as ReadTrace.
absl::StatusOr<Process> ReadProcess(const std::string& path);

// Whether `path` is a directory. kStandardStream never is.
bool IsFolder(const std::string& path);

// The traces that `path` stands for: itself when it is none; of a directory its *.trace and
// *.spool files by name, regular files only, a spool only when it has begun and not been compacted
// to a trace yet. InvalidArgument when there is none.
absl::StatusOr<std::vector<std::string>> FindTraces(const std::string& path);

// The events of a recording in memory, in order. An event index at which nothing is born or dies
// is an unmatched free; usable answers come right after their block's birth.
void ForEachEvent(const Recording& recording, absl::FunctionRef<void(const Event&)> on_event);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_READER_H_
