// Which threads' lanes a plan has.
//
// A lane's box belongs to one thread while that thread follows its plan: what is free in it is of
// no use to others. When the thread has ended the shared heap may use it, but the pieces are small
// and their pages stay resident. So a replayed run holds
//
//     all boxes and the most that the threads without a lane have live; but at most 16 MiB, beyond
//     which idle pages go back, more than the live bytes and the free ones in boxes of running
//     threads
//
// in place of the max load. If every thread has a lane, a run whose threads do the same again has
// the same addresses. So all lanes are taken where that is at most 1/4 above the max load, or of at
// most 32 threads 256 KiB per thread above it. Otherwise lanes are taken as long as it is at most
// 1/32 above the max load, or 256 KiB; those with many allocations for few free bytes come first.
#ifndef REPRISE_REPLAY_PLAN_LANE_CHOICE_H_
#define REPRISE_REPLAY_PLAN_LANE_CHOICE_H_

#include <cstdint>
#include <vector>

namespace reprise::replay {

enum class LaneMode {
  kAuto,    // a lane for each thread where that costs little memory
  kThread,  // a lane for each thread
  kNone,    // the whole recording as one instance: the planner's own quality
};

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
