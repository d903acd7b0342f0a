// Which threads' lanes a plan has.
//
// A lane's box belongs to one thread while that thread follows its plan: what is free in it is of
// no use to others. All boxes together cost the replayed run
//
//     max over time of (live bytes + free bytes in the used parts of the boxes of running threads)
//
// in place of the max load. If every thread has a lane, a run whose threads do the same again has
// the same addresses. So all lanes are taken where they cost at most 1/4 of the max load, or 256
// KiB per thread and 8 MiB in all. Otherwise lanes are taken as long as they cost at most 1/16 of
// the max load, or 512 KiB; those with many allocations for few free bytes come first. The other
// threads are served by the shared heap.
#ifndef REPRISE_REPLAY_PLAN_LANE_CHOICE_H_
#define REPRISE_REPLAY_PLAN_LANE_CHOICE_H_

#include <cstdint>
#include <vector>

namespace reprise::replay {

// The blocks of a thread, as planned in its box.
struct PlannedLane {
  struct Block {
    int64_t lower, upper;  // event indices
    int64_t end;           // in the box, bytes
    int64_t size;
  };
  std::vector<Block> blocks;  // by `lower`
  int64_t first_event = 0;    // the thread runs from there
  int64_t end_event = 0;      // to there
};

struct LaneChoice {
  std::vector<bool> taken;  // per lane
  int64_t held = 0;         // bytes: what the formula above comes to for them
};

// `max_load` in bytes. With `all` every lane is taken.
LaneChoice ChooseLanes(const std::vector<PlannedLane>& lanes, int64_t max_load, bool all);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_LANE_CHOICE_H_
