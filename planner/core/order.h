// Orders in which buffers are placed.
#ifndef REPRISE_PLANNER_CORE_ORDER_H_
#define REPRISE_PLANNER_CORE_ORDER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/core/problem.h"

namespace reprise::planner {

// The jobs in a named order. Every order ends with the index, so it is the same everywhere:
//   size               size, lifespan, descending
//   area               size x lifespan, size, descending
//   lifespan           lifespan, size, descending
//   alignment          alignment, size, lifespan, descending
//   birth              birth ascending, size descending
//   breadth            the load at birth, size, lifespan, descending
//   max_load           the max load within the span, size, death, descending
//   max_load_latest    the max load within the span, size, birth, descending
//   max_load_earliest  the max load within the span, size, descending, birth ascending
//   max_load_area      the max load within the span, area, descending
//   max_load_lifespan  the max load within the span, lifespan, descending
// Empty when there is no such order.
std::vector<uint32_t> OrderByName(const Problem& problem, std::string_view name);

// A double as a key: descending, for values >= 0.
uint64_t DescendingReal(double value);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_ORDER_H_
