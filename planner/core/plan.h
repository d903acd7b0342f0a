// The answer: an offset per buffer, and what is known of its quality.
#ifndef REPRISE_PLANNER_CORE_PLAN_H_
#define REPRISE_PLANNER_CORE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::planner {

struct Plan {
  std::vector<int64_t> offsets;  // bytes; one per buffer, in instance order
  int64_t makespan = 0;          // bytes: the highest offset + rounded size
  int64_t max_load = 0;          // bytes: the most that is live at one instant, sizes rounded
  int64_t lower_bound = 0;       // bytes: no plan has a smaller makespan; >= max_load
  std::string strategy;          // the strategy that found it; for `auto`, "auto:<finder>"
  bool proven_optimal = false;   // makespan == lower_bound, or a search was exhausted
  double seconds = 0;            // wall-clock time spent
  uint64_t seed = 0;

  int64_t fragmentation() const { return makespan - max_load; }
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_PLAN_H_
