// The calls of a pool for a warp of threads: page_pool.h and page_pool.cuh have them for one
// thread.
#ifndef REPRISE_RANDOM_WALK_POOL_CALLS_H_
#define REPRISE_RANDOM_WALK_POOL_CALLS_H_

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

#endif  // REPRISE_RANDOM_WALK_POOL_CALLS_H_
