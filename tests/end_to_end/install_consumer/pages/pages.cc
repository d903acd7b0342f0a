#include <cstdio>

#include "random_walk/page_pool.h"

int main() {
  using namespace reprise::random_walk;
  PagePool<> pool({.pages = 1024, .page_bytes = 64, .debug = true});
  PoolThread<> mine(pool);
  const uint32_t page = mine.get_page();
  void* block = mine.rw_malloc(1000);
  const bool freed =
      mine.free_page(page) == FreeResult::kFreed && mine.rw_free(block, 1000) == FreeResult::kFreed;
  mine.flush();
  std::printf("free %u of %u\n", pool.statistics().free, pool.statistics().pages);
  return page != kNoPage && block != nullptr && freed ? 0 : 1;
}
