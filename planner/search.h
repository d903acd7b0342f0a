// What a strategy gets to work with: the problem, when to stop, and the record to beat.
#ifndef REPRISE_PLANNER_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "planner/problem.h"
#include "planner/solve.h"

namespace reprise::planner {

// One address per job, in units; see Problem.
using Addresses = std::vector<int64_t>;

// The best packing so far. Thread-safe. Of two packings with the same makespan that of the lower
// rank wins, so that the outcome does not depend on which thread came first.
class Record {
 public:
  explicit Record(const Options& options, const Problem& problem)
      : options_(options), problem_(problem) {}

  // The makespan to beat, in units. INT64_MAX: there is none yet.
  int64_t makespan() const { return makespan_.load(std::memory_order_relaxed); }

  // Whether a packing of this makespan and rank would be kept.
  bool Beats(int64_t makespan, int64_t rank) const;

  // Keeps the packing if it is better.
  void Offer(Addresses&& addresses, int64_t makespan, std::string_view finder, int64_t rank);

  // After all threads have ended.
  Addresses& addresses() { return addresses_; }
  const std::string& finder() const { return finder_; }

 private:
  const Options& options_;
  const Problem& problem_;
  mutable std::mutex mutex_;
  std::atomic<int64_t> makespan_{INT64_MAX};
  std::atomic<int64_t> rank_{INT64_MAX};
  Addresses addresses_;
  std::string finder_;
};

// One call to Solve. Strategies read it from any thread; only `record` changes.
struct Search {
  const Problem& problem;
  const Options& options;
  Record& record;
  std::chrono::steady_clock::time_point start;
  // Raised by a proof that nothing better exists than the record.
  std::atomic<bool> exhausted{false};
  // A makespan that is as good as any: the lower bound plus the fragmentation the caller allows.
  int64_t target = 0;
  int threads = 1;

  double seconds() const;
  // The caller cancelled, or the budget is spent. Without `iterations` an improving strategy also
  // stops at a fixed number of rounds of its own, if it has one.
  bool OutOfTime() const;
  bool Cancelled() const;
  // The record needs no improvement.
  bool Done() const { return record.makespan() <= target || exhausted.load(); }
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_H_
