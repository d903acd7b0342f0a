// Local search on orders of execution.
#ifndef REPRISE_PLANNER_GRAPH_LOCAL_SEARCH_H_
#define REPRISE_PLANNER_GRAPH_LOCAL_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/core/random.h"
#include "planner/graph/memory_model.h"

namespace reprise::planner::graph {

// Changes an order step by step. A step takes a storage that is open at a step of the peak and
// closes it earlier (its closers, with what they wait for, move in front of the peak) or opens it
// later (its openers, with what waits for them, move behind it). A new order is kept when its peak,
// or else what it needs near the peak, is no higher; for a while also when it is a little higher.
class LocalSearch {
 public:
  // `order` is one of the model. Loads are evaluated anew only where nodes have moved.
  LocalSearch(const MemoryModel& model, std::vector<uint32_t> order);

  // At most `steps`, until `stop`, or until the peak is at or below `good`.
  void Run(int64_t steps, int64_t good, Random& random, const std::function<bool()>& stop);

  const std::vector<uint32_t>& best() const { return best_; }
  int64_t best_peak() const { return best_peak_; }

 private:
  struct Height {
    int64_t peak;
    double near;  // bytes above a mark near the peak, summed over steps
  };
  Height Evaluate(uint32_t from, uint32_t to, const std::vector<uint32_t>& order);
  bool Propose(Random& random);
  bool CloseEarlier(uint32_t storage, uint32_t step, Random& random);
  bool OpenLater(uint32_t storage, uint32_t step, Random& random);

  const MemoryModel& model_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> place_;
  std::vector<int64_t> load_;   // while the node at a place runs
  std::vector<uint32_t> next_;  // the proposal: order_ changed within [from_, to_)
  uint32_t from_ = 0;
  uint32_t to_ = 0;
  std::vector<int64_t> next_load_;
  std::vector<uint32_t> next_place_;
  std::vector<uint32_t> mark_;  // of nodes: the round in which they were seen
  uint32_t round_ = 0;
  int64_t peak_ = 0;
  std::vector<uint32_t> best_;
  int64_t best_peak_ = 0;
};

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_LOCAL_SEARCH_H_
