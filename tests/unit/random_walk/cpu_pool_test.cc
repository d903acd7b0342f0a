// Many CPU threads on one pool: no page twice, none lost. Also under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "random_walk/page_pool.h"

namespace reprise::random_walk {
namespace {

constexpr int kThreads = 4;

template <class Word>
class CpuPoolTest : public testing::Test {};
using Widths = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(CpuPoolTest, Widths);

// Each page has an owner while it is held; contents are the owner's too, so that ThreadSanitizer
// sees a page that two threads have.
TYPED_TEST(CpuPoolTest, NoPageIsGivenTwiceAndNoneIsLost) {
  constexpr uint32_t kPages = 1000;
  PagePool<TypeParam> pool({.pages = kPages, .page_bytes = 8, .debug = true});
  std::vector<std::atomic<int>> owner(kPages);
  std::atomic<int> errors = 0, refused = 0;
  {
    std::vector<std::jthread> threads;
    for (int self = 1; self <= kThreads; ++self) {
      threads.emplace_back([&, self] {
        PoolThread<TypeParam> mine(pool, self);
        std::mt19937 random(self);
        std::vector<uint32_t> held;
        for (int turn = 0; turn < 30000; ++turn) {
          if (random() % 100 < 55 && held.size() < kPages / 3) {
            const uint32_t page = mine.get_page();
            if (page == kNoPage) {
              ++refused;
              continue;
            }
            if (owner[page].exchange(self) != 0) ++errors;
            *static_cast<int64_t*>(mine.address(page)) = self;
            held.push_back(page);
          } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            const uint32_t page = held.back();
            held.pop_back();
            if (*static_cast<int64_t*>(mine.address(page)) != self) ++errors;
            if (owner[page].exchange(0) != self) ++errors;
            if (mine.free_page(page) != FreeResult::kFreed) ++errors;
          }
        }
        for (const uint32_t page : held) {
          owner[page] = 0;
          if (mine.free_page(page) != FreeResult::kFreed) ++errors;
        }
      });
    }
  }
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(pool.statistics().free, kPages);
  PoolThread<TypeParam> last(pool);
  for (uint32_t i = 0; i < kPages; ++i) ASSERT_NE(last.get_page(), kNoPage);
  EXPECT_EQ(last.get_page(), kNoPage);
}

TYPED_TEST(CpuPoolTest, RunsOfManyThreadsNeverOverlap) {
  constexpr uint32_t kPages = 20000;
  PagePool<TypeParam> pool({.pages = kPages, .page_bytes = 16, .debug = true});
  std::atomic<int> errors = 0;
  {
    std::vector<std::jthread> threads;
    for (int self = 1; self <= kThreads; ++self) {
      threads.emplace_back([&, self] {
        PoolThread<TypeParam> mine(pool, self);
        std::mt19937 random(self);
        std::vector<std::pair<unsigned char*, size_t>> held;
        for (int turn = 0; turn < 3000; ++turn) {
          const size_t bytes = 1 + random() % (random() % 10 == 0 ? 9000 : 200);
          if (auto* block = static_cast<unsigned char*>(mine.rw_malloc(bytes)); block != nullptr) {
            std::memset(block, self, bytes);
            held.emplace_back(block, bytes);
          }
          while (held.size() > 60 || (turn == 2999 && !held.empty())) {
            std::swap(held[random() % held.size()], held.back());
            const auto [block, size] = held.back();
            held.pop_back();
            for (size_t i = 0; i < size; ++i) errors += block[i] == self ? 0 : 1;
            if (mine.rw_free(block, size) != FreeResult::kFreed) ++errors;
          }
        }
      });
    }
  }
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(pool.statistics().free, kPages);
}

TYPED_TEST(CpuPoolTest, AnyThreadMayFree) {
  PagePool<TypeParam> pool({.pages = 100, .page_bytes = 16, .debug = true});
  PoolThread<TypeParam> one(pool, 1), other(pool, 2);
  for (int turn = 0; turn < 1000; ++turn) {
    const uint32_t page = one.get_page();
    ASSERT_NE(page, kNoPage);
    ASSERT_EQ(other.free_page(page), FreeResult::kFreed);
  }
  one.flush();
  other.flush();
  EXPECT_EQ(pool.statistics().free, 100);
}

TYPED_TEST(CpuPoolTest, DebugModeFindsDoubleFreesAndForeignPointers) {
  PagePool<TypeParam> pool({.pages = 1000, .page_bytes = 16, .debug = true});
  PoolThread<TypeParam> mine(pool, 1);
  const uint32_t page = mine.get_page();
  EXPECT_EQ(mine.free_page(1000), FreeResult::kForeign);
  EXPECT_EQ(mine.free_page(kNoPage), FreeResult::kForeign);
  EXPECT_EQ(mine.free_page(page), FreeResult::kFreed);
  EXPECT_EQ(mine.free_page(page), FreeResult::kDoubleFree) << "while it is in the thread's hand";
  mine.flush();
  EXPECT_EQ(mine.free_page(page), FreeResult::kDoubleFree);
  // Pages of a word that the thread does not take from at the moment.
  std::vector<uint32_t> pages;
  for (int i = 0; i < 200; ++i) pages.push_back(mine.get_page());
  for (const uint32_t other : {pages[0], pages[1], pages[100]}) {
    EXPECT_EQ(mine.free_page(other), FreeResult::kFreed);
    EXPECT_EQ(mine.free_page(other), FreeResult::kDoubleFree);
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    if (i > 1 && i != 100) mine.free_page(pages[i]);
  }
  mine.flush();

  auto* block = static_cast<char*>(mine.rw_malloc(100));
  char elsewhere = 0;
  EXPECT_EQ(mine.rw_free(&elsewhere, 100), FreeResult::kForeign);
  EXPECT_EQ(mine.rw_free(block + 1, 100), FreeResult::kForeign) << "no unit begins there";
  EXPECT_EQ(mine.rw_free(block, 1 << 20), FreeResult::kForeign) << "beyond the pool's end";
  EXPECT_EQ(mine.rw_free(nullptr, 100), FreeResult::kFreed);
  EXPECT_EQ(mine.rw_free(block, 100), FreeResult::kFreed);
  EXPECT_EQ(mine.rw_free(block, 100), FreeResult::kDoubleFree);
  EXPECT_EQ(pool.statistics().free, 1000);
}

TEST(PagePoolTest, ImpossibleOptionsAreRefused) {
  EXPECT_THROW(PagePool<>({.pages = 0, .page_bytes = 1}), std::invalid_argument);
  EXPECT_THROW(PagePool<>({.pages = kNoPage, .page_bytes = 1}), std::invalid_argument);
  EXPECT_THROW(PagePool<>({.pages = 1, .page_bytes = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::random_walk
