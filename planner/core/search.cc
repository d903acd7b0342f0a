#include "planner/core/search.h"

#include <algorithm>

namespace reprise::planner {

int64_t Incumbent::Limit(int64_t rank) const {
  const std::lock_guard lock(mutex_);
  const int64_t makespan = std::max(makespan_.load(), target_);
  return rank < rank_ && makespan < INT64_MAX ? makespan + 1 : makespan;
}

void Incumbent::Offer(Addresses&& addresses, int64_t makespan, const std::string& finder,
                      int64_t rank) {
  const std::lock_guard lock(mutex_);
  const int64_t old_worth = std::max(makespan_.load(), target_);
  const int64_t worth = std::max(makespan, target_);
  if (worth > old_worth || (worth == old_worth && rank >= rank_)) return;
  const bool better = makespan < makespan_;
  makespan_ = makespan;
  rank_ = rank;
  addresses_ = std::move(addresses);
  finder_ = finder;
  if (better && options_.on_improvement) {
    options_.on_improvement(problem_.ToBytes(makespan), finder);
  }
}

double Search::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool Search::Cancelled() const {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

double Search::SecondsLeft() const {
  if (Cancelled()) return 0;
  return std::max(0.0, options.budget_seconds - seconds() - check_seconds);
}

bool Search::OutOfTime() const { return SecondsLeft() <= 0; }

bool Search::Stop(int64_t rank) const {
  // With a number of iterations given, attempts of lower rank than the winner's finish, so that the
  // same one wins always.
  return OutOfTime() ||
         (options.iterations > 0 ? incumbent.Settled(rank) : incumbent.reached_target());
}

void Search::RaiseBound(int64_t bound) {
  lower_bound = std::max(lower_bound, bound);
  const int64_t good = std::max<int64_t>(options.worst_case_fragmentation, 0) / problem.unit;
  incumbent.set_target(lower_bound + std::min(good, INT64_MAX - lower_bound));
}

}  // namespace reprise::planner
