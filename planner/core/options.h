// What a caller of the planner may choose.
#ifndef REPRISE_PLANNER_CORE_OPTIONS_H_
#define REPRISE_PLANNER_CORE_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "planner/core/instance.h"

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
  // When set, the search also ends where its curve has flattened (flat_curve.h), and this is called
  // then. Without effect when iterations are given, or plans for two seconds or less.
  std::function<void()> on_flat{};
};

struct StrategyInfo {
  std::string_view name;
  std::string_view summary;     // one line, with its source
  std::string_view alias_of{};  // the strategy that does the same; empty: this is one itself
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_OPTIONS_H_
