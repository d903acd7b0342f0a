// Blocks that are filled with a pattern of their own and verified, and a map of all that are live:
// whatever goes wrong ends the process, with the round that it began with.
#ifndef REPRISE_TESTS_UNIT_ARENA_PATTERNED_BLOCKS_H_
#define REPRISE_TESTS_UNIT_ARENA_PATTERNED_BLOCKS_H_

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace reprise::replay {

struct Where {
  uint64_t seed = 0;
  uint64_t round = 0;
  uint64_t run = 0;
};
inline Where where;

inline void Require(bool condition, const char* what) {
  if (__builtin_expect(condition, 1)) return;
  std::fprintf(stderr, "failed: %s (--seed %" PRIu64 " --round %" PRIu64 ", run %" PRIu64 ")\n",
               what, where.seed, where.round, where.run);
  std::abort();
}

struct Block {
  char* pointer = nullptr;
  uint64_t bytes = 0;  // that hold the pattern
  uint64_t tag = 0;
};

// Longer blocks have the pattern at their ends only, so many bytes of it.
constexpr uint64_t kFilled = 32 << 10;
constexpr uint64_t kEnds = 64;

// From its beginning on.
inline uint64_t BytesFilled(const Block& block) {
  return block.bytes > kFilled ? kEnds : block.bytes;
}

inline void FillFrom(const Block& block, uint64_t from) {
  uint64_t at = from & ~uint64_t{7};
  for (; at + 8 <= block.bytes; at += 8) std::memcpy(block.pointer + at, &block.tag, 8);
  std::memcpy(block.pointer + at, &block.tag, block.bytes - at);
}

inline void Fill(const Block& block, uint64_t from = 0) {
  if (block.bytes <= kFilled) return FillFrom(block, from);
  FillFrom({block.pointer, kEnds, block.tag}, 0);
  FillFrom(block, block.bytes - kEnds);
}

inline void VerifyFrom(const Block& block, uint64_t from) {
  uint64_t differ = 0;
  uint64_t at = from & ~uint64_t{7};
  for (; at + 8 <= block.bytes; at += 8) {
    uint64_t word;
    std::memcpy(&word, block.pointer + at, 8);
    differ |= word ^ block.tag;
  }
  differ |= static_cast<uint64_t>(std::memcmp(block.pointer + at, &block.tag, block.bytes - at));
  Require(differ == 0, "a block was overwritten");
}

inline void Verify(const Block& block) {
  VerifyFrom({block.pointer, BytesFilled(block), block.tag}, 0);
  if (block.bytes > kFilled) VerifyFrom(block, block.bytes - kEnds);
}

// All that is live. It orders the threads among each other, which may hide what they do wrong: only
// for runs that need it, and for those of one thread.
class LiveRanges {
 public:
  explicit LiveRanges(bool kept) : kept_(kept) {}

  // What was live at `begin` may become longer by this.
  void Set(const char* begin, uint64_t bytes) {
    if (!kept_) return;
    const char* end = begin + std::max<uint64_t>(bytes, 1);
    const std::lock_guard guard(lock_);
    const auto above = ranges_.upper_bound(begin);
    Require(above == ranges_.end() || end <= above->first, "a block overlaps the one above");
    Require(above == ranges_.begin() || std::prev(above)->first == begin ||
                std::prev(above)->second <= begin,
            "a block overlaps the one below");
    ranges_[begin] = end;
  }
  void Add(const char* begin, uint64_t bytes) {
    if (!kept_) return;
    {
      const std::lock_guard guard(lock_);
      Require(!ranges_.contains(begin), "a place is given out twice");
    }
    Set(begin, bytes);
  }
  void Remove(const char* begin) {
    if (!kept_) return;
    const std::lock_guard guard(lock_);
    Require(ranges_.erase(begin) == 1, "freed what is not live");
  }

 private:
  const bool kept_;
  std::mutex lock_;
  std::map<const char*, const char*> ranges_;  // begin -> end
};

}  // namespace reprise::replay

#endif  // REPRISE_TESTS_UNIT_ARENA_PATTERNED_BLOCKS_H_
