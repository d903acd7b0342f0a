#include <algorithm>

#include "planner/core/runs.h"

namespace reprise::planner {

// Nothing is shared, so gaps and lifetimes do not matter; free jobs start above the fixed ones.
void RunBump(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  Addresses addresses(problem.size(), -1);
  int64_t top = 0;
  for (const uint32_t job : problem.fixed) {
    addresses[job] = problem.fixed_address(job);
    top = std::max(top, addresses[job] + problem.jobs[job].size);
  }
  for (uint32_t job = 0; job < problem.size(); ++job) {
    if (addresses[job] >= 0) continue;
    addresses[job] = problem.AlignUp(job, top);
    top = addresses[job] + problem.jobs[job].size;
  }
  search.incumbent.Offer(std::move(addresses), top, name, 0);
}

}  // namespace reprise::planner
