#include "planner/placement/sweep.h"

#include <algorithm>

#include "planner/core/runs.h"
#include "planner/placement/free_blocks.h"

namespace reprise::planner {

// Gaps are not made use of. Buffers born in the same section are all live together, so their order
// is ours: the largest first.
void RunSweepBestFit(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  if (!problem.fixed.empty()) return RunBestFitInOrder(search, "best_fit_by_birth");
  const int64_t least_alignment = problem.instance->alignment / problem.unit;
  const bool aligned = !problem.instance->alignments.empty();
  const bool gaps = !problem.first_piece.empty();
  const Groups deaths = Deaths(problem);
  Groups births = Births(problem);
  FreeBlocks space;
  Addresses addresses(problem.size());
  std::vector<uint32_t> handles(problem.size());
  for (uint32_t s = 0; s < problem.sections; ++s) {
    for (uint32_t d = deaths.first[s]; d < deaths.first[s + 1]; ++d) {
      LookAhead(deaths, d, handles, space);
      const uint32_t job = deaths.ids[d];
      if (!gaps || problem.jobs[job].lower < problem.jobs[job].upper) space.Free(handles[job]);
    }
    const auto begin = births.ids.begin() + births.first[s];
    const auto end = births.ids.begin() + births.first[s + 1];
    if (end - begin > 1) {
      std::sort(begin, end, [&](uint32_t a, uint32_t b) {
        const int64_t size_a = problem.jobs[a].size;
        const int64_t size_b = problem.jobs[b].size;
        return size_a != size_b ? size_a > size_b : a < b;
      });
    }
    for (auto job = begin; job != end; ++job) {
      const int64_t size = problem.jobs[*job].size;
      if (gaps && problem.jobs[*job].lower == problem.jobs[*job].upper) {  // one gap throughout
        addresses[*job] = problem.AlignUp(*job, 0);
        continue;
      }
      if (aligned && problem.alignment(*job) > least_alignment) {
        handles[*job] = space.TakeWhere(
            size, [&](int64_t lower, int64_t) { return problem.AlignUp(*job, lower); });
      } else {
        handles[*job] = space.Take(size);
      }
      addresses[*job] = space.address(handles[*job]);
    }
  }
  const int64_t makespan = Makespan(problem, addresses);
  search.incumbent.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace reprise::planner
