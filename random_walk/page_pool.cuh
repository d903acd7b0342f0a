// Pools of pages on a CUDA device: DevicePool owns the memory, DeviceThread is a thread's access to
// it in a kernel. For compute capability 7.0 or later; C++17.
//
//   DevicePool<> pool(1 << 20, 256);            // 2^20 pages of 256 bytes
//   kernel<<<blocks, 256>>>(pool.view());
//
//   __global__ void kernel(PoolView<uint32_t> pool) {
//     DeviceThread<uint32_t> mine(pool, seed);
//     const uint32_t page = mine.get_page(wanted);       // kNoPage: out of memory, or not wanted
//     void* block = mine.rw_malloc(bytes, wanted);       // null: likewise
//     mine.rw_free(block, bytes);
//     mine.free_page(page);
//   }
//
// Blocks are one-dimensional, of a multiple of 32 threads. All 32 threads of a warp must construct
// their DeviceThread and call get_page and rw_malloc together, whether they want something or not.
#ifndef REPRISE_RANDOM_WALK_PAGE_POOL_CUH_
#define REPRISE_RANDOM_WALK_PAGE_POOL_CUH_

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "random_walk/device_thread.cuh"

namespace reprise::random_walk {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

// Owns a pool in device memory. Its functions belong to the host, and throw std::runtime_error with
// CUDA's message.
template <class Word = uint32_t>
class DevicePool {
 public:
  DevicePool(uint32_t pages, uint32_t page_bytes, bool with_memory = true) {
    if (pages == 0 || pages == kNoPage || page_bytes == 0) {
      throw std::invalid_argument("a pool has 1 to 2^32 - 2 pages of at least 1 byte");
    }
    view_.pages = pages;
    view_.set_page_bytes(page_bytes);
    view_.words = PoolView<Word>::words_for(pages);
    view_.probes = 256;
    try {
      const size_t locks = sizeof(uint32_t) * PoolView<Word>::lock_words_for(pages);
      check_cuda(cudaMalloc(&view_.used, sizeof(Word) * view_.words), "the bitmap");
      check_cuda(cudaMalloc(&view_.locks, locks), "the lock map");
      check_cuda(cudaMemset(view_.locks, 0, locks), "the lock map");
      if (with_memory) {
        check_cuda(cudaMalloc(&view_.memory, uint64_t{pages} * page_bytes), "the pages");
      }
      clear();
    } catch (...) {
      release();
      throw;
    }
  }
  ~DevicePool() { release(); }
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  PoolView<Word>& view() { return view_; }

  // Waits for the device, and copies the bitmap.
  PoolStatistics statistics() const {
    std::vector<Word> words(view_.words);
    check_cuda(
        cudaMemcpy(words.data(), view_.used, sizeof(Word) * words.size(), cudaMemcpyDeviceToHost),
        "the bitmap");
    StatisticsCounter<Word> counter;
    for (const Word word : words) counter.add(word);
    return counter.result(view_.pages);
  }

  // All pages free.
  void clear() {
    const Word last = view_.empty_word(view_.words - 1);
    check_cuda(cudaMemset(view_.used, 0, sizeof(Word) * view_.words), "the bitmap");
    check_cuda(cudaMemcpy(view_.used + view_.words - 1, &last, sizeof last, cudaMemcpyHostToDevice),
               "the bitmap");
  }

 private:
  void release() {
    cudaFree(view_.used);
    cudaFree(view_.locks);
    cudaFree(view_.memory);
  }
  PoolView<Word> view_;
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_PAGE_POOL_CUH_
