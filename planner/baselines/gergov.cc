// Gergov, "Algorithms for compile-time memory optimization" (SODA 1999), as MemoMalloc runs it:
// first a packing in which jobs may overlap, whose height is near the max load; then first fit in
// the order of its addresses makes it feasible.
#include <algorithm>
#include <queue>

#include "planner/core/runs.h"
#include "planner/core/sort.h"
#include "planner/placement/fit.h"

namespace reprise::planner {
namespace {

// The jobs not yet placed, by birth; finds one that lives within given sections.
class Waiting {
 public:
  explicit Waiting(const Problem& problem) : problem_(problem) {
    for (uint32_t j = 0; j < problem.size(); ++j) keyed_.push_back({problem.jobs[j].lower, j});
    std::vector<KeyedId> scratch;
    SortByKey(keyed_, scratch);
    while (width_ < keyed_.size()) width_ *= 2;
    latest_.assign(2 * width_, 0);
    for (size_t i = 0; i < keyed_.size(); ++i) latest_[width_ + i] = Death(i);
    for (size_t i = width_; i-- > 1;) latest_[i] = std::max(latest_[2 * i], latest_[2 * i + 1]);
  }

  // The position of the first born job with lower < `upper` and upper > `lower`, or -1.
  int64_t Find(uint32_t lower, uint32_t upper) const {
    if (latest_[1] <= lower) return -1;
    size_t node = 1;
    while (node < width_) node = 2 * node + (latest_[2 * node] > lower ? 0 : 1);
    const size_t at = node - width_;
    return keyed_[at].key < upper ? static_cast<int64_t>(at) : -1;
  }

  uint32_t Remove(int64_t at) {
    size_t node = width_ + static_cast<size_t>(at);
    latest_[node] = 0;
    while (node /= 2) latest_[node] = std::max(latest_[2 * node], latest_[2 * node + 1]);
    return keyed_[at].id;
  }

 private:
  uint32_t Death(size_t at) const { return problem_.jobs[keyed_[at].id].upper; }

  const Problem& problem_;
  std::vector<KeyedId> keyed_;
  size_t width_ = 1;
  std::vector<uint32_t> latest_;  // a segment tree of deaths; 0: placed
};

// A stretch of time above which nothing is placed yet.
struct Ledge {
  int64_t height;
  uint32_t lower;
  uint32_t upper;
};

struct Higher {
  bool operator()(const Ledge& a, const Ledge& b) const {
    return a.height != b.height ? a.height > b.height : a.lower > b.lower;
  }
};

}  // namespace

void RunGergov(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  if (problem.size() == 0) return RunBump(search, name);
  Waiting waiting(problem);
  std::priority_queue<Ledge, std::vector<Ledge>, Higher> ledges;
  ledges.push({0, 0, problem.sections});
  std::vector<KeyedId> loose;
  while (!ledges.empty()) {
    const Ledge ledge = ledges.top();
    ledges.pop();
    const int64_t found = waiting.Find(ledge.lower, ledge.upper);
    if (found < 0) continue;
    // It may hang over the ends of the ledge, which is what makes the packing infeasible.
    const uint32_t job = waiting.Remove(found);
    const Job& j = problem.jobs[job];
    loose.push_back({static_cast<uint64_t>(ledge.height), job});
    const uint32_t lower = std::max(ledge.lower, j.lower);
    const uint32_t upper = std::min(ledge.upper, j.upper);
    ledges.push({ledge.height + j.size, lower, upper});
    if (ledge.lower < lower) ledges.push({ledge.height, ledge.lower, lower});
    if (upper < ledge.upper) ledges.push({ledge.height, upper, ledge.upper});
  }
  std::vector<KeyedId> scratch;
  SortByKey(loose, scratch);
  std::vector<uint32_t> order;
  std::vector<uint8_t> seen(problem.size());
  for (const KeyedId& item : loose) {
    order.push_back(item.id);
    seen[item.id] = 1;
  }
  // Jobs whose gaps leave nothing of them live in no section.
  for (uint32_t j = 0; j < problem.size(); ++j) {
    if (!seen[j]) order.push_back(j);
  }
  Occupancy occupancy(problem);
  Addresses addresses = PlaceInOrder(problem, occupancy, order, Fit::kFirst, INT64_MAX,
                                     [&] { return search.TooLate(); });
  if (addresses.empty()) return;
  const int64_t makespan = Makespan(problem, addresses);
  search.incumbent.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace reprise::planner
