// The planner's front door: strategies by name, one call to solve.
#ifndef REPRISE_PLANNER_SOLVE_H_
#define REPRISE_PLANNER_SOLVE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/core/instance.h"
#include "planner/core/options.h"
#include "planner/core/periodic.h"
#include "planner/core/plan.h"

namespace reprise::planner {

// Every strategy and alias, in the order of `reprise plan --strategy list`.
const std::vector<StrategyInfo>& Strategies();

// Solves the instance. Errors: InvalidArgument for an invalid instance or an unknown strategy;
// ResourceExhausted when the capacity cannot be kept ("at least X needed"); Internal when the
// checker refused the plan (a bug of ours: the plan is never returned).
// Thread-safe: calls share nothing.
absl::StatusOr<Plan> Solve(const Instance& instance, const Options& options);

// Solves a periodic instance (core/periodic.h) with any strategy: the strategies are given the
// ordinary instance that Reduce() makes of it. Errors as Solve(); InvalidArgument also for what
// ValidatePeriodic refuses. Thread-safe.
absl::StatusOr<PeriodicPlan> SolvePeriodic(const Instance& instance, int64_t period,
                                           const Options& options);

// The most bytes live at one instant, sizes rounded to the alignment; gaps are honoured.
int64_t MaxLoad(const Instance& instance);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SOLVE_H_
