// The independent checker. It shares no code with the solvers, and every plan that leaves the
// planner has passed it.
#ifndef REPRISE_PLANNER_CORE_CHECK_H_
#define REPRISE_PLANNER_CORE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/instance.h"

namespace reprise::planner {

struct Violation {
  enum class Kind { kOverlap, kNegativeOffset, kMisaligned, kMoved, kOverflow };
  Kind kind;
  uint32_t first;   // index of the offending buffer
  uint32_t second;  // kOverlap: the other one; else the same as `first`
};

struct CheckResult {
  bool valid = false;
  int64_t makespan = 0;               // bytes, recomputed
  int64_t max_load = 0;               // bytes, recomputed
  std::vector<Violation> violations;  // the first few; empty iff valid
};

inline constexpr int kMostViolations = 8;

// Checks `offsets` against `instance` in O(n log n). `offsets` must have one entry per buffer.
// At most `most` violations are reported. Capacity is not a violation: compare the makespan.
CheckResult Check(const Instance& instance, const std::vector<int64_t>& offsets,
                  int most = kMostViolations);

// The same of each buffer by itself: offsets and the makespan, but not what is live at one time.
CheckResult CheckAlone(const Instance& instance, const std::vector<int64_t>& offsets,
                       int most = kMostViolations);

// One line for a person: which buffers, where, when.
std::string Describe(const Violation& violation, const Instance& instance,
                     const std::vector<int64_t>& offsets, const BufferName& name = {});

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_CHECK_H_
