// Periodic instances: a loop whose body makes the same buffers in every iteration. The period of an
// Instance is an argument beside it, so that every other part of the library keeps its instances.
//
// The problem is that of Imanishi and Xu, "A Heuristic for Periodic Memory Allocation with Little
// Fragmentation to Train Neural Networks" (ISMM 2024); serving every pass of a network from one
// profiled pass is MemoMalloc's (Levental 2022). The reduction below is our own.
#ifndef REPRISE_PLANNER_CORE_PERIODIC_H_
#define REPRISE_PLANNER_CORE_PERIODIC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/core/instance.h"
#include "planner/core/plan.h"

namespace reprise::planner {

// Iteration i of a periodic instance makes every buffer once, live in [lower + i * period,
// upper + i * period), for every whole number i. `upper` may exceed the period.
//
// A plan has Slots() offsets per buffer, and iteration i puts the buffer at the offset of slot
// i mod Slots(). With one slot (a lifetime of at most one period) the offset is the same in every
// iteration, also where the buffer is live across the end of the period.
//
// What is promised, and what bounds and proofs refer to:
// - The number of slots is the largest number of copies that are live at one time, so no plan in
//   which slots take turns has fewer.
// - Reduce() keeps exactly the valid plans of this form. A buffer with k > 1 slots is live for more
//   than (k - 1) periods, so each of its slots is taken for more than a period at a time, and is
//   then free for less than one. Whatever another slot holds, it is met: one that is taken again
//   in every iteration, because a whole period passes; one of several, because it is free for less
//   than a period. So each of the k slots is a buffer that lives throughout the period.
// - The lower bound holds for plans of this form. It may be above the max load, because a slot that
//   is free for a part of some iterations is of no use to others. Plans that may choose another
//   offset in every iteration can be smaller: unroll the loop and plan two iterations as one.

// The period of an instance that is not periodic.
inline constexpr int64_t kNotPeriodic = 0;

// Periods and times of periodic instances are below this.
inline constexpr int64_t kLongestPeriod = int64_t{1} << 59;

// Slots of buffers that have several, in all.
inline constexpr int64_t kMostSlots = int64_t{1} << 22;

// Whether `instance` is valid and, with this period > 0, periodic: lower in [0, period), upper
// below kLongestPeriod; a buffer with several slots has no fixed offset (they are several) and no
// gaps (they are at other phases in every slot); at most kMostSlots of those. The message names the
// first buffer that is wrong.
absl::Status ValidatePeriodic(const Instance& instance, int64_t period,
                              const BufferName& name = {});

// How many copies of the buffer are live at one time at most: its lifetime in periods, rounded up.
// At least 1; period > 0.
int64_t Slots(const Buffer& buffer, int64_t period);

// Where the slots of each buffer are in a list of all slots, buffers in instance order: those of
// buffer b are [first[b], first[b + 1]).
std::vector<uint32_t> FirstSlots(const Instance& instance, int64_t period);

// The most bytes live at one instant once the loop has run for a while, sizes rounded to the
// alignment; gaps are honoured.
struct PeriodicPeak {
  int64_t load = 0;
  int64_t phase = 0;  // the first instant of a period at which that is live, in [0, period)
};
PeriodicPeak PeakOf(const Instance& instance, int64_t period);
inline int64_t PeriodicMaxLoad(const Instance& instance, int64_t period) {
  return PeakOf(instance, period).load;
}

// The ordinary instance with one buffer per slot whose valid plans are those of the periodic one.
// Time is that since a cut of the circle, at which the fewest bytes are live (ties: the earliest
// instant); a buffer that is live across the cut lives throughout, with a gap. Without such buffers
// the instance has no gaps that the periodic one has not. The instance and period must be valid.
// O(n log n).
Instance Reduce(const Instance& instance, int64_t period);

struct PeriodicPlan {
  // One offset per slot. max_load is PeriodicMaxLoad(); lower_bound and proven_optimal are about
  // plans of the form above.
  Plan plan;
  std::vector<uint32_t> first_slot;  // as FirstSlots
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_PERIODIC_H_
