// Ends a search that is close to its bound and improves no more: the plan is within 0.1 % of the
// bound, and for as long again as the best plan took to be found, and one second at least, nothing
// better came.
#ifndef REPRISE_PLANNER_CORE_FLAT_CURVE_H_
#define REPRISE_PLANNER_CORE_FLAT_CURVE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "planner/core/options.h"

namespace reprise::planner {

// One per call to Solve, in its thread.
class FlatCurve {
 public:
  // `options` outlives it.
  explicit FlatCurve(const Options& options, double least_seconds = 1);
  ~FlatCurve() { End(); }
  FlatCurve(const FlatCurve&) = delete;
  FlatCurve& operator=(const FlatCurve&) = delete;

  // What to search with: the caller's, or those that this one ends.
  const Options& options() const { return options_; }

  // From now on. `bound`: bytes; no plan is better.
  void Watch(int64_t bound);
  // No longer. Says that the curve was flat, if it was.
  void End();

 private:
  bool IsFlat(int64_t bound, double now) const;
  double Seconds() const;

  const Options& given_;
  const double least_seconds_;
  const bool active_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Options options_;
  std::atomic<bool> stop_ = false;  // what options_.cancel points at
  bool flat_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  int64_t makespan_ = INT64_MAX;  // bytes, of the best plan
  double found_at_ = 0;           // seconds
  std::thread watcher_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_FLAT_CURVE_H_
