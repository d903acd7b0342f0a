// The skyline of a packing that grows from below: the height reached in each section.
#ifndef REPRISE_PLANNER_SKYLINE_H_
#define REPRISE_PLANNER_SKYLINE_H_

#include <algorithm>
#include <cstdint>

namespace reprise::planner {

// Heights are arrays with the height of section s at s + 1, between two of kSky.
inline constexpr int64_t kSky = INT64_MAX / 2;

// The sections [lower, upper), all at `floor`, between two higher ones.
struct Valley {
  uint32_t lower;
  uint32_t upper;
  int64_t floor;
  int64_t left;  // the heights of its neighbours
  int64_t right;
  int64_t rim() const { return std::min(left, right); }
};

// That to which section `s` belongs.
inline Valley ValleyAt(const int64_t* height, uint32_t s) {
  const int64_t floor = height[s + 1];
  uint32_t lower = s + 1;
  while (height[lower - 1] == floor) --lower;
  uint32_t upper = s + 2;
  while (height[upper] == floor) ++upper;
  return {lower - 1, upper - 1, floor, height[lower - 1], height[upper]};
}

// The leftmost of the lowest ones.
inline Valley LowestValley(const int64_t* height, uint32_t sections) {
  int64_t floor = kSky;
  for (uint32_t s = 1; s <= sections; ++s) floor = std::min(floor, height[s]);
  uint32_t lower = 1;
  while (height[lower] != floor) ++lower;
  uint32_t upper = lower + 1;
  while (height[upper] == floor) ++upper;
  return {lower - 1, upper - 1, floor, height[lower - 1], height[upper]};
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SKYLINE_H_
