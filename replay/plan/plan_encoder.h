// Writes lanes as streams: plan_format.h.
#ifndef REPRISE_REPLAY_PLAN_PLAN_ENCODER_H_
#define REPRISE_REPLAY_PLAN_PLAN_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/plan/block_bytes.h"
#include "replay/plan/encoded_lane.h"
#include "trace/recording.h"

namespace reprise::replay {

// Tells recordings apart: a hash of what was allocated, by whom, and when it was freed.
uint64_t HashRecording(const trace::Recording& recording);

// Of an allocation whose thread has no box.
inline constexpr int64_t kUnplanned = -1;

// The plan file. `offsets` has one entry per allocation, from the arena's start, or kUnplanned;
// every other allocation lies in the box of its lane. `flags`: PlanHeader::flags but for kPlanRoot.
std::string EncodePlan(const trace::Recording& recording, const BlockBytes& block_bytes,
                       const std::vector<int64_t>& offsets, const std::vector<EncodedLane>& lanes,
                       uint64_t arena_bytes, uint64_t max_load, uint64_t flags);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLAN_ENCODER_H_
