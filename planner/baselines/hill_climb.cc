// Hill climbing over orders, as TVM's memory planner does it: first fit in an order, then the
// buffers that reach the top change places in the order with one they conflict with, and the new
// order is kept when it is not worse, sometimes when it is.
#include <algorithm>
#include <numeric>

#include "planner/core/order.h"
#include "planner/core/random.h"
#include "planner/core/runs.h"
#include "planner/placement/fit.h"

namespace reprise::planner {
namespace {

constexpr int64_t kRounds = 500;  // without a number of iterations given

bool Conflict(const Job& a, const Job& b) { return a.lower < b.upper && b.lower < a.upper; }

// Swaps one of the jobs that end at the makespan with a job before it that it conflicts with.
bool Perturb(const Problem& problem, const Addresses& addresses, int64_t makespan,
             std::vector<uint32_t>& order, Random& random) {
  std::vector<uint32_t> tops;
  for (uint32_t at = 0; at < order.size(); ++at) {
    if (addresses[order[at]] + problem.jobs[order[at]].size == makespan) tops.push_back(at);
  }
  const uint32_t at = tops[random.Below(tops.size())];
  std::vector<uint32_t> earlier;
  for (uint32_t i = 0; i < at; ++i) {
    if (Conflict(problem.jobs[order[i]], problem.jobs[order[at]])) earlier.push_back(i);
  }
  if (earlier.empty()) return false;
  std::swap(order[earlier[random.Below(earlier.size())]], order[at]);
  return true;
}

}  // namespace

void RunHillClimb(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  Random random(search.options.seed);
  Occupancy occupancy(problem);
  std::vector<uint32_t> order = OrderByName(problem, "size");
  const auto place = [&] {
    return PlaceInOrder(problem, occupancy, order, Fit::kFirst, INT64_MAX,
                        [&] { return search.TooLate(); });
  };
  Addresses current = place();
  if (current.empty()) return;
  int64_t makespan = Makespan(problem, current);
  search.incumbent.Offer(Addresses(current), makespan, name, 0);
  const int64_t rounds = search.options.iterations > 0 ? search.options.iterations : kRounds;
  for (int64_t round = 1; round <= rounds && !search.Done() && !search.OutOfTime(); ++round) {
    const std::vector<uint32_t> before = order;
    if (!Perturb(problem, current, makespan, order, random)) continue;
    Addresses next = place();
    if (next.empty()) return;
    const int64_t next_makespan = Makespan(problem, next);
    // The chance of a step up shrinks with its height and with time.
    const double rise = static_cast<double>(next_makespan - makespan) /
                        static_cast<double>(std::max<int64_t>(problem.max_load, 1));
    const double heat = 0.02 * (1 - static_cast<double>(round) / static_cast<double>(rounds));
    if (next_makespan > makespan && random.Unit() >= ChanceOfRise(rise, heat)) {
      order = before;
      continue;
    }
    current = std::move(next);
    makespan = next_makespan;
    search.incumbent.Offer(Addresses(current), makespan, name, round);
  }
}

}  // namespace reprise::planner
