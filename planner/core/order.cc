#include "planner/core/order.h"

#include <bit>
#include <functional>

#include "planner/core/sort.h"

namespace reprise::planner {
namespace {

// By keys(id), the most important first, ascending; then by index.
template <typename... Keys>
std::vector<uint32_t> Sorted(const Problem& problem, Keys... keys) {
  std::vector<KeyedId> keyed(problem.size());
  std::vector<KeyedId> scratch;
  for (uint32_t i = 0; i < problem.size(); ++i) keyed[i].id = i;
  // The least important first: the sort is stable.
  const std::function<uint64_t(uint32_t)> list[] = {keys...};
  for (size_t k = sizeof...(keys); k-- > 0;) {
    for (KeyedId& item : keyed) item.key = list[k](item.id);
    SortByKey(keyed, scratch);
  }
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
  const auto death = [&](uint32_t i) { return Descending(problem.instance->buffers[i].upper); };
  const auto latest = [&](uint32_t i) { return Descending(problem.instance->buffers[i].lower); };
  const auto area = [&](uint32_t i) {
    return DescendingReal(static_cast<double>(problem.jobs[i].size) *
                          static_cast<double>(problem.lifespan(i)));
  };
  if (name == "size") return Sorted(problem, size, lifespan);
  if (name == "area") return Sorted(problem, area, size);
  if (name == "lifespan") return Sorted(problem, lifespan, size);
  if (name == "breadth") {
    const auto breadth = [&](uint32_t i) {
      const Job& job = problem.jobs[i];
      return Descending(job.lower < job.upper ? problem.load[job.lower] : 0);
    };
    return Sorted(problem, breadth, size, lifespan);
  }
  if (name == "alignment") {
    const auto alignment = [&](uint32_t i) { return Descending(problem.alignment(i)); };
    // What the next one leaves free between them; nothing is lost above the last.
    const auto waste = [&](uint32_t i) {
      const int64_t step = problem.alignment(i);
      return Ascending(RoundUp(problem.jobs[i].size, step) - problem.jobs[i].size);
    };
    return Sorted(problem, alignment, waste, size, lifespan);
  }
  if (name == "birth") return Sorted(problem, birth, size);
  if (name.substr(0, 8) == "max_load") {
    const std::vector<int64_t> most = MaxLoadInSpan(problem);
    const auto load = [&](uint32_t i) { return Descending(most[i]); };
    if (name == "max_load") return Sorted(problem, load, size, death);
    if (name == "max_load_latest") return Sorted(problem, load, size, latest);
    if (name == "max_load_earliest") return Sorted(problem, load, size, birth);
    if (name == "max_load_area") return Sorted(problem, load, area);
    if (name == "max_load_lifespan") return Sorted(problem, load, lifespan);
  }
  return {};
}

}  // namespace reprise::planner
