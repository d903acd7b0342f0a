// Pools of pages without any central state: parallel threads find free pages by random probing
// ("Dynamic Memory Management in Massively Parallel Systems: A Case on GPUs", Pham et al.).
//
//   PagePool<> pool({.pages = 1 << 20, .page_bytes = 256});   // shared by all threads
//   PoolThread<> mine(pool, seed);                             // one per thread
//   const uint32_t page = mine.get_page();                     // kNoPage: out of memory
//   mine.free_page(page);
//   void* block = mine.rw_malloc(1000);                        // null: out of memory
//   mine.rw_free(block, 1000);                                 // the size that was requested
//
// The functions are the same on a CPU, for a warp of 1 to 32 lanes in one thread, and on a CUDA
// device (page_pool.cuh). All are lock-free. No search is endless: after `probes` random steps it
// reads the whole bitmap. In debug mode double frees and foreign pointers are found.
#ifndef REPRISE_RANDOM_WALK_PAGE_POOL_H_
#define REPRISE_RANDOM_WALK_PAGE_POOL_H_

#include "random_walk/pool_calls.h"
#ifndef __CUDACC__
#include "random_walk/cpu_pool.h"
#endif

#endif  // REPRISE_RANDOM_WALK_PAGE_POOL_H_
