// Pools for CPU threads: PagePool owns the memory and the bitmap, PoolThread is one thread's
// access. Include page_pool.h.
#ifndef REPRISE_RANDOM_WALK_CPU_POOL_H_
#define REPRISE_RANDOM_WALK_CPU_POOL_H_

#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "random_walk/host_warp.h"
#include "random_walk/pool_calls.h"

namespace reprise::random_walk {

struct PoolOptions {
  uint32_t pages = 0;       // 1 to kNoPage - 1
  uint32_t page_bytes = 0;  // of a page, or of a unit of runs; at least 1
  uint32_t probes = 256;    // random steps before a search reads the whole bitmap
  bool debug = false;       // find double frees and foreign pointers
  bool with_memory = true;  // false: only page numbers are wanted
};

template <class Word>
PoolStatistics pool_statistics(const PoolView<Word>& pool) {
  StatisticsCounter<Word> counter;
  for (uint32_t index = 0; index < pool.words; ++index) {
    counter.add(HostWarp<1>::load(&pool.used[index]));
  }
  return counter.result(pool.pages);
}

// Thread-safe. Must outlive its PoolThreads. Throws std::invalid_argument for impossible options,
// std::bad_alloc without memory.
template <class Word = uint64_t>
class PagePool {
 public:
  explicit PagePool(const PoolOptions& options) {
    if (options.pages == 0 || options.pages == kNoPage || options.page_bytes == 0) {
      throw std::invalid_argument("a pool has 1 to 2^32 - 2 pages of at least 1 byte");
    }
    view_.pages = options.pages;
    view_.set_page_bytes(options.page_bytes);
    view_.words = PoolView<Word>::words_for(options.pages);
    view_.probes = options.probes;
    view_.debug = options.debug;
    bitmap_.resize(view_.words);
    locks_.resize(PoolView<Word>::lock_words_for(options.pages));
    for (uint32_t i = 0; i < view_.words; ++i) bitmap_[i] = view_.empty_word(i);
    view_.used = bitmap_.data();
    view_.locks = locks_.data();
    if (options.with_memory) {
      memory_.reset(static_cast<unsigned char*>(
          ::operator new (uint64_t{options.pages} * options.page_bytes, kAlignment)));
      view_.memory = memory_.get();
    }
  }
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const PoolView<Word>& view() const { return view_; }
  PoolStatistics statistics() const { return pool_statistics(view_); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Delete {
    void operator()(unsigned char* memory) const { ::operator delete(memory, kAlignment); }
  };
  PoolView<Word> view_;
  std::vector<Word> bitmap_;
  std::vector<uint32_t> locks_;
  std::unique_ptr<unsigned char, Delete> memory_;
};

// The access of one thread to a pool; not thread-safe itself. What one thread took any other one
// may free.
//
// get_page takes all free pages of a word at once, as a warp of CoRW does, and hands them out one
// by one. So up to a word's pages are in the hand of each thread: other threads may be out of
// memory meanwhile. flush() gives them back, and so does the destructor.
template <class Word = uint64_t>
class PoolThread {
 public:
  PoolThread(PagePool<Word>& pool, uint64_t seed)
      : pool_(pool.view()), one_(seed, 0), narrow_(seed, 1), wide_(seed, 1) {}
  explicit PoolThread(PagePool<Word>& pool) : PoolThread(pool, 1) {}
  ~PoolThread() { flush(); }
  PoolThread(const PoolThread&) = delete;
  PoolThread& operator=(const PoolThread&) = delete;

  // kNoPage: out of memory.
  uint32_t get_page() {
    if (hand_ == 0 && !fill_hand()) return kNoPage;
    const unsigned bit = low_zeros(hand_);
    hand_ &= hand_ - 1;
    return word_ * kWordBits<Word> + bit;
  }

  FreeResult free_page(uint32_t page) {
    const uint32_t word = page / kWordBits<Word>;
    const Word bit = static_cast<Word>(Word{1} << page % kWordBits<Word>);
    if (pool_.debug) {
      if (page >= pool_.pages) return FreeResult::kForeign;
      const bool ours =
          (word == word_ && (hand_ & bit) != 0) || (word == back_word_ && (back_ & bit) != 0);
      if (ours || (HostWarp<1>::load(&pool_.used[word]) & bit) == 0) return FreeResult::kDoubleFree;
    }
    if (word == word_) {
      hand_ |= bit;
      return FreeResult::kFreed;
    }
    if (word != back_word_) {
      flush_back();
      back_word_ = word;
    }
    back_ |= bit;
    return FreeResult::kFreed;
  }

  void* rw_malloc(uint64_t bytes) {
    return pool_.units_of(bytes) <= kLongestRun<Narrow, Word> ? find(narrow_, narrow_walk_, bytes)
                                                              : find(wide_, wide_walk_, bytes);
  }
  FreeResult rw_free(void* pointer, uint64_t bytes) {
    return random_walk::rw_free<HostWarp<1>>(pool_, pointer, bytes);
  }

  void* address(uint32_t page) const { return pool_.address(page); }
  uint32_t page_of(const void* pointer) const { return pool_.page_of(pointer); }

  void flush() {
    flush_back();
    if (hand_ != 0) HostWarp<1>::fetch_and(&pool_.used[word_], static_cast<Word>(~hand_));
    hand_ = 0;
  }

 private:
  // A narrow window is read faster; the wide one is for runs that do not fit into it.
  using Narrow = HostWarp<8>;
  using Wide = HostWarp<32>;

  template <class Warp>
  void* find(Warp& warp, RunWalk<Warp>& walk, uint64_t bytes) {
    return random_walk::rw_malloc(warp, pool_, walk, 1, {{bytes}})[0];
  }

  bool take_word(uint32_t index) {
    Word* word = &pool_.used[index];
    constexpr Word kFull = static_cast<Word>(~Word{0});
    if (HostWarp<1>::load(word) == kFull) return false;
    hand_ = static_cast<Word>(~HostWarp<1>::fetch_or(word, kFull));
    word_ = index;
    return hand_ != 0;
  }
  void flush_back() {
    if (back_ != 0) HostWarp<1>::fetch_and(&pool_.used[back_word_], static_cast<Word>(~back_));
    back_ = 0;
  }
  // First what this thread has freed last, and the rest of that word: it is in its cache. Then
  // anywhere.
  bool fill_hand() {
    if (back_ != 0) {
      const Word back = back_;
      back_ = 0;
      take_word(back_word_);
      word_ = back_word_;
      hand_ |= back;
      return true;
    }
    for (uint32_t probe = 0; probe < pool_.probes; ++probe) {
      if (take_word(one_.draw(0, pool_.words))) return true;
    }
    const uint32_t start = one_.draw(0, pool_.words);
    for (uint32_t i = start; i < pool_.words; ++i) {
      if (take_word(i)) return true;
    }
    for (uint32_t i = 0; i < start; ++i) {
      if (take_word(i)) return true;
    }
    return false;
  }

  PoolView<Word> pool_;
  Word hand_ = 0;  // free pages of word_ that are ours alone
  uint32_t word_ = kNoPage;
  Word back_ = 0;  // pages of back_word_ that were freed; their bits are not clear yet
  uint32_t back_word_ = kNoPage;
  HostWarp<1> one_;
  Narrow narrow_;
  Wide wide_;
  RunWalk<Narrow> narrow_walk_;
  RunWalk<Wide> wide_walk_;
};

}  // namespace reprise::random_walk

#endif  // REPRISE_RANDOM_WALK_CPU_POOL_H_
