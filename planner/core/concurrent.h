// Which jobs live at the same time as a given one.
#ifndef REPRISE_PLANNER_CORE_CONCURRENT_H_
#define REPRISE_PLANNER_CORE_CONCURRENT_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "planner/core/problem.h"

namespace reprise::planner {

// The jobs by birth, in blocks, and a tree over the blocks that knows the latest death below each
// node. Linear memory; nothing is kept per pair of jobs.
class Concurrent {
 public:
  explicit Concurrent(const std::vector<Job>& jobs) : jobs_(jobs), order_(jobs.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return jobs_[a].lower < jobs_[b].lower; });
    while (leaves_ * kBlock < order_.size()) leaves_ *= 2;
    latest_.assign(2 * leaves_, 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      uint32_t& latest = latest_[leaves_ + i / kBlock];
      latest = std::max(latest, jobs_[order_[i]].upper);
    }
    for (size_t node = leaves_; --node > 0;) {
      latest_[node] = std::max(latest_[2 * node], latest_[2 * node + 1]);
    }
  }

  // Calls visit(other) for the jobs that share a section with `job`, itself included, by birth.
  // O(log n) for each of them at most, O(1) where most of those that were born before do.
  template <typename Visit>
  void ForEach(const Job& job, Visit visit) const {
    const auto end = std::partition_point(order_.begin(), order_.end(), [&](uint32_t other) {
      return jobs_[other].lower < job.upper;
    });
    Descend(1, leaves_, 0, static_cast<size_t>(end - order_.begin()), job.lower, visit);
  }

 private:
  static constexpr size_t kBlock = 8;

  // Below a node that covers `width` blocks from `block` on; of the first `end` jobs.
  template <typename Visit>
  void Descend(size_t node, size_t width, size_t block, size_t end, uint32_t lower,
               Visit& visit) const {
    const size_t first = block * kBlock;
    if (first >= end || latest_[node] <= lower) return;
    if (width > 1) {
      Descend(2 * node, width / 2, block, end, lower, visit);
      Descend(2 * node + 1, width / 2, block + width / 2, end, lower, visit);
      return;
    }
    for (size_t i = first; i < std::min(end, first + kBlock); ++i) {
      if (jobs_[order_[i]].upper > lower) visit(order_[i]);
    }
  }

  const std::vector<Job>& jobs_;
  std::vector<uint32_t> order_;
  size_t leaves_ = 1;
  std::vector<uint32_t> latest_;  // per node, the root first
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_CONCURRENT_H_
