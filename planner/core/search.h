// What a strategy gets to work with: the problem, when to stop, and the incumbent (best plan so
// far).
#ifndef REPRISE_PLANNER_CORE_SEARCH_H_
#define REPRISE_PLANNER_CORE_SEARCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/options.h"
#include "planner/core/problem.h"

namespace reprise::planner {

// One address per job, in units; see Problem.
using Addresses = std::vector<int64_t>;

// The best packing so far. Thread-safe. Makespans at or below the target count as equal, and of
// equal packings that of the lowest rank wins, so that the outcome does not depend on which thread
// was first: give every attempt a rank of its own, and start them in rising order.
class Incumbent {
 public:
  Incumbent(const Options& options, const Problem& problem, int64_t target)
      : options_(options), problem_(problem), target_(target) {}

  // The makespan to beat, in units. INT64_MAX: there is none yet.
  int64_t makespan() const { return makespan_.load(std::memory_order_relaxed); }
  bool reached_target() const { return makespan() <= target_; }

  // An attempt of this rank may give up when its makespan reaches the limit.
  int64_t Limit(int64_t rank) const;

  // No attempt of this rank can be kept any more.
  bool Settled(int64_t rank) const { return reached_target() && rank_.load() < rank; }

  // Keeps the packing if it is better.
  void Offer(Addresses&& addresses, int64_t makespan, const std::string& finder, int64_t rank);

  // When no other thread is at work.
  void set_target(int64_t target) { target_ = target; }
  Addresses& addresses() { return addresses_; }
  const std::string& finder() const { return finder_; }

 private:
  const Options& options_;
  const Problem& problem_;
  int64_t target_;
  mutable std::mutex mutex_;
  std::atomic<int64_t> makespan_{INT64_MAX};
  std::atomic<int64_t> rank_{INT64_MAX};
  Addresses addresses_;
  std::string finder_;
};

// One call to Solve.
struct Search {
  const Problem& problem;
  const Options& options;
  Incumbent& incumbent;
  std::chrono::steady_clock::time_point start;
  int threads = 1;
  double check_seconds = 0;  // what the check of the plan will take, about

  // Units: no packing ends lower. Strategies raise it through RaiseBound.
  int64_t lower_bound = 0;

  double seconds() const;
  bool Cancelled() const;
  // Of the budget, without what the check takes; 0 when the caller cancelled.
  double SecondsLeft() const;
  // None of them is left.
  bool OutOfTime() const;
  // For the only plan so far: out of time, and a sweep would be quicker.
  bool TooLate() const { return problem.fixed.empty() ? OutOfTime() : Cancelled(); }
  // For attempts that are short: out of time, or what has reached the target comes before them.
  // Those that come before it end, so that the same one wins always.
  bool Settled(int64_t rank) const { return OutOfTime() || incumbent.Settled(rank); }
  // For attempts: out of time, or of no use any more.
  bool Stop(int64_t rank) const;
  // The incumbent needs no improvement.
  bool Done() const { return incumbent.reached_target(); }

  // When no other thread is at work: no packing ends below `bound`.
  void RaiseBound(int64_t bound);
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_SEARCH_H_
