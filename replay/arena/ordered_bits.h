// A set of numbers whose neighbours are found in a few steps: a bitmap, and above it bitmaps of the
// words that are not zero (a van Emde Boas tree of 64 children per node).
//
// Changes need a lock of the caller's. Others may ask Next at any time: of a number that stays in
// the set meanwhile they get the right answer. Memory is zero until touched. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_ORDERED_BITS_H_
#define REPRISE_REPLAY_ARENA_ORDERED_BITS_H_

#include <stdint.h>

namespace reprise::replay {

class OrderedBits {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr int kLevels = 6;  // 64^6 numbers

  // Bytes for numbers below `bound`: of the lowest level, and of all above it.
  static constexpr uint64_t LowestBytes(uint64_t bound) { return (bound / 64 + 1) * 8; }
  static constexpr uint64_t UpperBytes(uint64_t bound) {
    uint64_t bytes = 0;
    for (int level = 1; level < kLevels; ++level) bytes += LowestBytes(bound >>= 6);
    return bytes;
  }

  // Both parts are zeroed and outlive the set.
  void Attach(void* lowest, void* upper, uint64_t bound) {
    words_[0] = static_cast<uint64_t*>(lowest);
    auto* at = static_cast<uint64_t*>(upper);
    for (int level = 1; level < kLevels; ++level) {
      words_[level] = at;
      at += LowestBytes(bound >>= 6) / 8;
    }
  }

  bool Has(uint64_t number) const { return (Word(0, number >> 6) >> (number & 63) & 1) != 0; }

  void Add(uint64_t number) {
    for (int level = 0; level < kLevels; ++level, number >>= 6) {
      const uint64_t before = Word(level, number >> 6);
      SetWord(level, number >> 6, before | Bit(number));
      if (before != 0) return;
    }
  }

  void Remove(uint64_t number) {
    for (int level = 0; level < kLevels; ++level, number >>= 6) {
      const uint64_t after = Word(level, number >> 6) & ~Bit(number);
      SetWord(level, number >> 6, after);
      if (after != 0) return;
    }
  }

  // The least number of the set that is not below `from`; kNone: there is none.
  uint64_t Next(uint64_t from) const {
    for (int level = 0; level < kLevels; ++level) {
      const uint64_t found = Word(level, from >> 6) & (0 - Bit(from));
      if (found != 0) {
        uint64_t at = (from & ~uint64_t{63}) + static_cast<uint64_t>(__builtin_ctzll(found));
        while (level > 0) {
          const uint64_t below = Word(--level, at);
          if (below == 0) return kNone;  // it was removed meanwhile
          at = at * 64 + static_cast<uint64_t>(__builtin_ctzll(below));
        }
        return at;
      }
      from = (from >> 6) + 1;
    }
    return kNone;
  }

  // The greatest number of the set that is below `end`; kNone: there is none.
  uint64_t Previous(uint64_t end) const {
    for (int level = 0; level < kLevels; ++level) {
      const uint64_t found = Word(level, end >> 6) & (Bit(end) - 1);
      if (found != 0) {
        uint64_t at = (end & ~uint64_t{63}) + 63 - static_cast<uint64_t>(__builtin_clzll(found));
        while (level > 0) {
          at = at * 64 + 63 - static_cast<uint64_t>(__builtin_clzll(Word(--level, at)));
        }
        return at;
      }
      end >>= 6;
    }
    return kNone;
  }

 private:
  static uint64_t Bit(uint64_t number) { return uint64_t{1} << (number & 63); }
  uint64_t Word(int level, uint64_t at) const {
    return __atomic_load_n(&words_[level][at], __ATOMIC_RELAXED);
  }
  void SetWord(int level, uint64_t at, uint64_t word) {
    __atomic_store_n(&words_[level][at], word, __ATOMIC_RELAXED);
  }

  uint64_t* words_[kLevels] = {};
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_ORDERED_BITS_H_
