// What the algorithms see of a pool of pages: plain data, so that a kernel takes it by value.
//
// The memory is divided into pages (for runs: units) of equal size. Bit i of the bitmap is set
// while page i is used; bits beyond the last page are always set. There is no other state: no
// head, tail, list or counter.
#ifndef REPRISE_RANDOM_WALK_POOL_VIEW_H_
#define REPRISE_RANDOM_WALK_POOL_VIEW_H_

#include "random_walk/bits.h"

namespace reprise::random_walk {

inline constexpr uint32_t kNoPage = 0xffffffffU;  // out of memory

// What became of a page that was handed back. Only a pool in debug mode tells them apart.
enum class FreeResult : uint32_t {
  kFreed = 0,
  kDoubleFree = 1,  // a page of the run was free already; the others are free now
  kForeign = 2,     // no page of this pool; nothing was done
};

template <class Word>
struct PoolView {
  Word* used = nullptr;             // the bitmap
  uint32_t* locks = nullptr;        // LockMap: a bit per bitmap word; only Algorithm::kCollective
  unsigned char* memory = nullptr;  // first byte of page 0; may be null where only ids matter
  uint32_t pages = 0;               // below kNoPage
  uint32_t page_bytes = 0;          // set_page_bytes sets it
  uint32_t page_shift = 0;          // its logarithm; kNoShift if it is no power of 2
  uint32_t words = 0;               // of the bitmap
  uint32_t probes = 0;              // random steps before a search reads the whole bitmap
  bool debug = false;               // find double frees and foreign pointers

  REPRISE_ANYWHERE static uint32_t words_for(uint32_t page_count) {
    return static_cast<uint32_t>((uint64_t{page_count} + kWordBits<Word> - 1) / kWordBits<Word>);
  }
  REPRISE_ANYWHERE static uint32_t lock_words_for(uint32_t page_count) {
    return (words_for(page_count) + 31) / 32;
  }
  // The bitmap word `index` of a pool without used pages.
  REPRISE_ANYWHERE Word empty_word(uint32_t index) const {
    return static_cast<Word>(~bits_in_word<Word>(0, pages, index));
  }
  REPRISE_ANYWHERE void* address(uint32_t page) const {
    return page == kNoPage ? nullptr : memory + uint64_t{page} * page_bytes;
  }
  REPRISE_ANYWHERE void set_page_bytes(uint32_t bytes) {
    page_bytes = bytes;
    page_shift = (bytes & (bytes - 1)) == 0 ? low_zeros(bytes) : kNoShift;
  }
  // kNoPage for what is no page's first byte.
  REPRISE_ANYWHERE uint32_t page_of(const void* pointer) const {
    const uint64_t offset =
        static_cast<uint64_t>(static_cast<const unsigned char*>(pointer) - memory);
    const uint64_t page = whole_pages(offset);
    return page >= pages || page * page_bytes != offset ? kNoPage : static_cast<uint32_t>(page);
  }
  // A request of 0 bytes takes one unit. 64 bits, so that no request wraps.
  REPRISE_ANYWHERE uint64_t units_of(uint64_t bytes) const {
    return bytes == 0 ? 1 : whole_pages(bytes - 1) + 1;
  }

 private:
  static constexpr uint32_t kNoShift = 0xffffffffU;
  // A division of 64 bits takes long, on a device above all.
  REPRISE_ANYWHERE uint64_t whole_pages(uint64_t bytes) const {
    return page_shift != kNoShift ? bytes >> page_shift : bytes / page_bytes;
  }
};

// As the bitmap is at some time during the call, if other threads use the pool meanwhile.
struct PoolStatistics {
  uint32_t pages = 0, used = 0, free = 0;
  uint32_t longest_free_run = 0;  // pages
};

// Is given the words of a bitmap in order.
template <class Word>
class StatisticsCounter {
 public:
  void add(Word used) {
    free_ += count_bits(static_cast<Word>(~used));
    for (unsigned bit = 0; bit < kWordBits<Word>; ++bit) {
      run_ = (used >> bit & 1) != 0 ? 0 : run_ + 1;
      if (run_ > longest_) longest_ = run_;
    }
  }
  PoolStatistics result(uint32_t pages) const { return {pages, pages - free_, free_, longest_}; }

 private:
  uint32_t free_ = 0, run_ = 0, longest_ = 0;
};

// Clears the bits of [first, first + count). Called by one lane; others may do the same.
template <class Warp, class Word>
REPRISE_LANE inline FreeResult free_run(const PoolView<Word>& pool, uint32_t first,
                                        uint64_t count) {
  if (pool.debug && (count == 0 || first >= pool.pages || count > pool.pages - first)) {
    return FreeResult::kForeign;
  }
  bool twice = false;
  const uint64_t last = (first + count - 1) / kWordBits<Word>;
  for (uint64_t word = first / kWordBits<Word>; word <= last; ++word) {
    const Word mask = bits_in_word<Word>(first, count, word);
    const Word before = Warp::fetch_and(&pool.used[word], static_cast<Word>(~mask));
    if (pool.debug) twice |= (mask & ~before) != 0;
  }
  return twice ? FreeResult::kDoubleFree : FreeResult::kFreed;
}

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_POOL_VIEW_H_
