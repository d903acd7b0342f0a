// Compacts a spool while its process still writes to it.
#ifndef REPRISE_TRACE_SPOOL_COMPACTION_H_
#define REPRISE_TRACE_SPOOL_COMPACTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trace/event.h"
#include "trace/recording.h"
#include "trace/spool_follower.h"
#include "trace/trace_writer.h"

namespace reprise::trace {

// The spool stays as it is, and the trace has no name before Finish(): whoever compacts may be
// killed at any time. Not for several threads at once.
class SpoolCompaction {
 public:
  // The trace that is being made takes the disk of the spool. `also` is given every event, too.
  // Errors as SpoolFollower::Open.
  static absl::StatusOr<std::unique_ptr<SpoolCompaction>> Open(
      const std::string& spool, std::function<void(const Event&)> also = {});

  // As SpoolFollower::Step.
  SpoolFollower::Outcome Step() { return follower_->Step(); }

  // The process has ended: writes the trace to `path`. Same bytes and result as Compact
  // (trace_writer.h). After an error Compact() has to be called instead.
  absl::StatusOr<Recording> Finish(const std::string& path);

  uint64_t bytes() const { return follower_->bytes(); }  // of memory

 private:
  explicit SpoolCompaction(std::function<void(const Event&)> also) : also_(std::move(also)) {}

  const std::function<void(const Event&)> also_;
  std::function<void(const Event&)> on_event_;
  Recording tables_;
  std::unique_ptr<TraceWriter> writer_;
  std::unique_ptr<SpoolFollower> follower_;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_COMPACTION_H_
