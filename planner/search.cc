#include "planner/search.h"

namespace reprise::planner {

bool Record::Beats(int64_t makespan, int64_t rank) const {
  const std::lock_guard lock(mutex_);
  return makespan < makespan_ || (makespan == makespan_ && rank < rank_);
}

void Record::Offer(Addresses&& addresses, int64_t makespan, std::string_view finder, int64_t rank) {
  const std::lock_guard lock(mutex_);
  const bool better = makespan < makespan_;
  if (!better && (makespan > makespan_ || rank >= rank_)) return;
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

bool Search::OutOfTime() const { return Cancelled() || seconds() >= options.budget_seconds; }

}  // namespace reprise::planner
