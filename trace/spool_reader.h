// Reads a spool (spool_format.h), finished or not: the process may still write to it, or have been
// killed in the middle of an event. docs/reference/trace_format.md, section "Spool".
#ifndef REPRISE_TRACE_SPOOL_READER_H_
#define REPRISE_TRACE_SPOOL_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace/event.h"
#include "trace/mapped_file.h"
#include "trace/module_map.h"
#include "trace/recording.h"
#include "trace/spool_format.h"
#include "trace/spool_index.h"
#include "trace/spool_merge.h"

namespace reprise::trace {

// Calls `on_event` for every event in the global order. `recording` gets everything but the
// allocations; its modules, sites and threads stand there before the first event that names them.
// Damage is noted in recording.damage and is not an error. Errors, which name `path`: not a spool
// (InvalidArgument), a newer version (Unimplemented), a header cut short (DataLoss).
// Memory: the live blocks, the sites, and 64 bytes per chunk; the pages of the file come and go.
absl::Status ReadSpool(const MappedFile& file, const std::string& path, Recording& recording,
                       absl::FunctionRef<void(const Event&)> on_event);

// What stands before the chunks of a spool.
struct SpoolRecords {
  SpoolHeader header;
  Process process;
  std::vector<LoadedModule> modules;
  std::map<uint64_t, std::string> thread_names;  // by the paths of their threads
};

// Errors as ReadSpool.
absl::StatusOr<SpoolRecords> ReadSpoolRecords(const MappedFile& file, const std::string& path,
                                              std::vector<Damage>& damage);

// Adds to the recording what its index and its merge do not know yet. Aborted: what they handed out
// before is not what ReadSpool would have (spool_follower.h).
absl::Status FinishSpool(const MappedFile& file, const SpoolRecords& records, Recording& recording,
                         SpoolIndex& index, SpoolMerge& merge, SpoolInterpreter& interpreter);

// Only what the header and the module records say of the process; same errors.
absl::StatusOr<Process> ReadSpoolProcess(const MappedFile& file, const std::string& path);

// False for a file whose process has not got as far as the first word of a spool: it may have been
// killed before it.
bool SpoolHasBegun(const std::string& path);

// Whether a mapping of the file at `path`, or a descriptor, can write to it. False also where the
// file system does not tell.
bool IsOpenForWriting(const std::string& path);

// Whether the process with this number and time of start (SpoolHeader::start_time) may still run.
bool StillRuns(uint32_t pid, uint64_t start_time);

// Whether the process that writes the spool at `path` may still run. False for anything else.
bool SpoolHasWriter(const std::string& path);

// The process that wrote the spool at `path`, by its number in its own namespace; 0: not known.
struct SpoolProcess {
  uint32_t pid;
  uint64_t start_time;
  uint64_t lost_events;  // as it counted them
};
SpoolProcess WriterOf(const std::string& path);

// Cuts off what a spool without a writer has no use for: all behind its last chunk or copy. Any
// other file stays as it is.
void CutSpool(const std::string& path);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_READER_H_
