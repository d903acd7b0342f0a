// Small random instances, and oracles that are too simple to be wrong.
#ifndef REPRISE_TESTS_UNIT_PLANNER_RANDOM_H_
#define REPRISE_TESTS_UNIT_PLANNER_RANDOM_H_

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "planner/core/instance.h"

namespace reprise::planner {

// Seconds that no search of a test uses up, however slow the machine: its iterations end it.
inline constexpr double kAmple = 600;

// Of the whole process: what a busy machine does to a search is not in it.
inline double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Shape {
  int buffers = 8;
  int horizon = 12;
  int most = 9;              // size
  bool constrained = false;  // gaps, alignments, fixed offsets, start address
};

inline Instance RandomInstance(uint64_t seed, const Shape& shape) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Instance instance;
  for (int i = 0; i < shape.buffers; ++i) {
    const int64_t lower = below(shape.horizon);
    const int64_t upper = lower + 1 + below(shape.horizon - lower);
    instance.buffers.push_back({lower, upper, 1 + below(shape.most)});
  }
  if (!shape.constrained) return instance;
  instance.alignment = int64_t{1} << below(3);
  instance.start_address = below(20);
  if (below(2) == 0) {
    for (int i = 0; i < shape.buffers; ++i) {
      instance.alignments.push_back(int64_t{1} << below(4));
    }
  }
  for (uint32_t i = 0; i < instance.buffers.size(); ++i) {
    const Buffer& b = instance.buffers[i];
    if (b.upper - b.lower < 2 || below(2) == 0) continue;
    const int64_t lower = b.lower + below(b.upper - b.lower);
    const int64_t upper = lower + 1 + below(b.upper - lower);
    const int64_t window = below(b.size + 1);
    instance.gaps.push_back({i, lower, upper, below(window + 1), window});
  }
  if (below(2) == 0) {
    // Fixed ones far apart never contradict each other.
    instance.fixed_offsets.assign(shape.buffers, Instance::kFree);
    const int64_t i = below(shape.buffers);
    const int64_t alignment = std::max<int64_t>(
        instance.alignment, instance.alignments.empty() ? 1 : instance.alignments[i]);
    const int64_t address = RoundUp(instance.start_address + below(30), alignment);
    instance.fixed_offsets[i] = address - instance.start_address;
  }
  return instance;
}

// The part of buffer `i` in use at `time`, in bytes from its offset.
inline std::pair<int64_t, int64_t> InUse(const Instance& instance, uint32_t i, int64_t time) {
  const Buffer& b = instance.buffers[i];
  if (time < b.lower || time >= b.upper) return {0, 0};
  for (const Gap& gap : instance.gaps) {
    if (gap.buffer == i && time >= gap.lower && time < gap.upper) {
      return {gap.window_lower, gap.window_upper};
    }
  }
  return {0, RoundUp(b.size, instance.alignment)};
}

// Every instant between the first birth and the last death.
inline std::vector<int64_t> Instants(const Instance& instance) {
  std::set<int64_t> times;
  for (const Buffer& b : instance.buffers) {
    for (int64_t t = b.lower; t < b.upper; ++t) times.insert(t);
  }
  return {times.begin(), times.end()};
}

// The pairs that share a byte at some instant.
inline std::set<std::pair<uint32_t, uint32_t>> OverlapsByBrute(
    const Instance& instance, const std::vector<int64_t>& offsets) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const int64_t t : Instants(instance)) {
    for (uint32_t i = 0; i < offsets.size(); ++i) {
      const auto [a, b] = InUse(instance, i, t);
      for (uint32_t j = i + 1; j < offsets.size(); ++j) {
        const auto [c, d] = InUse(instance, j, t);
        if (a == b || c == d) continue;
        if (offsets[i] + a < offsets[j] + d && offsets[j] + c < offsets[i] + b)
          pairs.insert({i, j});
      }
    }
  }
  return pairs;
}

inline int64_t MaxLoadByBrute(const Instance& instance) {
  int64_t most = 0;
  for (const int64_t t : Instants(instance)) {
    int64_t load = 0;
    for (uint32_t i = 0; i < instance.buffers.size(); ++i) {
      const auto [a, b] = InUse(instance, i, t);
      load += b - a;
    }
    most = std::max(most, load);
  }
  return most;
}

