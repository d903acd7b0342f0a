// What a replayed lane served, found out after the run: while a run follows its plan nothing is
// counted, because the plan says what it did.
#ifndef REPRISE_REPLAY_PLAN_REPLAY_TOTALS_H_
#define REPRISE_REPLAY_PLAN_REPLAY_TOTALS_H_

#include <cstdint>

#include "replay/plan/counters.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

struct Served {
  uint64_t planned = 0;       // allocations that went where the plan said
  uint64_t address_hash = 0;  // of their addresses, in order
  uint64_t iterations = 0;    // of loops
};

// `words` and `loops` are the lane's in the plan that the run followed; null: not known, and
// neither is what followed it. Counters that cannot be of this lane are taken to have followed none
// of it.
Served ServedBy(const PlanLane& lane, const uint32_t* words, const PlanLoop* loops,
                const LaneCounters& counters);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_REPLAY_TOTALS_H_
