// Sets of 16-byte granules of a lane's box, as bitmaps in memory that is zero until touched.
//
// A set belongs to one thread. Others may ask Has at any time.
#ifndef REPRISE_REPLAY_ARENA_GRANULE_SET_H_
#define REPRISE_REPLAY_ARENA_GRANULE_SET_H_

#include <stdint.h>
#include <string.h>

#include "replay/arena/owned.h"

namespace reprise::replay {

class GranuleSet {
 public:
  static constexpr uint64_t kHasAWord = 127;  // a gap of that length holds a word of the bitmap

  static constexpr uint64_t kPageTells = 4096 * 8;  // granules that a page tells of

  // Bytes of zeroed memory that a set over `granules` needs.
  static constexpr uint64_t MemoryFor(uint64_t granules) { return (granules / 64 + 2) * 8; }

  void Attach(void* zeroed_memory) { words_ = static_cast<Owned<uint64_t>*>(zeroed_memory); }
  const void* memory() const { return words_; }

  bool Has(uint64_t granule) const {
    return (words_[granule >> 6].Seen() >> (granule & 63) & 1) != 0;
  }
  void Add(uint64_t granule) { words_[granule >> 6] |= uint64_t{1} << (granule & 63); }
  void Remove(uint64_t granule) { words_[granule >> 6] &= ~(uint64_t{1} << (granule & 63)); }

  // It is going to be asked or changed.
  void LookAhead(uint64_t granule) const { __builtin_prefetch(&words_[granule >> 6], 1); }

  // Whether any of [begin, end) is in the set; begin < end.
  bool HasAny(uint64_t begin, uint64_t end) const {
    uint64_t at = begin >> 6;
    const uint64_t last = (end - 1) >> 6;
    const uint64_t first_mask = ~uint64_t{0} << (begin & 63);
    const uint64_t last_mask = ~uint64_t{0} >> (63 - ((end - 1) & 63));
    if (at == last) return (words_[at] & first_mask & last_mask) != 0;
    if ((words_[at] & first_mask) != 0) return true;
    while (++at < last) {
      if (words_[at] != 0) return true;
    }
    return (words_[last] & last_mask) != 0;
  }

  // The same for the few of [begin, begin + count), 0 < count <= kFew, in a few instructions.
  static constexpr uint64_t kFew = 57;
  bool HasAnyOfFew(uint64_t begin, uint64_t count) const {
    uint64_t found;
    memcpy(&found, reinterpret_cast<const char*>(words_) + (begin >> 3), sizeof(found));
    return found >> (begin & 7) << ((64 - count) & 63) != 0;
  }

  // Whether [begin, end), of which none is in the set, can be part of a gap that holds a word.
  bool CanBeInALongGap(uint64_t begin, uint64_t end) const {
    uint64_t at = begin >> 6;
    const uint64_t last = ((end - 1) >> 6) + 1;
    for (at -= at > 0 ? 1 : 0; at <= last; ++at) {
      if (words_[at] == 0) return true;
    }
    return false;
  }

  // Moves `at` on to the first run of `length` granules in [at, end) that are not in the set and
  // begin at a multiple of `step`. False: there is none, or the effort, one for each place or word
  // with places looked at, is spent; `at` is where the search stopped.
  bool FindGap(uint64_t* at, uint64_t end, uint64_t length, uint64_t step, int32_t* effort) const {
    if (step == 1 && length <= 64) return FindShortGap(at, end, length, effort);
    for (;;) {
      *at = (*at + step - 1) / step * step;
      if (*at + length > end || *effort <= 0) return false;
      --*effort;
      const uint64_t taken = NextIn(*at, *at + length);
      if (taken >= *at + length) return true;
      *at = length < kHasAWord ? NextOut(taken + 1, end) : NextLongGap(taken, end);
    }
  }

  // The first granule of [from, end) that is in the set; `end` when there is none.
  uint64_t NextIn(uint64_t from, uint64_t end) const {
    uint64_t at = from >> 6;
    uint64_t found = words_[at] & ~uint64_t{0} << (from & 63);
    while (found == 0) {
      if (++at << 6 >= end) return end;
      found = words_[at];
    }
    return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(found));
  }

