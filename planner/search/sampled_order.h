// Random orders near those that are known to be good.
#ifndef REPRISE_PLANNER_SEARCH_SAMPLED_ORDER_H_
#define REPRISE_PLANNER_SEARCH_SAMPLED_ORDER_H_

#include <cstdint>
#include <vector>

#include "planner/core/problem.h"
#include "planner/core/random.h"

namespace reprise::planner {

// Draws orders by max_load^A * size^B * lifespan^G with jitter, where max_load is that in the
// buffer's span, and A, B, G are drawn anew each time; some are lexicographic instead, and ties are
// broken by a drawn rule, because ties decide. Thread-safe after construction.
class OrderSampler {
 public:
  explicit OrderSampler(const Problem& problem);
  std::vector<uint32_t> Draw(Random& random) const;

 private:
  const Problem& problem_;
  std::vector<float> load_;  // logarithms
  std::vector<float> size_;
  std::vector<float> span_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_SAMPLED_ORDER_H_
