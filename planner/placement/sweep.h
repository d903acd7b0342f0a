// The jobs grouped by the section in which they are born and in which they are dead.
#ifndef REPRISE_PLANNER_PLACEMENT_SWEEP_H_
#define REPRISE_PLANNER_PLACEMENT_SWEEP_H_

#include <cstdint>
#include <vector>

#include "planner/core/problem.h"
#include "planner/placement/free_blocks.h"

namespace reprise::planner {

// Ids grouped by a number: those of group g are ids[first[g]] .. ids[first[g + 1]], ascending.
struct Groups {
  std::vector<uint32_t> first;
  std::vector<uint32_t> ids;
};

// Groups 0..n-1 by group(id) < groups. Linear.
template <typename Group>
Groups GroupBy(uint32_t n, uint32_t groups, Group group) {
  Groups result;
  result.first.assign(groups + 1, 0);
  result.ids.resize(n);
  for (uint32_t i = 0; i < n; ++i) ++result.first[group(i)];
  uint32_t total = 0;
  for (uint32_t& first : result.first) {
    total += first;
    first = total;
  }
  for (uint32_t i = n; i-- > 0;) result.ids[--result.first[group(i)]] = i;
  return result;
}

inline Groups Births(const Problem& problem) {
  return GroupBy(problem.size(), problem.sections,
                 [&](uint32_t i) { return problem.jobs[i].lower; });
}

// A job's death is the first section in which it is not live; there is one group more than
// sections.
inline Groups Deaths(const Problem& problem) {
  return GroupBy(problem.size(), problem.sections + 1,
                 [&](uint32_t i) { return problem.jobs[i].upper; });
}

// When the `next`-th of those in `groups` is about to be freed: asks for the memory that the ones
// after it will need.
inline void LookAhead(const Groups& groups, uint32_t next, const std::vector<uint32_t>& handles,
                      const FreeBlocks& space) {
  constexpr uint32_t kStep = 8;
  const auto count = static_cast<uint32_t>(groups.ids.size());
  if (count - next <= 3 * kStep) return;
  __builtin_prefetch(&handles[groups.ids[next + 3 * kStep]]);
  space.WillFree(handles[groups.ids[next + 2 * kStep]]);
  space.WillMerge(handles[groups.ids[next + kStep]]);
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLACEMENT_SWEEP_H_