  // The first granule of [from, end) that is not in the set; `end` when there is none.
  uint64_t NextOut(uint64_t from, uint64_t end) const {
    if (from >= end) return end;
    uint64_t at = from >> 6;
    uint64_t found = ~words_[at] & ~uint64_t{0} << (from & 63);
    while (found == 0) {
      if (++at << 6 >= end) return end;
      found = ~words_[at];
    }
    return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(found));
  }

  // The first granule from `lowest` on from which none up to `at` is in the set; lowest <= at.
  uint64_t GapBegin(uint64_t at, uint64_t lowest) const {
    uint64_t word = at >> 6;
    uint64_t found = words_[word] & ~uint64_t{0} >> (63 - (at & 63));
    while (found == 0) {
      if (word << 6 <= lowest) return lowest;
      found = words_[--word];
    }
    const uint64_t begin = (word << 6) + 64 - static_cast<uint64_t>(__builtin_clzll(found));
    return begin > lowest ? begin : lowest;
  }

  // The first granule from `lowest` on from which all up to `at` are in the set; lowest <= at.
  uint64_t RunBegin(uint64_t at, uint64_t lowest) const {
    uint64_t word = at >> 6;
    uint64_t found = ~words_[word] & ~uint64_t{0} >> (63 - (at & 63));
    while (found == 0) {
      if (word << 6 <= lowest) return lowest;
      found = ~words_[--word];
    }
    const uint64_t begin = (word << 6) + 64 - static_cast<uint64_t>(__builtin_clzll(found));
    return begin > lowest ? begin : lowest;
  }

  void AddRange(uint64_t begin, uint64_t end) {
    ForEachWord(begin, end, [](Owned<uint64_t>& word, uint64_t mask) { word |= mask; });
  }

  void RemoveRange(uint64_t begin, uint64_t end) {
    ForEachWord(begin, end, [](Owned<uint64_t>& word, uint64_t mask) { word &= ~mask; });
  }

 private:
  // Calls change(word, mask of the granules that count) for every word of [begin, end), begin <
  // end.
  template <typename Change>
  void ForEachWord(uint64_t begin, uint64_t end, Change change) {
    uint64_t at = begin >> 6;
    const uint64_t last = (end - 1) >> 6;
    const uint64_t first_mask = ~uint64_t{0} << (begin & 63);
    const uint64_t last_mask = ~uint64_t{0} >> (63 - ((end - 1) & 63));
    if (at == last) return change(words_[at], first_mask & last_mask);
    change(words_[at], first_mask);
    while (++at < last) change(words_[at], ~uint64_t{0});
    change(words_[last], last_mask);
  }

  // The same for at most 64 granules, anywhere: a word at a time, because where the gaps in it are
  // cannot be foretold.
  bool FindShortGap(uint64_t* at, uint64_t end, uint64_t length, int32_t* effort) const {
    uint64_t word = *at >> 6;
    uint64_t free = ~words_[word] & ~uint64_t{0} << (*at & 63);
    while (*at + length <= end && *effort > 0) {
      const uint64_t next = ~words_[word + 1];
      if (free != 0) {
        --*effort;
        const uint64_t begins = Runs(free, next, length);
        if (begins != 0) {
          *at = (word << 6) + static_cast<uint64_t>(__builtin_ctzll(begins));
          return *at + length <= end;
        }
      }
      *at = ++word << 6;
      free = next;
    }
    return false;
  }

  // The bits of `low` at which a run of so many bits begins in `low` and `high`, which comes behind
  // it; 0 < length <= 64.
  static uint64_t Runs(uint64_t low, uint64_t high, uint64_t length) {
    uint64_t so_far = 1;  // shifts by constants take a third of the others
    const auto twice = [&](unsigned bits) {
      low &= low >> bits | high << (64 - bits);
      high &= high >> bits;
      so_far = 2 * bits;
    };
    if (length >= 2) twice(1);
    if (length >= 4) twice(2);
    if (length >= 8) twice(4);
    if (length >= 16) twice(8);
    if (length >= 32) twice(16);
    if (length >= 64) twice(32);
    const uint64_t more = length - so_far;  // below 32
    return low & (low >> more | high << 1 << (63 - more));
  }

  // Where the first gap behind `taken`, which is in the set, begins that holds a word of the
  // bitmap; `end` when there is none below.
  uint64_t NextLongGap(uint64_t taken, uint64_t end) const {
    uint64_t at = (taken >> 6) + 1;
    while (at << 6 < end && words_[at] != 0) ++at;
    if (at << 6 >= end) return end;
    return (at << 6) - static_cast<uint64_t>(__builtin_clzll(words_[at - 1]));
  }

  Owned<uint64_t>* words_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_GRANULE_SET_H_
