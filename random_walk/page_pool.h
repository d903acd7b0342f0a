// Pools of pages without any central state: parallel threads find free pages by random probing
// ("Dynamic Memory Management in Massively Parallel Systems: A Case on GPUs", Pham et al.).
//
//   PagePool<> pool({.pages = 1 << 20, .page_bytes = 256});   // shared by all threads
//   PoolThread<> mine(pool, seed);                             // one per thread
//   const uint32_t page = mine.get_page();                     // kNoPage: out of memory
//   mine.free_page(page);
//   void* block = mine.rw_malloc(1000);                        // a run of units; null: out of
//   memory mine.rw_free(block, 1000);                                 // the size that was
//   requested
//
// The functions are the same on a CPU, for a warp of 1 to 32 lanes in one thread, and on a CUDA
// device (page_pool.cuh). All are lock-free. No search is endless: after `probes` random steps it
// reads the whole bitmap. In debug mode double frees and foreign pointers are found.
#ifndef REPRISE_RANDOM_WALK_PAGE_POOL_H_
#define REPRISE_RANDOM_WALK_PAGE_POOL_H_

#include <cstddef>

#include "random_walk/page_walk.h"
#include "random_walk/run_walk.h"

namespace reprise::random_walk {

// A page for each lane of `need`; kNoPage for the other lanes, and where memory is out.
template <Algorithm kAlgorithm = Algorithm::kCollectiveLockFree, class Warp, class Word>
REPRISE_LANE inline typename Warp::template Lanes<uint32_t> get_page(Warp& warp,
                                                                     const PoolView<Word>& pool,
                                                                     LaneMask need = Warp::kAll) {
  PageWalk<Warp> walk;
  find_pages<kAlgorithm>(warp, pool, need, walk);
  return walk.page;
}

// Called by one lane. Costs one atomic operation.
template <class Warp, class Word>
REPRISE_LANE inline FreeResult free_page(const PoolView<Word>& pool, uint32_t page) {
  return free_run<Warp>(pool, page, 1);
}

// A run of units that holds bytes[lane] bytes, for each lane of `need`. Null for the other lanes,
// where memory is out, and for more than kLongestRun units.
template <class Warp, class Word>
REPRISE_LANE inline typename Warp::template Lanes<void*> rw_malloc(
    Warp& warp, const PoolView<Word>& pool, RunWalk<Warp>& walk, LaneMask need,
    const typename Warp::template Lanes<uint64_t>& bytes) {
  warp.each(Warp::kAll, [&](unsigned lane) {
    const uint64_t units = pool.units_of(bytes[lane]);
    walk.units[lane] = units > kLongestRun<Warp, Word> ? kLongestRun<Warp, Word> + 1
                                                       : static_cast<uint32_t>(units);
  });
  find_runs(warp, pool, need, walk);
  typename Warp::template Lanes<void*> result;
  warp.each(Warp::kAll, [&](unsigned lane) { result[lane] = pool.address(walk.first[lane]); });
  return result;
}

// Called by one lane, with the size that was requested. Null is ignored.
template <class Warp, class Word>
REPRISE_LANE inline FreeResult rw_free(const PoolView<Word>& pool, void* pointer, uint64_t bytes) {
  if (pointer == nullptr) return FreeResult::kFreed;
  const uint32_t first = pool.page_of(pointer);
  if (pool.debug && first == kNoPage) return FreeResult::kForeign;
  return free_run<Warp>(pool, first, pool.units_of(bytes));
}

}  // namespace reprise::random_walk

#ifndef __CUDACC__
#include "random_walk/cpu_pool.h"
#endif

#endif  // REPRISE_RANDOM_WALK_PAGE_POOL_H_
