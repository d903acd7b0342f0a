// A thread's access to a pool in a CUDA kernel; page_pool.cuh shows how it is used.
//
// Blocks are one-dimensional, of a multiple of 32 threads. All 32 threads of a warp must construct
// their DeviceThread and call get_page and rw_malloc together, whether they want something or not.
#ifndef REPRISE_RANDOM_WALK_DEVICE_THREAD_CUH_
#define REPRISE_RANDOM_WALK_DEVICE_THREAD_CUH_

#include "random_walk/device_warp.cuh"
#include "random_walk/pool_calls.h"

namespace reprise::random_walk {

template <class Word = uint32_t>
class DeviceThread {
 public:
  __device__ DeviceThread(const PoolView<Word>& pool, uint64_t seed)
      : pool_(pool), warp_(seed, (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32) {}

  template <Algorithm kAlgorithm = Algorithm::kCollectiveLockFree>
  __device__ uint32_t get_page(bool wanted = true) {
    PageWalk<DeviceWarp> walk;
    find_pages<kAlgorithm>(warp_, pool_, wanting(wanted), walk);
    steps_ = walk.steps_of.value;
    return walk.page.value;
  }
  __device__ FreeResult free_page(uint32_t page) {
    return random_walk::free_page<DeviceWarp>(pool_, page);
  }
  __device__ void* rw_malloc(uint64_t bytes, bool wanted = true) {
    void* const block = random_walk::rw_malloc(warp_, pool_, walk_, wanting(wanted), {bytes}).value;
    steps_ = walk_.steps;
    return block;
  }
  __device__ FreeResult rw_free(void* block, uint64_t bytes) {
    return random_walk::rw_free<DeviceWarp>(pool_, block, bytes);
  }
  // Steps that the last get_page took for this thread, or the last rw_malloc for its warp.
  __device__ unsigned steps() const { return steps_; }

 private:
  __device__ LaneMask wanting(bool wanted) {
    return warp_.ballot(DeviceWarp::kAll, [&](unsigned) { return wanted; });
  }

  PoolView<Word> pool_;
  DeviceWarp warp_;
  RunWalk<DeviceWarp> walk_;
  unsigned steps_ = 0;
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_DEVICE_THREAD_CUH_
