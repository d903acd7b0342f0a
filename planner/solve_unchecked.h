// Planning for callers that check the plan themselves.
#ifndef REPRISE_PLANNER_SOLVE_UNCHECKED_H_
#define REPRISE_PLANNER_SOLVE_UNCHECKED_H_

#include "absl/status/statusor.h"
#include "planner/core/instance.h"
#include "planner/core/options.h"
#include "planner/core/plan.h"

namespace reprise::planner {

// As Solve, but nothing has checked the plan.
absl::StatusOr<Plan> SolveUnchecked(const Instance& instance, const Options& options);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SOLVE_UNCHECKED_H_
