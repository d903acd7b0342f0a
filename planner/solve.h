// The planner's front door: strategies by name, one call to solve.
#ifndef REPRISE_PLANNER_SOLVE_H_
#define REPRISE_PLANNER_SOLVE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/instance.h"
#include "planner/plan.h"

namespace reprise::planner {

struct Options {
  std::string strategy = "auto";  // a name of Strategies()
  double budget_seconds = 5;      // wall clock; improving strategies stop here with their best plan
  int64_t iterations = 0;  // of iterative strategies; 0: until the budget. With iterations and
                           // a seed given the plan's bytes do not depend on time or threads
  uint64_t seed = 1;
  int threads = 0;                       // 0: as many as the machine has
  int64_t worst_case_fragmentation = 0;  // bytes: good enough, stop there (idealloc, section 5.1)
  const std::atomic<bool>* cancel = nullptr;  // when it becomes true the best plan is returned
  BufferName name;                            // of the buffers, in messages
  // Called with every better makespan, from any thread but never two at once. May be empty.
  std::function<void(int64_t makespan, std::string_view finder)> on_improvement;
};

struct StrategyInfo {
  std::string_view name;
  std::string_view summary;  // one line, with its source
};

// Every strategy, in the order of `reprise plan --strategy list`.
const std::vector<StrategyInfo>& Strategies();

// Solves the instance. Errors: InvalidArgument for an invalid instance or an unknown strategy;
// ResourceExhausted when the capacity cannot be kept ("at least X needed"); Internal when the
// checker refused the plan (a bug of ours: the plan is never returned).
// Thread-safe: calls share nothing.
absl::StatusOr<Plan> Solve(const Instance& instance, const Options& options);

// The most bytes live at one instant, sizes rounded to the alignment; gaps are honoured.
int64_t MaxLoad(const Instance& instance);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SOLVE_H_
