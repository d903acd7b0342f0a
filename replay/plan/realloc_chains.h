// Chains of reallocations. A plan knows how long a block that grows will become: planned as one
// buffer, with its final size from the start, it never has to move. That takes memory while the
// block is still short, so a chain is joined only where the load stays well below its peak.
#ifndef REPRISE_REPLAY_PLAN_REALLOC_CHAINS_H_
#define REPRISE_REPLAY_PLAN_REALLOC_CHAINS_H_

#include <cstdint>
#include <vector>

#include "planner/core/instance.h"

namespace reprise::replay {

inline constexpr uint32_t kNoBuffer = UINT32_MAX;

// A lane's buffers, of which some are one.
struct Chains {
  planner::Instance joined;         // by birth
  std::vector<uint32_t> buffer_of;  // per buffer of the lane: which one of `joined` it is part of
  uint64_t links = 0;               // reallocations whose two blocks are in one buffer
};

// `instance`: of a lane, its buffers by birth, without gaps or fixed offsets. `previous`, per
// buffer: the one that it replaces, or kNoBuffer. Reallocations that move most bytes come first.
// The joined instance has the max load of `instance`; the offset of a joined buffer is that of all
// its parts. Where nothing is joined, links is 0 and the rest empty. O(n log n) time.
Chains JoinChains(const planner::Instance& instance, const std::vector<uint32_t>& previous);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_REALLOC_CHAINS_H_
