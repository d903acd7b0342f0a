// What must be true of every block that a lane gives out: it is aligned, and shares no byte with a
// live one.
#ifndef REPRISE_TESTS_UNIT_ARENA_LIVE_MODEL_H_
#define REPRISE_TESTS_UNIT_ARENA_LIVE_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace reprise::replay {

class LiveModel {
 public:
  void Place(char* pointer, uint64_t bytes, uint64_t alignment) {
    ASSERT_EQ(reinterpret_cast<uint64_t>(pointer) % alignment, 0u);
    const auto begin = reinterpret_cast<uint64_t>(pointer);
    const uint64_t end = begin + std::max<uint64_t>(bytes, 1);
    const auto after = live_.lower_bound(begin);
    if (after != live_.end()) {
      ASSERT_LE(end, after->first) << "overlaps the block above";
    }
    if (after != live_.begin()) {
      ASSERT_LE(std::prev(after)->second, begin) << "overlaps the block below";
    }
    live_[begin] = end;
  }
  void Free(char* pointer) { live_.erase(reinterpret_cast<uint64_t>(pointer)); }
  size_t size() const { return live_.size(); }

 private:
  std::map<uint64_t, uint64_t> live_;  // begin -> end
};

}  // namespace reprise::replay

#endif  // REPRISE_TESTS_UNIT_ARENA_LIVE_MODEL_H_
