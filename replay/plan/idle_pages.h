// Which pages of a lane's box the plan leaves idle for long, and when: replay may give them back.
#ifndef REPRISE_REPLAY_PLAN_IDLE_PAGES_H_
#define REPRISE_REPLAY_PLAN_IDLE_PAGES_H_

#include <cstdint>
#include <vector>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

// Adds kIdle words to a lane, each behind the first turn after which its pages are idle, and moves
// what the placements say of words accordingly. `turns` are the indices of the kTurn words,
// `placements` come in the order of their births. Pages count as idle when no block is planned in
// them for more than sixteen turns, or until the end; only runs of at least 64 KiB are worth a
// word.
void AddIdlePages(std::vector<uint32_t>& words, const std::vector<uint32_t>& turns,
                  const std::vector<PlanKey>& keys, uint64_t box_bytes,
                  std::vector<PlanBlock>& placements);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_IDLE_PAGES_H_
