// A warp on the CPU: `kLaneCount` lanes in lock-step in the calling thread. One of the two `Warp`
// policies that the algorithms are written for; DeviceWarp (device_warp.cuh) is the other one.
//
// A Warp policy promises:
// - Lanes<T>: a variable that each lane has for itself; `x[lane]` is the one of `lane`. A plain
//   variable in an algorithm is uniform: the same for all lanes.
// - each(mask, f): f(lane) for the lanes of `mask`. All lanes are done before the next operation.
// - ballot(mask, f): the lanes of `mask` for which f(lane) holds.
// - read(x, lane): x of that lane, for all lanes. shuffle(x, source): x of lane source[lane].
// - sum_before(mask, x): the sum of x over the lower lanes of `mask`, in each lane.
// - draw(lane, bound): a random number in [0, bound) of that lane; draw_uniform(bound): one for
// all.
// - load, fetch_or, fetch_and: atomic; fetch_or acquires, fetch_and releases.
//
// Deterministic: the same seed and number give the same draws. A HostWarp belongs to one thread;
// the words it works on may be shared with other threads. With 32 lanes it executes what a GPU
// executes; with one lane the algorithms become those of a CPU thread.
#ifndef REPRISE_RANDOM_WALK_HOST_WARP_H_
#define REPRISE_RANDOM_WALK_HOST_WARP_H_

#include "random_walk/bits.h"

namespace reprise::random_walk {

template <unsigned kLaneCount = 32>
class HostWarp {
 public:
  static_assert(kLaneCount >= 1 && kLaneCount <= 32);
  static constexpr unsigned kLanes = kLaneCount;
  static constexpr LaneMask kAll = low_bits<LaneMask>(kLaneCount);

  template <class T>
  struct Lanes {
    T values[kLaneCount] = {};
    T& operator[](unsigned lane) { return values[lane]; }
    const T& operator[](unsigned lane) const { return values[lane]; }
  };

  HostWarp(uint64_t seed, uint64_t number) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      random_[lane] = LaneRandom::seeded(seed, number * kLanes + lane);
    }
  }

  template <class Function>
  void each(LaneMask mask, Function&& function) {
    for (LaneMask left = mask; left != 0; left &= left - 1) function(low_zeros(left));
  }
  template <class Function>
  LaneMask ballot(LaneMask mask, Function&& function) {
    LaneMask result = 0;
    for (LaneMask left = mask; left != 0; left &= left - 1) {
      const unsigned lane = low_zeros(left);
      result |= static_cast<LaneMask>(function(lane) ? 1U : 0U) << lane;
    }
    return result;
  }
  template <class T>
  T read(const Lanes<T>& x, unsigned lane) const {
    return x[lane];
  }
  template <class T>
  Lanes<T> shuffle(const Lanes<T>& x, const Lanes<unsigned>& source) const {
    Lanes<T> result;
    for (unsigned lane = 0; lane < kLanes; ++lane) result[lane] = x[source[lane] % kLanes];
    return result;
  }
  Lanes<unsigned> sum_before(LaneMask mask, const Lanes<unsigned>& x) const {
    Lanes<unsigned> result;
    unsigned sum = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      result[lane] = sum;
      if ((mask >> lane & 1) != 0) sum += x[lane];
    }
    return result;
  }

  uint32_t draw(unsigned lane, uint32_t bound) { return random_[lane].below(bound); }
  uint32_t draw_uniform(uint32_t bound) { return random_[0].below(bound); }

  template <class Word>
  static Word load(const Word* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  template <class Word>
  static Word fetch_or(Word* word, Word bits) {
    return __atomic_fetch_or(word, bits, __ATOMIC_ACQ_REL);
  }
  template <class Word>
  static Word fetch_and(Word* word, Word bits) {
    return __atomic_fetch_and(word, bits, __ATOMIC_ACQ_REL);
  }

 private:
  Lanes<LaneRandom> random_;
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_HOST_WARP_H_
