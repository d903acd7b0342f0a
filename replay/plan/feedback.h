// What replays taught about a recording's lifetimes, and what a plan makes of it.
//
// Squatters get the longest life that was seen. That helps a run that follows its stream. A lane
// that runs free keeps no order: what blocks it is not one block's life, but that all places of a
// kind of request lie under blocks of other kinds. Such a kind gets places of its own, in a part of
// the box that is reserved: nothing else is planned there, and replay improvises nothing there. The
// kinds that miss most for their bytes come first, until as much is reserved as the lane had to
// improvise in its annex: so the arena gets about as large as it was in the run.
#ifndef REPRISE_REPLAY_PLAN_FEEDBACK_H_
#define REPRISE_REPLAY_PLAN_FEEDBACK_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "planner/core/instance.h"
#include "trace/recording.h"

namespace reprise::replay {

// A block that outlived its planned free.
struct Squatter {
  uint64_t lane = 0;                      // path of its thread
  uint64_t allocation = 0;                // which of its lane's, from 0
  uint64_t shape = 0;                     // plan_format.h; to see that it is the same one
  uint64_t freed_before = trace::kNever;  // which of the lane's allocations; kNever: the end
};

// A kind of request that found all its places taken while its lane ran free.
struct CrowdedKind {
  uint64_t lane = 0;
  uint64_t shape = 0;
  trace::Site site;     // module: kNone, or an index into the recording's
  uint64_t missed = 0;  // requests, in the run in which it happened most often
};

struct Lessons {
  std::vector<Squatter> squatters;
  std::vector<CrowdedKind> kinds;
  absl::flat_hash_map<uint64_t, uint64_t> annex_bytes;  // per lane: used, the most of all runs
};

// Lessons about one recording.
struct Learned {
  absl::flat_hash_map<uint32_t, uint64_t> upper;  // per allocation: the end of its life, an event
  absl::flat_hash_map<uint32_t, uint32_t> kind;   // per allocation of a crowded kind: which one
  std::vector<uint64_t> missed;                   // per kind
  absl::flat_hash_map<uint64_t, uint64_t> most_reserved;  // per path of a thread: bytes
};

// InvalidArgument when a squatter is none of this recording's allocations.
absl::StatusOr<Learned> Learn(const trace::Recording& recording, const Lessons& lessons);

// A lane's buffers, of which some have places of their own.
struct Reserved {
  planner::Instance others;     // without those; by birth
  std::vector<int64_t> offset;  // per buffer of the lane: from the start of what is reserved,
                                // bytes; kNotReserved: it is one of the others
  int64_t bytes = 0;            // that are reserved
  int64_t alignment = 1;        // of the reserved part
  int64_t buffers = 0;          // that have places there and no other lifetime was learned for
  static constexpr int64_t kNotReserved = -1;
};

// `instance`: of a lane, its buffers by birth; `members`: which allocation each buffer is. At most
// `most_bytes` are reserved.
Reserved ReservePlaces(const planner::Instance& instance, const Learned& learned,
                       const std::vector<uint32_t>& members, uint64_t most_bytes);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_FEEDBACK_H_
