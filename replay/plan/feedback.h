// What replays taught about a recording's lifetimes, and what a plan makes of it.
//
// Blocks that outlived their planned free get the longest life that was seen.
#ifndef REPRISE_REPLAY_PLAN_FEEDBACK_H_
#define REPRISE_REPLAY_PLAN_FEEDBACK_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "trace/recording.h"

namespace reprise::replay {

// A block that outlived its planned free.
struct Squatter {
  uint64_t lane = 0;                      // path of its thread
  uint64_t allocation = 0;                // which of its lane's, from 0
  uint64_t shape = 0;                     // plan_format.h; to see that it is the same one
  uint64_t freed_before = trace::kNever;  // which of the lane's allocations; kNever: the end
};

struct Lessons {
  std::vector<Squatter> squatters;
};

// Lessons about one recording.
struct Learned {
  bool from_replays = false;  // whether there were lessons, if only that nothing is to be changed
  absl::flat_hash_map<uint32_t, uint64_t> upper;  // per allocation: the end of its life, an event
};

// InvalidArgument when a squatter is none of this recording's allocations.
absl::StatusOr<Learned> Learn(const trace::Recording& recording, const Lessons& lessons);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_FEEDBACK_H_
