#include "trace/spool_compaction.h"

#include <utility>

namespace reprise::trace {

absl::StatusOr<std::unique_ptr<SpoolCompaction>> SpoolCompaction::Open(
    const std::string& spool, std::function<void(const Event&)> also) {
  auto made = std::unique_ptr<SpoolCompaction>(new SpoolCompaction(std::move(also)));
  SpoolCompaction* self = made.get();
  self->writer_ = TraceWriter::CreateUnnamed(spool.substr(0, spool.rfind('/')));
  self->on_event_ = [self](const Event& event) {
    self->writer_->Add(event, self->tables_);
    if (self->also_) self->also_(event);
  };
  absl::StatusOr<std::unique_ptr<SpoolFollower>> follower =
      SpoolFollower::Open(spool, self->tables_, self->on_event_);
  if (!follower.ok()) return follower.status();
  self->follower_ = *std::move(follower);
  return made;
}

absl::StatusOr<Recording> SpoolCompaction::Finish(const std::string& path) {
  const absl::Status read = follower_->Finish();
  if (!read.ok()) return read;
  if (tables_.events == 0) return absl::AbortedError(path);  // it may be damaged
  const absl::Status finished = writer_->FinishAs(path, tables_);
  if (!finished.ok()) return finished;
  return std::move(tables_);
}

}  // namespace reprise::trace
