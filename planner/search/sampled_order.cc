#include "planner/search/sampled_order.h"

#include <bit>
#include <cmath>

#include "planner/core/sort.h"

namespace reprise::planner {

OrderSampler::OrderSampler(const Problem& problem) : problem_(problem) {
  const std::vector<int64_t> most = MaxLoadInSpan(problem);
  load_.resize(problem.size());
  size_.resize(problem.size());
  span_.resize(problem.size());
  for (uint32_t j = 0; j < problem.size(); ++j) {
    load_[j] = static_cast<float>(std::log(static_cast<double>(std::max<int64_t>(most[j], 1))));
    size_[j] = static_cast<float>(std::log(static_cast<double>(problem.jobs[j].size)));
    span_[j] = static_cast<float>(std::log(static_cast<double>(problem.lifespan(j))));
  }
}

std::vector<uint32_t> OrderSampler::Draw(Random& random) const {
  const uint32_t n = problem_.size();
  // The tangent reaches from "does not matter" to "nothing else does".
  const double a = std::tan(random.Unit() * 1.57);
  const double b = random.Unit() * 2;
  const double g = random.Unit() * 2 - 0.5;
  const double jitter = random.Below(4) == 0 ? 0 : std::pow(random.Unit(), 3);
  const uint64_t tie = random.Below(5);

  std::vector<KeyedId> keyed(n);
  std::vector<KeyedId> scratch;
  for (uint32_t j = 0; j < n; ++j) {
    const Job& job = problem_.jobs[j];
    keyed[j].id = j;
    switch (tie) {
      case 0:
        keyed[j].key = job.lower;
        break;
      case 1:
        keyed[j].key = ~uint64_t{job.lower};
        break;
      case 2:
        keyed[j].key = job.upper;
        break;
      case 3:
        keyed[j].key = ~uint64_t{job.upper};
        break;
      default:
        keyed[j].key = random.Next();
        break;
    }
  }
  SortByKey(keyed, scratch);
  for (KeyedId& k : keyed) {
    double score = a * load_[k.id] + b * size_[k.id] + g * span_[k.id];
    if (jitter > 0) score += jitter * random.Unit();
    // Descending; the tie rule holds where floats are equal.
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(score));
    k.key = (bits >> 31) != 0 ? bits : 0x7fffffff - bits;
  }
  SortByKey(keyed, scratch);
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = keyed[i].id;
  return order;
}

}  // namespace reprise::planner
