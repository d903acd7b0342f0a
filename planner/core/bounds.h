// Lower bounds above the max load, for problems with gaps, alignments or given addresses.
#ifndef REPRISE_PLANNER_CORE_BOUNDS_H_
#define REPRISE_PLANNER_CORE_BOUNDS_H_

#include <cstdint>
#include <functional>

#include "planner/core/problem.h"

namespace reprise::planner {

// What a bound may look at, about a twentieth of a second.
inline constexpr int64_t kBoundWork = 30'000'000;

// With gaps, jobs that overlap each other in pairs need not all be live at one instant. Still no
// two of them share memory. The largest total of such a set that a quick search finds, in units;
// without gaps there is none above the max load. Looks at about `work` jobs.
int64_t CliqueBound(const Problem& problem, const std::function<bool()>& stop,
                    int64_t work = kBoundWork);

// Jobs whose address is given leave holes. In each section the others fill those as far as their
// sizes add up to that, and the rest lies above. The largest end, in units.
int64_t HoleBound(const Problem& problem);

// The least end of what is live in one section, by itself, with stricter alignments; where many
// jobs are live, of the few that are aligned most strictly. The largest of the sections in which
// most is live. In units; with gaps there is none.
int64_t AlignmentBound(const Problem& problem);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_BOUNDS_H_
