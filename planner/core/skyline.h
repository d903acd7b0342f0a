// The skyline of a packing that grows from below: the height reached in each section.
#ifndef REPRISE_PLANNER_CORE_SKYLINE_H_
#define REPRISE_PLANNER_CORE_SKYLINE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

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

// The same with the least height of every block of sections kept up to date, for a search that
// looks for the lowest valley after every change.
class Skyline {
 public:
  explicit Skyline(uint32_t sections)
      : sections_(sections),
        heights_(sections + 2, kSky),
        least_((sections + kBlock - 1) / kBlock) {}

  void Clear() {
    std::fill(heights_.begin() + 1, heights_.end() - 1, 0);
    std::fill(least_.begin(), least_.end(), 0);
  }

  int64_t operator[](uint32_t section) const { return heights_[section + 1]; }

  void Set(uint32_t lower, uint32_t upper, int64_t height) {
    std::fill(heights_.begin() + lower + 1, heights_.begin() + upper + 1, height);
    for (uint32_t block = lower / kBlock; block * kBlock < upper; ++block) {
      const auto from = heights_.begin() + block * kBlock + 1;
      const auto to = heights_.begin() + std::min((block + 1) * kBlock, sections_) + 1;
      const bool whole = lower <= block * kBlock && (block + 1) * kBlock <= upper;
      least_[block] = whole ? height : *std::min_element(from, to);
    }
  }

  Valley At(uint32_t section) const {
    uint32_t lower = section + 1;
    uint32_t upper = section + 2;
    const int64_t floor = heights_[lower];
    while (heights_[lower - 1] == floor) --lower;
    while (heights_[upper] == floor) ++upper;
    return {lower - 1, upper - 1, floor, heights_[lower - 1], heights_[upper]};
  }

  // The leftmost of the lowest ones.
  Valley Lowest() const {
    const auto block = std::min_element(least_.begin(), least_.end());
    auto section = static_cast<uint32_t>(block - least_.begin()) * kBlock;
    while (heights_[section + 1] != *block) ++section;
    return At(section);
  }

 private:
  static constexpr uint32_t kBlock = 16;

  uint32_t sections_;
  std::vector<int64_t> heights_;  // of section s at s + 1
  std::vector<int64_t> least_;    // per block
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_SKYLINE_H_
