// The shared heap and its parts against maps of intervals.
#include "replay/arena/heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/effort.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kHeapBytes = 64 << 20;
constexpr uint64_t kBoxBytes = 4 << 20;
constexpr uint64_t kBytes = kHeapBytes + kBoxBytes;
constexpr uint64_t kPageUnits = kPage / kHeapUnit;

// Memory that is not writable but where the heap made it.
class Memory {
 public:
  explicit Memory(uint64_t bytes, int protection) : bytes_(bytes) {
    memory_ = static_cast<char*>(
        mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~Memory() { munmap(memory_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* get() const { return memory_; }

 private:
  uint64_t bytes_;
  char* memory_;
};

struct TestHeap {
  TestHeap()
      : blocks(kBytes, PROT_NONE),
        tables_memory(ArenaTables::BytesFor(kBytes), PROT_READ),
        state(Heap::StateBytes(kBytes), PROT_READ) {
    held.Start(&most_held);
    EXPECT_TRUE(tables.Attach(tables_memory.get(), kBytes));
    EXPECT_TRUE(tables.Cover(kHeapBytes, kBytes));
    heap.Start(blocks.get(), kHeapBytes, &tables, state.get(), &held);
  }

  Memory blocks, tables_memory, state;
  uint64_t most_held = 0;
  HeldPages held;
  ArenaTables tables;
  Heap heap;
};

// What is free, by its beginning: coalesced, below the top.
class FreeModel {
 public:
  void Release(uint64_t begin, uint64_t end) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == end) {
      end = next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->second == begin) {
      std::prev(next)->second = end;
      return;
    }
    free_[begin] = end;
  }
  // Whether [begin, end) is free or beyond what was ever taken; then it is taken.
  bool Take(uint64_t begin, uint64_t end, uint64_t* top) {
    if (end > *top) {
      if (*top < begin) Release(*top, begin);
      if (begin < *top) {
        const auto last = std::prev(free_.upper_bound(begin));
        if (last->second != *top) return false;
      }
      Release(std::max(begin, *top), end);
      *top = end;
    }
    const auto range = free_.upper_bound(begin);
    if (range == free_.begin()) return false;
    const auto [from, to] = *std::prev(range);
    if (from > begin || to < end) return false;
    free_.erase(std::prev(range));
    if (from < begin) free_[from] = begin;
    if (end < to) free_[end] = to;
    return true;
  }
  // Best fit, the lowest on ties; 0 and 0: nothing fits.
  std::pair<uint64_t, uint64_t> Best(uint64_t units) const {
    std::pair<uint64_t, uint64_t> best = {0, 0};
    for (const auto& [begin, end] : free_) {
      if (end - begin < units) continue;
      if (best.second == 0 || end - begin < best.second - best.first) best = {begin, end};
    }
    return best;
  }

  const std::map<uint64_t, uint64_t>& ranges() const { return free_; }

 private:
  std::map<uint64_t, uint64_t> free_;
};

std::map<uint64_t, uint64_t> FreeRanges(TestHeap& test) {
  std::map<uint64_t, uint64_t> free;
  for (uint64_t at = test.tables.starts().Next(0); at != OrderedBits::kNone;
       at = test.tables.starts().Next(at + 1)) {
    if (test.tables.free().Has(at)) free[at] = at + test.heap.Length(at);
  }
  return free;
}

TEST(HeapTest, TakesTheBestFitAndNeverWhatIsTaken) {
  for (uint64_t seed = 1; seed <= Rounds(8); ++seed) {
    SCOPED_TRACE(seed);
    TestHeap test;
    FreeModel model;
    std::mt19937_64 random(seed);
    std::map<uint64_t, uint64_t> live;  // unit -> units
    uint64_t top = 16;
    const uint64_t most = seed % 2 == 0 ? 64 : 5000;
    for (int step = 0; step < 4000; ++step) {
      const HeapLock lock(test.heap);
      if (step % 20 == 0) {
        ASSERT_EQ(FreeRanges(test), model.ranges()) << step;
      }
      if (random() % 2 == 0 || live.empty()) {
        const uint64_t units = 1 + random() % most;
        const uint64_t align = random() % 4 == 0 ? uint64_t{1} << random() % 8 : 1;
        const auto best = model.Best(units);
        const uint64_t unit = test.heap.Take(units, align);
        if (unit == Heap::kNone) continue;
        ASSERT_EQ(unit % align, 0u);
        if (align == 1 && best.second != 0) {
          ASSERT_EQ(unit, best.first);
        }
        ASSERT_TRUE(model.Take(unit, unit + units, &top))
            << unit << " " << units << " aligned to " << align << ", top " << top;
        ASSERT_EQ(test.heap.Length(unit), units);
        std::memset(test.heap.AddressOf(unit), 1, units * kHeapUnit);
        live[unit] = units;
      } else {
        auto any = live.lower_bound(random() % (top + 1));
        if (any == live.end()) any = live.begin();
        auto [unit, units] = *any;
        if (random() % 8 == 0) {
          const uint64_t more = units + 1 + random() % most;
          if (test.heap.Extend(unit, more)) {
            ASSERT_TRUE(model.Take(unit + units, unit + more, &top));
            any->second = units = more;
            ASSERT_EQ(test.heap.Length(unit), units);
          }
          continue;
        }
        ASSERT_EQ(test.heap.Length(unit), units);
        test.heap.Return(unit);
        model.Release(unit, unit + units);
        live.erase(any);
      }
    }
  }
}

// All pages of free ranges that hold something are idle, and no others. They stay as long as so
// much was in use lately, and then most of them go.
TEST(HeapTest, IdlePagesGoBackByTheRule) {
  constexpr uint64_t kSlackPages = (16 << 20) / kPage;
  TestHeap test;
  std::mt19937_64 random(3);
  std::map<uint64_t, uint64_t> live;
  uint64_t most_used = 0;
  uint64_t top = 0;
  for (int step = 0; step < 20000; ++step) {
    const HeapLock lock(test.heap);
    const bool grows = step / 2500 % 2 == 0;
    if (random() % 4 < (grows ? 3u : 1u) || live.empty()) {
      const uint64_t units = 1 + random() % 700;
      const uint64_t unit = test.heap.Take(units, 1);
      if (unit == Heap::kNone) continue;
      std::memset(test.heap.AddressOf(unit), 1, units * kHeapUnit);
      live[unit] = units;
      top = std::max(top, unit + units);
    } else {
      auto any = live.begin();
      std::advance(any, static_cast<std::ptrdiff_t>(random() % std::min<size_t>(live.size(), 50)));
      test.heap.Return(any->first);
      live.erase(any);
    }
    if (step % 100 != 0) continue;
    std::set<uint64_t> used;
    for (const auto& [unit, units] : live) {
      for (uint64_t page = unit / kPageUnits; page * kPageUnits < unit + units; ++page) {
        used.insert(page);
      }
    }
    uint64_t idle = 0;
    for (uint64_t page = 0; page < kHeapBytes / kPage; ++page) {
      const bool holds = test.tables.resident().Has(page);
      ASSERT_TRUE(holds || !used.contains(page)) << page;
      // What lies behind, and before the first region, was never free.
      const bool whole = page > 0 && (page + 1) * kPageUnits <= top;
      idle += holds && whole && !used.contains(page) ? 1 : 0;
    }
    ASSERT_EQ(test.heap.pages().idle(), idle);
    most_used = std::max<uint64_t>(most_used, used.size());
    ASSERT_GE(test.most_held, used.size());
  }
  EXPECT_LE(test.most_held, most_used + std::max<uint64_t>(kSlackPages, most_used / 16) + 16);
  const HeapLock lock(test.heap);
  for (const auto& [unit, units] : live) test.heap.Return(unit);
  ASSERT_GT(test.heap.pages().idle(), kSlackPages);
  for (int step = 0; step < 40000; ++step) {
    const uint64_t unit = test.heap.Take(2 * kPageUnits, 1);
    ASSERT_NE(unit, Heap::kNone);
    test.heap.Return(unit);
  }
  EXPECT_LE(test.heap.pages().idle(), kSlackPages + 16);
}

TEST(HeapTest, WhatIsGivenToItServesRequests) {
  TestHeap test;
  ASSERT_TRUE(MakeWritable(test.blocks.get() + kHeapBytes, kBoxBytes));
  const HeapLock lock(test.heap);
  constexpr uint64_t kBox = kHeapBytes / kHeapUnit;
  std::memset(test.blocks.get() + kHeapBytes, 1, 16 * kPage);
  EXPECT_EQ(test.heap.pages().Adopt(kHeapBytes / kPage, kHeapBytes / kPage + 64), 16u);
  test.heap.Release(kBox + 64, 640);
  EXPECT_EQ(test.heap.pages().idle(), 10u);
  EXPECT_EQ(test.heap.Take(600, 1), kBox + 64);
  EXPECT_EQ(test.heap.Take(40, 1), kBox + 664);
  EXPECT_LT(test.heap.Take(1, 1), kBox);
  EXPECT_EQ(test.heap.pages().idle(), 0u);
}

TEST(HeapTest, WhatIsTooLongIsRefused) {
  TestHeap test;
  const HeapLock lock(test.heap);
  EXPECT_EQ(test.heap.Take(kHeapBytes / kHeapUnit + 1, 1), Heap::kNone);
  EXPECT_EQ(test.heap.Take(UINT64_MAX, 1), Heap::kNone);
  EXPECT_EQ(test.heap.Take(1, uint64_t{1} << 63), Heap::kNone);
  const uint64_t all = test.heap.Take(kHeapBytes / kHeapUnit - 16, 1);
  EXPECT_EQ(all, 16u);
  EXPECT_EQ(test.heap.Take(1, 1), Heap::kNone);
  test.heap.Return(all);
  EXPECT_EQ(test.heap.Take(1, 1), 16u);
}

TEST(HeapTest, AnAbandonedHeapTakesAndReturnsNothing) {
  TestHeap test;
  test.heap.Lock();
  const uint64_t unit = test.heap.Take(1, 1);
  test.heap.LeaveBehind();
  const HeapLock lock(test.heap);
  test.heap.Return(unit);
  EXPECT_EQ(test.heap.Take(1, 1), Heap::kNone);
}

TEST(OrderedBitsTest, FindsNeighboursAsASetDoes) {
  constexpr uint64_t kBound = 1 << 20;
  std::vector<uint64_t> lowest(OrderedBits::LowestBytes(kBound) / 8);
  std::vector<uint64_t> upper(OrderedBits::UpperBytes(kBound) / 8);
  OrderedBits bits;
  bits.Attach(lowest.data(), upper.data(), kBound);
  std::set<uint64_t> model;
  std::mt19937_64 random(1);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t number = random() % (step % 3 == 0 ? 300 : kBound);
    if (random() % 2 == 0) {
      bits.Add(number);
      model.insert(number);
    } else {
      bits.Remove(number);
      model.erase(number);
    }
    const uint64_t asked = random() % kBound;
    const auto next = model.lower_bound(asked);
    ASSERT_EQ(bits.Next(asked), next == model.end() ? OrderedBits::kNone : *next);
    ASSERT_EQ(bits.Previous(asked), next == model.begin() ? OrderedBits::kNone : *std::prev(next));
    ASSERT_EQ(bits.Has(number), model.contains(number));
  }
}

TEST(FreeIndexTest, FindsRangesByLengthAndAddress) {
  std::vector<FreeIndex::Node> pool(5000);
  FreeIndex index;
  index.Attach(pool.data());
  std::set<std::pair<uint64_t, uint64_t>> model;  // units, begin
  std::mt19937_64 random(2);
  for (int step = 0; step < 30000; ++step) {
    const uint64_t units = random() % 3 == 0 ? 1 + random() % 5000 : 1 + random() % 40;
    const uint64_t begin = random() % 1000;
    const bool known = std::any_of(model.begin(), model.end(),
                                   [&](const auto& range) { return range.second == begin; });
    if (!known && model.size() < 200) {
      index.Add({begin, units});
      model.insert({units, begin});
    } else if (!model.empty()) {
      auto any = model.lower_bound({units, begin});
      if (any == model.end()) any = model.begin();
      index.Remove({any->second, any->first});
      model.erase(any);
    }
    const auto next = model.lower_bound({units, begin});
    const UnitRange found = index.AtLeast(units, begin);
    ASSERT_EQ(found.units, next == model.end() ? 0 : next->first);
    ASSERT_EQ(found.begin, next == model.end() ? 0 : next->second);
    const UnitRange before = index.Before(units, begin);
    ASSERT_EQ(before.units, next == model.begin() ? 0 : std::prev(next)->first);
    ASSERT_EQ(before.begin, next == model.begin() ? 0 : std::prev(next)->second);
    ASSERT_LE(index.nodes(), pool.size());
  }
}

}  // namespace
}  // namespace reprise::replay
