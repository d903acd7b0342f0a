// Small random periodic instances, and an oracle that runs the loop instant by instant.
#ifndef REPRISE_TESTS_UNIT_PLANNER_PERIODIC_RANDOM_H_
#define REPRISE_TESTS_UNIT_PLANNER_PERIODIC_RANDOM_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "planner/core/instance.h"

namespace reprise::planner {

struct Periodic {
  Instance instance;
  int64_t period = 1;
};

struct PeriodicShape {
  int most_slots = 7;        // of all buffers
  int longest_period = 8;    // instants
  int most = 9;              // size
  bool long_lived = true;    // some are live for more than a period
  bool constrained = false;  // gaps with windows, alignments, a fixed offset, start address
};

inline Periodic RandomPeriodic(uint64_t seed, const PeriodicShape& shape) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Periodic it;
  Instance& instance = it.instance;
  it.period = 1 + below(shape.longest_period);
  const int64_t least = shape.most_slots / 2;
  for (int64_t slots = least + below(shape.most_slots - least + 1); slots > 0;) {
    const bool several = shape.long_lived && slots > 1 && below(4) == 0;
    const int64_t lifetime =
        several ? it.period + 1 + below((std::min<int64_t>(slots, 4) - 1) * it.period)
                : 1 + below(it.period);
    const int64_t lower = below(it.period);
    instance.buffers.push_back({lower, lower + lifetime, 1 + below(shape.most)});
    slots -= (lifetime + it.period - 1) / it.period;
  }
  if (!shape.constrained) return it;
  instance.alignment = int64_t{1} << below(3);
  instance.start_address = below(20);
  const size_t n = instance.buffers.size();
  if (below(2) == 0) {
    for (size_t i = 0; i < n; ++i) instance.alignments.push_back(int64_t{1} << below(4));
  }
  std::vector<uint32_t> single;
  for (uint32_t i = 0; i < n; ++i) {
    const Buffer& b = instance.buffers[i];
    if (b.upper - b.lower > it.period) continue;
    single.push_back(i);
    if (below(2) == 0) continue;
    const int64_t lower = b.lower + below(b.upper - b.lower);
    const int64_t upper = lower + 1 + below(b.upper - lower);
    const int64_t window = below(b.size + 1);
    instance.gaps.push_back({i, lower, upper, below(window + 1), window});
  }
  if (below(2) == 0 && !single.empty()) {
    instance.fixed_offsets.assign(n, Instance::kFree);
    const uint32_t i = single[below(static_cast<int64_t>(single.size()))];
    const int64_t alignment = std::max<int64_t>(
        instance.alignment, instance.alignments.empty() ? 1 : instance.alignments[i]);
    instance.fixed_offsets[i] =
        RoundUp(instance.start_address + below(30), alignment) - instance.start_address;
  }
  return it;
}

// What every slot holds at every instant of as many iterations as the slots of all buffers need to
// come into each position, once all are in use.
class Unrolled {
 public:
  explicit Unrolled(const Periodic& it) : it_(it) {
    int64_t turns = 1;
    for (const Buffer& b : it.instance.buffers) {
      int64_t copies = 1;  // one more while the oldest is live when the next one is born
      while (b.lower + copies * it.period < b.upper) ++copies;
      for (int64_t c = 0; c < copies; ++c) slots_.push_back({Index(b), c, copies});
      turns = std::lcm(turns, copies);
      latest_ = std::max(latest_, b.upper);
    }
    end_ = latest_ + turns * it.period;
  }

  size_t slots() const { return slots_.size(); }
  uint32_t BufferOf(uint32_t slot) const { return slots_[slot].buffer; }
  int64_t SizeOf(uint32_t slot) const {
    return RoundUp(it_.instance.buffers[slots_[slot].buffer].size, it_.instance.alignment);
  }

