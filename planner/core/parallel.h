// The one way in which strategies use threads.
#ifndef REPRISE_PLANNER_CORE_PARALLEL_H_
#define REPRISE_PLANNER_CORE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <vector>

namespace reprise::planner {

// Calls task(index, worker) for each index below `count`, in rising order, on up to `threads`
// workers; the calling thread is worker 0. `task` returns false when no later index need start.
// Returns when all started ones have ended, and throws what one of them threw (std::bad_alloc).
// Where the system gives no more threads there are fewer workers.
template <typename Task>
void ParallelFor(int threads, int64_t count, Task task) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> go_on{true};
  const auto work = [&](int worker) {
    try {
      while (go_on) {
        const int64_t index = next++;
        if (index >= count) return;
        if (!task(index, worker)) go_on = false;
      }
    } catch (...) {
      go_on = false;
      throw;
    }
  };
  // `deferred` is for a thread that cannot be had: its work is done by get(), if any is left.
  constexpr auto kThread = std::launch::async | std::launch::deferred;
  std::vector<std::future<void>> others;
  const int workers = static_cast<int>(std::min<int64_t>(threads, count));
  for (int worker = 1; worker < workers; ++worker) {
    others.push_back(std::async(kThread, work, worker));
  }
  work(0);
  for (std::future<void>& other : others) other.get();
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_PARALLEL_H_
