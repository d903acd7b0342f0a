// Sorting of ids by integer keys, in linear time where that is faster.
#ifndef REPRISE_PLANNER_CORE_SORT_H_
#define REPRISE_PLANNER_CORE_SORT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace reprise::planner {

struct KeyedId {
  uint64_t key;
  uint32_t id;
};

// Sorts by key, ascending; equal keys keep their order. `scratch` is overwritten.
inline void SortByKey(std::vector<KeyedId>& keyed, std::vector<KeyedId>& scratch) {
  const auto less = [](const KeyedId& a, const KeyedId& b) { return a.key < b.key; };
  if (std::is_sorted(keyed.begin(), keyed.end(), less)) return;
  if (keyed.size() < 64) {
    std::stable_sort(keyed.begin(), keyed.end(), less);
    return;
  }
  constexpr int kMostBits = 11;
  const int bits = keyed.size() < 2048 ? 8 : kMostBits;  // digits that are no more than the keys
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t varying = 0;
  for (const KeyedId& k : keyed) varying |= k.key ^ keyed.front().key;
  scratch.resize(keyed.size());
  std::array<uint32_t, 1 << kMostBits> count;
  for (int shift = 0; shift < 64; shift += bits) {
    if (((varying >> shift) & mask) == 0) continue;
    std::fill_n(count.begin(), mask + 1, 0);
    for (const KeyedId& k : keyed) ++count[(k.key >> shift) & mask];
    uint32_t total = 0;
    for (uint64_t digit = 0; digit <= mask; ++digit) {
      const uint32_t here = count[digit];
      count[digit] = total;
      total += here;
    }
    for (const KeyedId& k : keyed) scratch[count[(k.key >> shift) & mask]++] = k;
    keyed.swap(scratch);
  }
}

// A key that sorts signed numbers as unsigned ones.
inline uint64_t Ascending(int64_t value) {
  return static_cast<uint64_t>(value) ^ (uint64_t{1} << 63);
}
inline uint64_t Descending(int64_t value) { return ~Ascending(value); }

// The ids 0..n-1 by time(id), ascending; ties by id. Times are counted where they are dense.
template <typename Time>
std::vector<uint32_t> OrderByTime(uint32_t n, Time time) {
  std::vector<uint32_t> order(n);
  bool sorted = true;
  int64_t least = INT64_MAX;
  int64_t most = INT64_MIN;
  for (uint32_t i = 0; i < n; ++i) {
    order[i] = i;
    sorted = sorted && (i == 0 || time(i - 1) <= time(i));
    least = std::min<int64_t>(least, time(i));
    most = std::max<int64_t>(most, time(i));
  }
  if (sorted) return order;
  const uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (range < 4 * uint64_t{n}) {
    std::vector<uint32_t> next(range + 2);
    for (uint32_t i = 0; i < n; ++i) ++next[time(i) - least + 1];
    for (uint64_t t = 0; t <= range; ++t) next[t + 1] += next[t];
    for (uint32_t i = 0; i < n; ++i) order[next[time(i) - least]++] = i;
    return order;
  }
  std::vector<KeyedId> keyed(n);
  for (uint32_t i = 0; i < n; ++i) keyed[i] = {Ascending(time(i)), i};
  std::vector<KeyedId> scratch;
  SortByKey(keyed, scratch);
  for (uint32_t i = 0; i < n; ++i) order[i] = keyed[i].id;
  return order;
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_SORT_H_
