// Writes a compact trace, event by event.
#ifndef REPRISE_TRACE_TRACE_WRITER_H_
#define REPRISE_TRACE_TRACE_WRITER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "trace/compact_format.h"
#include "trace/event.h"
#include "trace/recording.h"
#include "trace/unnamed_file.h"

namespace reprise::trace {

// The file appears under its name when Finish() succeeds, whole; until then, and if Finish() is
// never called, only a temporary file beside it exists. A trace with a command line or environment
// can be read by its owner only. Memory: a chunk, the threads and the sites.
// Not for several threads at once.
class TraceWriter {
 public:
  // Errors carry the text of errno and name the path.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path);

  // One that has no name yet, and takes the disk of `folder`: FinishAs() gives it one. Its process
  // may change until then.
  static std::unique_ptr<TraceWriter> CreateUnnamed(const std::string& folder);

  // Leaves out of what follows the names and build ids of modules, everything that names the
  // program, and the hashes of such names (Process::place). Before the first Add().
  void DropNames() { drop_names_ = true; }

  // Appends one event. `tables` must hold the module, site and thread that the event names, and may
  // have grown since the last call but not changed; names of threads may be missing until the end.
  // Its process must be known by the first call.
  // Events come in order of their index from 0, allocations in order of their ordinal from 0.
  void Add(const Event& event, const Recording& tables);

  // Writes the marks, totals and damage of `tables` and puts the file in place.
  absl::Status Finish(const Recording& tables);

  // Of one without a name: the same, with the name `path`.
  absl::Status FinishAs(const std::string& path, const Recording& tables);

 private:
  TraceWriter() = default;
  absl::Status OpenFile(const std::string& path);
  void BeginEvents(uint32_t thread);
  void FlushEvents(const Recording& tables);
  void WriteProcess(const Process& process);
  void WriteDefinitions(const Recording& tables, size_t modules, size_t threads);
  void WriteThreadNames(const std::vector<Thread>& threads);
  void NeedModule(uint32_t module);
  void WriteMarks(const std::vector<Mark>& marks);
  void WriteChunk(ChunkType type, std::string_view raw);
  uint64_t Key(const Event& event, const Recording& tables);

  // What a call site is in the file: the site, and how it allocates.
  struct CallSite {
    uint32_t site;
    AllocationKind kind;
    uint8_t log2_alignment;
  };

  std::unique_ptr<base::AtomicFile> file_;
  std::unique_ptr<UnnamedFile> unnamed_;  // all but the first chunk, while there is no file
  uint32_t chunks_ = 0;
  bool drop_names_ = false;
  bool process_written_ = false;
  size_t modules_written_ = 0, threads_written_ = 0;
  size_t modules_needed_ = 0;  // by what is written so far
  size_t stacks_written_ = 0, sites_written_ = 0;
  std::vector<CallSite> call_sites_;
  absl::flat_hash_map<uint64_t, uint32_t> key_of_;
  // The latest of some sites: most sites have one key.
  struct LatestKey {
    uint64_t identity = UINT64_MAX;
    uint32_t key = 0;
  };
  std::array<LatestKey, 256> latest_keys_;
  std::string events_;  // tokens of the chunk being made: the first `used_` bytes
  size_t used_ = 0;
  uint64_t index_ = 0;    // of the next event
  uint64_t ordinal_ = 0;  // of the next allocation
  uint32_t thread_ = 0;
  // Per thread: the block it freed last within this chunk, which a realloc's allocation replaces
  // unless said otherwise.
  std::vector<uint64_t> last_freed_;
};

// Writes a recording that is in memory. Unmatched frees lose their threads.
absl::Status WriteRecording(const Recording& recording, const std::string& path);

// Epochs the trace at `from` (a spool, usually) into a compact one at `to`, in one streaming pass.
// Damage of the source is kept in the new file. `drop_names` as TraceWriter::DropNames. Returns
// what the new trace holds, without the allocations. `also` is given every event, too.
absl::StatusOr<Recording> Compact(const std::string& from, const std::string& to,
                                  bool drop_names = false,
                                  const std::function<void(const Event&)>& also = {});

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_TRACE_WRITER_H_
