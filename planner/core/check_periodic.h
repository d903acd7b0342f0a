// The independent checker of periodic plans: it unrolls the loop. It shares no code with the
// solvers and none with Reduce().
#ifndef REPRISE_PLANNER_CORE_CHECK_PERIODIC_H_
#define REPRISE_PLANNER_CORE_CHECK_PERIODIC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/check.h"
#include "planner/core/instance.h"

namespace reprise::planner {

// Checks one offset per slot (periodic.h) against a valid periodic instance. Violations name slots:
// indices into `offsets`. max_load is that of the steady state. Buffers with one slot are swept
// over two periods; what has several is compared with whatever shares an address with it, over as
// many iterations as every pair of slots needs to meet. O(n log n) for valid plans.
CheckResult CheckPeriodic(const Instance& instance, int64_t period,
                          const std::vector<int64_t>& offsets, int most = kMostViolations);

// One line for a person. `name` is of buffers.
std::string DescribePeriodic(const Violation& violation, const Instance& instance, int64_t period,
                             const std::vector<int64_t>& offsets, const BufferName& name = {});

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_CHECK_PERIODIC_H_
