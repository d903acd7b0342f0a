// A warp of a CUDA device, as a Warp policy (host_warp.h says what that promises). All 32 lanes of
// the warp must call each operation together: control flow around it must be uniform in the warp.
// Compute capability 7.0 or later.
#ifndef REPRISE_RANDOM_WALK_DEVICE_WARP_CUH_
#define REPRISE_RANDOM_WALK_DEVICE_WARP_CUH_

#include "random_walk/bits.h"

namespace reprise::random_walk {

class DeviceWarp {
 public:
  static constexpr unsigned kLanes = 32;
  static constexpr LaneMask kAll = 0xffffffffU;

  template <class T>
  struct Lanes {
    T value = {};
    __device__ T& operator[](unsigned) { return value; }
    __device__ const T& operator[](unsigned) const { return value; }
  };

  // `number`: of the warp in the grid. The block must be one-dimensional, its size a multiple
  // of 32.
  __device__ DeviceWarp(uint64_t seed, uint64_t number)
      : lane_(threadIdx.x % 32), random_(LaneRandom::seeded(seed, number * 32 + lane_)) {}

  template <class Function>
  __device__ void each(LaneMask mask, Function&& function) {
    if ((mask >> lane_ & 1U) != 0) function(lane_);
    __syncwarp(kAll);
  }
  template <class Function>
  __device__ LaneMask ballot(LaneMask mask, Function&& function) {
    const bool mine = (mask >> lane_ & 1U) != 0 && function(lane_);
    return __ballot_sync(kAll, mine ? 1 : 0);
  }
  template <class T>
  __device__ T read(const Lanes<T>& x, unsigned lane) const {
    return __shfl_sync(kAll, x.value, static_cast<int>(lane));
  }
  __device__ uint64_t read(const Lanes<uint64_t>& x, unsigned lane) const {
    return __shfl_sync(kAll, static_cast<unsigned long long>(x.value), static_cast<int>(lane));
  }
  template <class T>
  __device__ Lanes<T> shuffle(const Lanes<T>& x, const Lanes<unsigned>& source) const {
    return {__shfl_sync(kAll, x.value, static_cast<int>(source.value % 32))};
  }
  __device__ Lanes<uint64_t> shuffle(const Lanes<uint64_t>& x,
                                     const Lanes<unsigned>& source) const {
    return {__shfl_sync(kAll, static_cast<unsigned long long>(x.value),
                        static_cast<int>(source.value % 32))};
  }
  __device__ Lanes<unsigned> sum_before(LaneMask mask, const Lanes<unsigned>& x) const {
    const unsigned own = (mask >> lane_ & 1U) != 0 ? x.value : 0U;
    unsigned sum = own;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const unsigned lower = __shfl_up_sync(kAll, sum, distance);
      if (lane_ >= distance) sum += lower;
    }
    return {sum - own};
  }

  __device__ uint32_t draw(unsigned, uint32_t bound) { return random_.below(bound); }
  __device__ uint32_t draw_uniform(uint32_t bound) {
    return __shfl_sync(kAll, lane_ == 0 ? random_.below(bound) : 0U, 0);
  }

  // Volatile: past the L1 cache, which is not coherent with the atomics of other multiprocessors.
  template <class Word>
  __device__ static Word load(const Word* word) {
    return *static_cast<const volatile Word*>(word);
  }
  __device__ static uint32_t fetch_or(uint32_t* word, uint32_t bits) {
    return atomicOr(reinterpret_cast<unsigned*>(word), bits);
  }
  __device__ static uint64_t fetch_or(uint64_t* word, uint64_t bits) {
    return atomicOr(reinterpret_cast<unsigned long long*>(word),
                    static_cast<unsigned long long>(bits));
  }
  // What the caller wrote before is visible before the bits are clear.
  __device__ static uint32_t fetch_and(uint32_t* word, uint32_t bits) {
    __threadfence();
    return atomicAnd(reinterpret_cast<unsigned*>(word), bits);
  }
  __device__ static uint64_t fetch_and(uint64_t* word, uint64_t bits) {
    __threadfence();
    return atomicAnd(reinterpret_cast<unsigned long long*>(word),
                     static_cast<unsigned long long>(bits));
  }

  __device__ unsigned lane() const { return lane_; }

 private:
  unsigned lane_;
  LaneRandom random_;
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_DEVICE_WARP_CUH_
