// Placement in a given order.
#ifndef REPRISE_PLANNER_PLACEMENT_FIT_H_
#define REPRISE_PLANNER_PLACEMENT_FIT_H_

#include <cstdint>
#include <vector>

#include "planner/core/occupancy.h"
#include "planner/core/search.h"

namespace reprise::planner {

enum class Fit { kFirst, kBest };

// Places all jobs in `order` around those that `addresses` places already (-1: not placed; empty:
// none); fixed jobs come first whatever the order says. Gives up, returning an
// empty vector, as soon as a job ends at or above `limit`, or when `stop` says so.
template <typename Stop>
Addresses PlaceInOrder(const Problem& problem, Occupancy& occupancy,
                       const std::vector<uint32_t>& order, Fit fit, int64_t limit, Stop stop,
                       Addresses addresses = {}) {
  occupancy.Clear();
  if (addresses.empty()) addresses.assign(problem.size(), -1);
  for (const uint32_t job : problem.fixed) addresses[job] = problem.fixed_address(job);
  for (uint32_t job = 0; job < problem.size(); ++job) {
    if (addresses[job] >= 0) occupancy.Place(job, addresses[job]);
  }
  uint32_t steps = 0;
  for (const uint32_t job : order) {
    if (addresses[job] >= 0) continue;
    if ((++steps & 255) == 0 && stop()) return {};
    const int64_t highest = limit == INT64_MAX ? limit : limit - problem.jobs[job].size - 1;
    const int64_t address =
        fit == Fit::kFirst ? occupancy.FirstFit(job, 0, highest) : occupancy.BestFit(job, highest);
    if (address > highest) return {};
    addresses[job] = address;
    occupancy.Place(job, address);
  }
  return addresses;
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLACEMENT_FIT_H_
