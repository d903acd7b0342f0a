// The lanes of a recording, and the plan of each as a problem of its own.
#ifndef REPRISE_REPLAY_PLAN_LANE_PLAN_H_
#define REPRISE_REPLAY_PLAN_LANE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/core/instance.h"
#include "planner/solve.h"
#include "replay/plan/block_bytes.h"
#include "replay/plan/feedback.h"
#include "replay/plan/lane_choice.h"
#include "replay/plan/loops.h"
#include "replay/plan/plan_format.h"
#include "trace/recording.h"

namespace reprise::replay {

// What the stages of a plan share.
struct PlanRequest {
  const trace::Recording& recording;
  const BlockBytes& block_bytes;
  const planner::Options& options;
  LaneMode mode;
  const Learned& learned;

  bool as_recorded() const { return learned.upper.empty(); }
};

// The allocations of a lane.
struct Members {
  size_t count = 0;
  std::vector<uint32_t> some;  // empty: all of the recording
  uint32_t operator[](size_t k) const { return some.empty() ? static_cast<uint32_t>(k) : some[k]; }
};

// The part of a recording that one lane holds, as a planning problem. `learned`: lifetimes that
// differ from the recorded ones.
planner::Instance LaneInstance(const trace::Recording& recording, const BlockBytes& block_bytes,
                               const Members& members, const Learned& learned = {});

struct LaneWork {
  Members members;
  planner::Plan plan;
  int64_t alignment = kBoxAlignment;
  bool on_pages = false;  // long blocks begin with a page
  planner::Buffer box;    // when the lane holds memory, and how much; none of it: it is dropped
  const LaneLoops* loops = nullptr;  // null: none
};

// Whether each thread has a lane of its own.
bool HasLanePerThread(const trace::Recording& recording, LaneMode mode);

// Splits the recording into lanes. Without lanes there is one that holds everything.
std::vector<LaneWork> SplitIntoLanes(const trace::Recording& recording, LaneMode mode);

// Plans every lane that has members, within the budget, which they share; their plans and boxes are
// in `lanes` afterwards. Errors: those of planner::Solve; ResourceExhausted: a lane is too long.
absl::Status PlanLanes(const PlanRequest& request, std::vector<LaneWork>& lanes);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_LANE_PLAN_H_
