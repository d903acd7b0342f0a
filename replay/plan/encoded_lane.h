// Where a lane lies in the arena, and whose it is.
#ifndef REPRISE_REPLAY_PLAN_ENCODED_LANE_H_
#define REPRISE_REPLAY_PLAN_ENCODED_LANE_H_

#include <cstdint>

#include "trace/recording.h"

namespace reprise::replay {

struct LaneLoops;  // loops.h

// What a plan file says of a lane besides its stream.
struct EncodedLane {
  uint64_t path = 0;                 // PlanLane::path
  uint32_t thread = trace::kNone;    // whose allocations it holds; kNone: everybody's
  uint64_t box_offset = 0;           // bytes from the arena's start
  uint64_t box_bytes = 0;            // 0: nothing of it is placed (PlanLane)
  const LaneLoops* loops = nullptr;  // null: none
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_ENCODED_LANE_H_