// The least makespan of an instance without gaps: some order of placing each
// buffer as low as it goes is optimal, so all orders are tried.
class OptimumByBrute {
 public:
  explicit OptimumByBrute(const Instance& instance) : instance_(instance) {
    offsets_.assign(instance.buffers.size(), -1);
    best_ = INT64_MAX;
    least_ = MaxLoadByBrute(instance);
    int64_t fixed_end = 0;
    for (uint32_t i = 0; i < instance.fixed_offsets.size(); ++i) {
      if (instance.fixed_offsets[i] == Instance::kFree) continue;
      offsets_[i] = instance.fixed_offsets[i];
      fixed_end = std::max(fixed_end, offsets_[i] + Size(i));
    }
    Descend(fixed_end);
  }
  int64_t makespan() const { return best_; }

 private:
  void Descend(int64_t makespan) {
    if (makespan >= best_ || best_ == least_) return;
    bool complete = true;
    for (uint32_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] >= 0) continue;
      complete = false;
      offsets_[i] = Lowest(i);
      Descend(std::max(makespan, offsets_[i] + Size(i)));
      offsets_[i] = -1;
    }
    if (complete) best_ = makespan;
  }

  int64_t Size(uint32_t i) const { return RoundUp(instance_.buffers[i].size, instance_.alignment); }

  int64_t Lowest(uint32_t i) const {
    const int64_t alignment = std::max<int64_t>(
        instance_.alignment, instance_.alignments.empty() ? 1 : instance_.alignments[i]);
    const auto align = [&](int64_t offset) {
      return RoundUp(instance_.start_address + offset, alignment) - instance_.start_address;
    };
    int64_t offset = align(0);
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t j = 0; j < offsets_.size(); ++j) {
        const Buffer& a = instance_.buffers[i];
        const Buffer& b = instance_.buffers[j];
        if (offsets_[j] < 0 || a.lower >= b.upper || b.lower >= a.upper) continue;
        if (offset < offsets_[j] + Size(j) && offsets_[j] < offset + Size(i)) {
          offset = align(offsets_[j] + Size(j));
          moved = true;
        }
      }
    }
    return offset;
  }

  const Instance& instance_;
  std::vector<int64_t> offsets_;
  int64_t best_;
  int64_t least_;  // no makespan is below the max load
};

// Whether the last buffer that has an offset shares a byte with one before it.
inline bool LastOverlaps(const Instance& instance, const std::vector<int64_t>& offsets) {
  const auto last = static_cast<uint32_t>(offsets.size() - 1);
  for (int64_t t = instance.buffers[last].lower; t < instance.buffers[last].upper; ++t) {
    const auto [a, b] = InUse(instance, last, t);
    for (uint32_t j = 0; j < last && a < b; ++j) {
      const auto [c, d] = InUse(instance, j, t);
      if (c < d && offsets[last] + a < offsets[j] + d && offsets[j] + c < offsets[last] + b) {
        return true;
      }
    }
  }
  return false;
}

// Whether all buffers can be put below `capacity`, whatever the instance asks for: every legal
// offset of every buffer is tried.
inline bool FitsByBrute(const Instance& instance, int64_t capacity, std::vector<int64_t>& offsets) {
  const auto i = static_cast<uint32_t>(offsets.size());
  if (i == instance.buffers.size()) return true;
  const int64_t given =
      instance.fixed_offsets.empty() ? Instance::kFree : instance.fixed_offsets[i];
  const int64_t alignment = std::max<int64_t>(
      instance.alignment, instance.alignments.empty() ? 1 : instance.alignments[i]);
  const int64_t size = RoundUp(instance.buffers[i].size, instance.alignment);
  for (int64_t offset = 0; offset + size <= capacity; ++offset) {
    if (given != Instance::kFree && offset != given) continue;
    if ((instance.start_address + offset) % alignment != 0) continue;
    offsets.push_back(offset);
    if (!LastOverlaps(instance, offsets) && FitsByBrute(instance, capacity, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

}  // namespace reprise::planner

#endif  // REPRISE_TESTS_UNIT_PLANNER_RANDOM_H_
