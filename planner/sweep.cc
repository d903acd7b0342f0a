#include "planner/sweep.h"

#include <algorithm>

#include "planner/free_blocks.h"
#include "planner/strategy.h"

namespace reprise::planner {

// Buffers born in the same section are all live together, so their order is ours: the largest
// first.
void RunSweepBestFit(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  const Groups deaths = Deaths(problem);
  Groups births = Births(problem);
  FreeBlocks space;
  Addresses addresses(problem.size());
  std::vector<uint32_t> handles(problem.size());
  for (uint32_t s = 0; s < problem.sections; ++s) {
    for (uint32_t d = deaths.first[s]; d < deaths.first[s + 1]; ++d) {
      space.Free(handles[deaths.ids[d]]);
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
      handles[*job] = space.Take(problem.jobs[*job].size);
      addresses[*job] = space.address(handles[*job]);
    }
  }
  search.record.Offer(std::move(addresses), space.top(), name, 0);
}

}  // namespace reprise::planner
