#include "planner/core/flat_curve.h"

#include <algorithm>

namespace reprise::planner {

FlatCurve::FlatCurve(const Options& options, double least_seconds)
    : given_(options),
      least_seconds_(least_seconds),
      active_(options.on_flat && options.iterations == 0 &&
              options.budget_seconds > 2 * least_seconds),
      options_(options) {
  if (!active_) return;
  options_.cancel = &stop_;
  options_.on_improvement = [this](int64_t makespan, std::string_view finder) {
    {
      const std::lock_guard lock(mutex_);
      makespan_ = makespan;
      found_at_ = Seconds();
    }
    if (given_.on_improvement) given_.on_improvement(makespan, finder);
  };
}

double FlatCurve::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool FlatCurve::IsFlat(int64_t bound, double now) const {
  const bool close = makespan_ - bound <= bound / 1000;
  return close && now - found_at_ >= std::max(found_at_, least_seconds_);
}

void FlatCurve::Watch(int64_t bound) {
  if (!active_) return;
  watcher_ = std::thread([this, bound] {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      // A signal handler sets the caller's flag: nobody can wait for that.
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      if (given_.cancel != nullptr && *given_.cancel) stop_ = true;
      if (stop_ || !IsFlat(bound, Seconds())) continue;
      flat_ = true;
      stop_ = true;
    }
  });
}

void FlatCurve::End() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  watcher_.join();
  if (flat_) given_.on_flat();
}

}  // namespace reprise::planner
