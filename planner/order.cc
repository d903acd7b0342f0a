#include "planner/order.h"

#include <bit>

#include "planner/sort.h"

namespace reprise::planner {
namespace {

// By `first`, then by `second`, both ascending, then by index.
template <typename First, typename Second>
std::vector<uint32_t> Sorted(const Problem& problem, First first, Second second) {
  std::vector<KeyedId> keyed(problem.size());
  std::vector<KeyedId> scratch;
  for (uint32_t i = 0; i < problem.size(); ++i) keyed[i] = {second(i), i};
  SortByKey(keyed, scratch);
  for (KeyedId& k : keyed) k.key = first(k.id);
  SortByKey(keyed, scratch);
  std::vector<uint32_t> order(problem.size());
  for (uint32_t i = 0; i < problem.size(); ++i) order[i] = keyed[i].id;
  return order;
}

}  // namespace

uint64_t DescendingReal(double value) { return ~std::bit_cast<uint64_t>(value); }

std::vector<uint32_t> OrderByName(const Problem& problem, std::string_view name) {
  const auto size = [&](uint32_t i) { return Descending(problem.jobs[i].size); };
  const auto lifespan = [&](uint32_t i) { return Descending(problem.lifespan(i)); };
  const auto birth = [&](uint32_t i) { return Ascending(problem.instance->buffers[i].lower); };
  const auto area = [&](uint32_t i) {
    return DescendingReal(static_cast<double>(problem.jobs[i].size) *
                          static_cast<double>(problem.lifespan(i)));
  };
  if (name == "size") return Sorted(problem, size, lifespan);
  if (name == "area") return Sorted(problem, area, size);
  if (name == "lifespan") return Sorted(problem, lifespan, size);
  if (name == "birth") return Sorted(problem, birth, size);
  if (name.substr(0, 8) == "max_load") {
    const std::vector<int64_t> most = MaxLoadInSpan(problem);
    const auto load = [&](uint32_t i) { return Descending(most[i]); };
    if (name == "max_load") return Sorted(problem, load, size);
    if (name == "max_load_area") return Sorted(problem, load, area);
    if (name == "max_load_lifespan") return Sorted(problem, load, lifespan);
  }
  return {};
}

}  // namespace reprise::planner
