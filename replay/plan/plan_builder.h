// From a recording to a plan file: one planning problem per lane, one for the lanes' boxes.
#ifndef REPRISE_REPLAY_PLAN_PLAN_BUILDER_H_
#define REPRISE_REPLAY_PLAN_PLAN_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/core/instance.h"
#include "planner/solve.h"
#include "replay/plan/feedback.h"
#include "replay/plan/lane_choice.h"
#include "replay/plan/loops.h"
#include "trace/recording.h"

namespace reprise::replay {

struct BuiltPlan {
  std::string bytes;             // the plan file (plan_format.h)
  std::vector<int64_t> offsets;  // per allocation of the recording, from the arena's start;
                                 // kUnplanned: its thread has no box
  int64_t makespan = 0;          // bytes: the highest end of a block; with several threads
                                 // estimated_held_bytes
  int64_t arena_bytes = 0;       // up to the end of the last box
  int64_t max_load = 0;          // bytes, of the whole recording
  // How many of these are only in usable sizes that the program was told: the max load of the
  // requested sizes, as trace::Statistics has it, is so much less.
  int64_t usable_size_bytes = 0;
  // With several threads: what a run that follows the plan holds (lane_choice.h). Otherwise 0.
  int64_t estimated_held_bytes = 0;
  int64_t lower_bound = 0;  // bytes; of the whole recording
  int64_t lanes = 0;        // with boxes
  int64_t threads = 0;      // with allocations
  int64_t unplanned = 0;    // allocations of threads without a box
  // No plan is smaller: the last block ends at the lower bound, and every block has an offset.
  bool proven_optimal = false;
  // What separate lanes cost before any packing: how much the most that their boxes need at one
  // time exceeds the max load, in percent of it.
  double lane_overhead_percent = 0;
  int64_t reallocs = 0;           // whose old block is known
  int64_t reallocs_in_place = 0;  // of those, the ones that leave it where it is
  int64_t learned = 0;            // buffers whose lifetime is not the recorded one
  std::string strategy;           // that of the largest lane
  double seconds = 0;
  FoundLoops loops;  // of the lanes that the plan has
};

// The recording as a planning problem: time is the event index, sizes are whole granules of 16
// bytes, and include what the program was told by malloc_usable_size.
planner::Instance WholeInstance(const trace::Recording& recording);

// Leaves only the buffers that are planned, both in their order.
void KeepPlanned(planner::Instance& instance, std::vector<int64_t>& offsets);

// Plans every lane within the budget of `options`, which they share by their number of buffers;
// encoding is a part of it. What comes out has passed the checker as a whole. Errors: those of
// planner::Solve; ResourceExhausted when a lane needs more than 32 GiB. `learned`: what replays of
// earlier plans taught, for LaneMode::kThread.
absl::StatusOr<BuiltPlan> BuildPlan(const trace::Recording& recording,
                                    const planner::Options& options, LaneMode mode,
                                    const Learned& learned = {},
                                    LoopMode loop_mode = LoopMode::kAuto);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_PLAN_BUILDER_H_