  // Bytes from its offset that a slot holds.
  std::pair<int64_t, int64_t> InUse(uint32_t slot, int64_t time) const {
    const auto& [buffer, turn, turns] = slots_[slot];
    const Buffer& b = it_.instance.buffers[buffer];
    for (int64_t i = turn; b.lower + i * it_.period <= time; i += turns) {
      const int64_t age = time - i * it_.period;  // as if in iteration 0
      if (age >= b.upper) continue;
      for (const Gap& gap : it_.instance.gaps) {
        if (gap.buffer == buffer && age >= gap.lower && age < gap.upper) {
          return {gap.window_lower, gap.window_upper};
        }
      }
      return {0, SizeOf(slot)};
    }
    return {0, 0};
  }

  // Calls visit(held) for every instant of the steady state; held: per slot, as InUse.
  template <typename Visit>
  void ForInstants(Visit visit) const {
    std::vector<std::pair<int64_t, int64_t>> held(slots());
    for (int64_t time = latest_; time < end_; ++time) {
      for (uint32_t s = 0; s < slots(); ++s) held[s] = InUse(s, time);
      visit(held);
    }
  }

  int64_t MaxLoad() const {
    int64_t most = 0;
    ForInstants([&](const auto& held) {
      int64_t load = 0;
      for (const auto& [lower, upper] : held) load += upper - lower;
      most = std::max(most, load);
    });
    return most;
  }

  // The pairs of slots that share a byte at some instant.
  std::set<std::pair<uint32_t, uint32_t>> Overlaps(const std::vector<int64_t>& offsets) const {
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    ForInstants([&](const auto& held) {
      for (uint32_t i = 0; i < slots(); ++i) {
        for (uint32_t j = i + 1; j < slots(); ++j) {
          const auto [a, b] = held[i];
          const auto [c, d] = held[j];
          if (a == b || c == d) continue;
          if (offsets[i] + a < offsets[j] + d && offsets[j] + c < offsets[i] + b) {
            pairs.insert({i, j});
          }
        }
      }
    });
    return pairs;
  }

 private:
  struct Slot {
    uint32_t buffer;
    int64_t turn;
    int64_t turns;
  };

  uint32_t Index(const Buffer& b) const {
    return static_cast<uint32_t>(&b - it_.instance.buffers.data());
  }

  const Periodic& it_;
  std::vector<Slot> slots_;
  int64_t latest_ = 0;  // from here on all slots take turns
  int64_t end_ = 0;
};

// The least makespan of a periodic instance without constraints: some order of placing each slot as
// low as it goes is optimal, so all orders are tried.
class PeriodicOptimum {
 public:
  explicit PeriodicOptimum(const Periodic& it) : unrolled_(it), meets_(unrolled_.slots()) {
    for (std::vector<bool>& row : meets_) row.resize(unrolled_.slots());
    unrolled_.ForInstants([&](const auto& held) {
      for (uint32_t i = 0; i < held.size(); ++i) {
        for (uint32_t j = 0; j < held.size(); ++j) {
          if (held[i].second > held[i].first && held[j].second > held[j].first) {
            meets_[i][j] = true;
          }
        }
      }
    });
    offsets_.assign(unrolled_.slots(), -1);
    Descend(0);
  }
  int64_t makespan() const { return best_; }

 private:
  void Descend(int64_t makespan) {
    if (makespan >= best_) return;
    bool complete = true;
    for (uint32_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] >= 0) continue;
      complete = false;
      offsets_[i] = Lowest(i);
      Descend(std::max(makespan, offsets_[i] + unrolled_.SizeOf(i)));
      offsets_[i] = -1;
    }
    if (complete) best_ = makespan;
  }

  int64_t Lowest(uint32_t i) const {
    int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t j = 0; j < offsets_.size(); ++j) {
        if (offsets_[j] < 0 || !meets_[i][j]) continue;
        const int64_t end = offsets_[j] + unrolled_.SizeOf(j);
        if (offset >= end || offsets_[j] >= offset + unrolled_.SizeOf(i)) continue;
        offset = end;
        moved = true;
      }
    }
    return offset;
  }

  Unrolled unrolled_;
  std::vector<std::vector<bool>> meets_;
  std::vector<int64_t> offsets_;
  int64_t best_ = INT64_MAX;
};

}  // namespace reprise::planner

#endif  // REPRISE_TESTS_UNIT_PLANNER_PERIODIC_RANDOM_H_
