// A lane with loops as a planning problem: prefix, one period of each body, suffix.
#ifndef REPRISE_REPLAY_PLAN_LOOPED_INSTANCE_H_
#define REPRISE_REPLAY_PLAN_LOOPED_INSTANCE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/core/instance.h"
#include "replay/plan/block_bytes.h"
#include "replay/plan/feedback.h"
#include "replay/plan/loops.h"
#include "trace/recording.h"

namespace reprise::replay {

// Pairs of buffers with one offset.
using SameOffset = std::vector<std::pair<uint32_t, uint32_t>>;

struct LoopedInstance {
  planner::Instance instance;     // by birth; time counts the steps of the shortened lane
  std::vector<uint32_t> members;  // per buffer: the allocation
  SameOffset same_offset;
};

// `buffer_of` has an entry per allocation of the recording; those of the lane become the buffer
// that has their offset.
LoopedInstance MakeLoopedInstance(const trace::Recording& recording, const BlockBytes& block_bytes,
                                  const LaneLoops& lane, const Learned& learned,
                                  std::vector<uint32_t>& buffer_of);

// The same problem with one buffer for those of one offset: it has gaps. Nothing: some of them are
// live at the same time.
struct Merged {
  planner::Instance instance;
  std::vector<uint32_t> buffer_of;  // per buffer before
};
std::optional<Merged> Merge(const planner::Instance& instance, const SameOffset& same_offset);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_LOOPED_INSTANCE_H_
