// What a lane of a plan is worth fetching into the processor's caches before it is used.
//
// The plan knows how long ago each place, and each key, was used last. A place that was used a
// moment ago is at hand, and the hint would only cost; so it is in most programs, because plans
// use memory again soon.
#ifndef REPRISE_REPLAY_PLAN_PREFETCH_HINTS_H_
#define REPRISE_REPLAY_PLAN_PREFETCH_HINTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

// A lane's words, its kEnd included, give its PlanLane::fetched: kFetchBlocks where a quarter of
// the allocations and frees are of places used last half a MiB ago or more (which is about where
// the caches of one core end), kFetchKeys where a sixteenth of the allocations has a key that none
// of the last thousand had. Looks at one cache line in sixteen.
uint16_t FetchedAhead(std::span<const uint32_t> words, uint32_t offset_bits,
                      const std::vector<PlanKey>& keys, uint64_t box_bytes);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PREFETCH_HINTS_H_
