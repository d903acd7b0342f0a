// Copies sealed chunks of a spool (spool_format.h) to the file's end while its process runs, and
// gives them back to it, so that it need not pay for fresh pages.
#ifndef REPRISE_TRACE_SPOOL_DRAIN_H_
#define REPRISE_TRACE_SPOOL_DRAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/spool_format.h"

namespace reprise::trace {

// One per spool, of one thread of one process. It may be killed at any time: every event then lies
// in the chunk it was written to, in a copy of that, or in both with the same serial number.
class SpoolDrain {
 public:
  // Errors: NotFound, PermissionDenied or Unavailable with the text of errno; DataLoss when the
  // file is no spool of this version.
  static absl::StatusOr<SpoolDrain> Open(const std::string& path);
  SpoolDrain(SpoolDrain&& other) noexcept;
  SpoolDrain& operator=(SpoolDrain&& other) noexcept;
  ~SpoolDrain();

  // Copies what was sealed since the last call. A chunk with an event that is still being written
  // (a signal handler filled the rest of it) waits for the next call. Returns how many were copied.
  uint64_t Run();

  // The process has said goodbye and nothing of it waits.
  bool Finished() const;

 private:
  SpoolDrain() = default;
  enum class Outcome { kCopied, kUnfinished, kRefused };
  Outcome Copy(uint32_t index);

  int file_ = -1;
  SpoolHeader* header_ = nullptr;  // shared with the process
  std::vector<uint32_t> unfinished_;
  std::vector<char> buffer_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_DRAIN_H_
