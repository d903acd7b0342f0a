// Reads a spool (spool_format.h) while its process still writes to it, so that little is left to
// be read when that has ended.
//
// An event has its place in the global order when all events of its epoch and of older ones are
// known. What a process writes next lies in one of its newest epochs (interpose/record/epochs.h),
// unless a thread was stopped in the middle of a hook. So events are handed out when many chunks
// with newer epochs have been copied. Chunks count by their copies; where one that is not copied
// holds older events (its thread idles, or its copy failed), those are read where they lie.
//
// Should an event turn up later that belongs before others that were handed out, the follower gives
// up: what it has handed out is void, and the spool is read anew by ReadSpool.
#ifndef REPRISE_TRACE_SPOOL_FOLLOWER_H_
#define REPRISE_TRACE_SPOOL_FOLLOWER_H_

#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace/event.h"
#include "trace/recording.h"
#include "trace/spool_format.h"
#include "trace/spool_index.h"
#include "trace/spool_merge.h"
#include "trace/spool_reader.h"

namespace reprise::trace {

// Memory: the live blocks, the sites, 8 bytes per chunk, and the chunks of which a part has been
// handed out. Not for several threads at once.
class SpoolFollower {
 public:
  // `recording` and what `on_event` refers to outlive it. Errors as SpoolDrain::Open.
  static absl::StatusOr<std::unique_ptr<SpoolFollower>> Open(
      const std::string& path, Recording& recording,
      absl::FunctionRef<void(const Event&)> on_event);
  ~SpoolFollower();
  SpoolFollower(const SpoolFollower&) = delete;
  SpoolFollower& operator=(const SpoolFollower&) = delete;

  enum class Outcome { kNothing, kHandedOut, kGaveUp };

  // Hands out the events of a few chunks, when they have their places. Whoever drains the spool
  // (spool_drain.h) does so in the same thread.
  Outcome Step();

  // The process has ended: hands out the rest. `recording` is then as ReadSpool leaves it. Errors
  // as ReadSpool; Aborted: gave up.
  absl::Status Finish();

  uint64_t bytes() const;  // of memory

  // So many chunks are always left to Finish().
  static constexpr uint64_t kChunksBehind = 128;

 private:
  struct Part {
    SpoolBytes bytes;
    uint32_t index;
    SpoolReach after;
  };
  // A copy that is not indexed: its first epoch, its number.
  using Copy = std::tuple<uint64_t, uint64_t>;

  SpoolFollower(std::string path, int file, const SpoolHeader* header, const SpoolRecords& records,
                Recording& recording, absl::FunctionRef<void(const Event&)> on_event);
  bool FindCopies();
  uint64_t CertainEpoch();
  bool AddModules(const SpoolRecords& records);
  bool MapChunks();
  bool FindParts(uint64_t last, std::vector<Part>& parts);
  bool FindPart(uint32_t index, uint64_t last, std::vector<Part>& parts);
  bool AddCopies(uint64_t last);
  Outcome GiveUp();

  const std::string path_;
  const int file_;
  const SpoolHeader* const header_;  // shared with the process
  const char* chunks_ = nullptr;     // those in their places, shared with the process
  uint64_t chunks_mapped_ = 0;
  uint64_t module_bytes_;  // that are known
  size_t modules_;         // that are known
  Recording& recording_;
  SpoolIndex index_;
  SpoolMerge merge_;
  SpoolInterpreter interpreter_;
  std::vector<uint64_t> newest_;  // per copy: the newest of the first epochs up to there
  uint64_t stepped_ = 0;          // copies up to which newest_ was looked at
  uint64_t last_ = 0;             // epoch that was handed out
  std::priority_queue<Copy, std::vector<Copy>, std::greater<>> copies_;
  bool gave_up_ = false;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_FOLLOWER_H_
