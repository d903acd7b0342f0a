// What tells the requests of a plan apart, and which request has which key: plan_format.h, PlanKey.
#ifndef REPRISE_REPLAY_PLAN_PLAN_KEYS_H_
#define REPRISE_REPLAY_PLAN_PLAN_KEYS_H_

#include <cstdint>
#include <vector>

#include "replay/plan/block_bytes.h"
#include "replay/plan/plan_format.h"
#include "trace/recording.h"

namespace reprise::replay {

// The keys of a recording, the most frequent first, and which one each allocation has.
struct Keys {
  std::vector<PlanKey> keys;
  // Per allocation: its key, and when its word is written the index of its placement instead.
  std::vector<uint32_t> of;
};

Keys FindKeys(const trace::Recording& recording, const BlockBytes& block_bytes);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLAN_KEYS_H_
