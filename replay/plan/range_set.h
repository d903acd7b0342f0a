// A set of disjoint ranges of numbers: whether a new one overlaps any of them, in a time that
// depends neither on their lengths nor on how many there are.
#ifndef REPRISE_REPLAY_PLAN_RANGE_SET_H_
#define REPRISE_REPLAY_PLAN_RANGE_SET_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace reprise::replay {

// Ranges are half-open and not empty, and lie in [0, size). A tree of words of 64 bits: a bit of
// level k stands for 64^k numbers, and a range is at most two masks in each level. Memory is
// touched only where ranges begin and end. Not for several threads at once.
class RangeSet {
 public:
  // ResourceExhausted: the system has no addresses for it.
  static absl::StatusOr<RangeSet> Make(uint64_t size);
  ~RangeSet();
  RangeSet(RangeSet&& other) noexcept;
  RangeSet& operator=(RangeSet&&) = delete;
  RangeSet(const RangeSet&) = delete;
  RangeSet& operator=(const RangeSet&) = delete;

  // False: it overlaps a range of the set, which then holds a part of it.
  bool Add(uint64_t begin, uint64_t end) {
    if (LiesInOne(begin) || LiesInOne(end - 1)) return false;
    SetEnd(end - 1);
    begins_[begin >> kBits] |= uint64_t{1} << (begin & kLast);
    return ForEachMask(begin, end, [this](int level, uint64_t word, uint64_t mask) {
      Level& at = levels_[level];
      if (((at.whole[word] | (level > 0 ? at.some[word] : 0)) & mask) != 0) return false;
      at.whole[word] |= mask;
      if (level > 0) wide_ += 1;
      Mark(level, word);
      return true;
    });
  }

  // Whether a range begins there.
  bool BeginsAt(uint64_t number) const {
    return (begins_[number >> kBits] >> (number & kLast) & 1) != 0;
  }

  // The end of the first range that ends behind a number; 0: there is none.
  uint64_t EndOf(uint64_t begin) const {
    for (int level = 0; level < count_; ++level) {
      const uint64_t* ends = levels_[level].ends;
      const uint64_t word = begin >> kBits;
      if (word >= words_[level]) return 0;
      const uint64_t bits = ends[word] & ~uint64_t{0} << (begin & kLast);
      if (bits != 0) {
        uint64_t found = word << kBits | static_cast<uint64_t>(__builtin_ctzll(bits));
        while (level-- > 0) {
          found =
              found << kBits | static_cast<uint64_t>(__builtin_ctzll(levels_[level].ends[found]));
        }
        return found + 1;
      }
      begin = word + 1;
    }
    return 0;
  }

  // One that was added. Of another one something is removed, and nothing else happens.
  void Remove(uint64_t begin, uint64_t end) {
    ClearEnd(end - 1);
    begins_[begin >> kBits] &= ~(uint64_t{1} << (begin & kLast));
    ForEachMask(begin, end, [this](int level, uint64_t word, uint64_t mask) {
      levels_[level].whole[word] &= ~mask;
      if (level > 0) wide_ -= 1;
      Unmark(level, word);
      return true;
    });
  }

  // Removes all of them.
  void Clear();

  // Whether no range of the set overlaps it.
  bool IsFree(uint64_t begin, uint64_t end) const {
    if (LiesInOne(begin) || LiesInOne(end - 1)) return false;
    return ForEachMask(begin, end, [this](int level, uint64_t word, uint64_t mask) {
      const Level& at = levels_[level];
      return ((at.whole[word] | (level > 0 ? at.some[word] : 0)) & mask) == 0;
    });
  }

 private:
  static constexpr int kBits = 6;
  static constexpr uint64_t kLast = 63;
  static constexpr int kMostLevels = 8;
  struct Level {
    uint64_t* whole;  // a bit: all of it is in one range
    uint64_t* some;   // a bit: something below it is in a range; none in level 0
    uint64_t* ends;   // a bit: the last number of a range, or something below it is
  };

  RangeSet() = default;

  // Whether a bit above level 0 says that the number is in a range.
  bool LiesInOne(uint64_t number) const {
    if (wide_ == 0) return false;
    for (int level = 1; level < count_; ++level) {
      number >>= kBits;
      if ((levels_[level].whole[number >> kBits] >> (number & kLast) & 1) != 0) return true;
    }
    return false;
  }

  // Calls visit(level, word, mask) for the masks that make up a range, until one returns false.
  template <typename Visit>
  bool ForEachMask(uint64_t begin, uint64_t end, Visit visit) const {
    for (int level = 0; begin < end; ++level) {
      const uint64_t first = begin >> kBits, last = (end - 1) >> kBits;
      const uint64_t from = ~uint64_t{0} << (begin & kLast);
      const uint64_t to = ~uint64_t{0} >> (kLast - ((end - 1) & kLast));
      if (first == last) return visit(level, first, from & to);
      if ((begin & kLast) != 0 && !visit(level, first, from)) return false;
      if ((end & kLast) != 0 && !visit(level, last, to)) return false;
      begin = (begin + kLast) >> kBits;
      end >>= kBits;
    }
    return true;
  }

  void Mark(int level, uint64_t word) {
    while (++level < count_) {
      uint64_t& some = levels_[level].some[word >> kBits];
      const uint64_t bit = uint64_t{1} << (word & kLast);
      if ((some & bit) != 0) return;
      some |= bit;
      word >>= kBits;
    }
  }
  void Unmark(int level, uint64_t word) {
    while (levels_[level].whole[word] == 0 && (level == 0 || levels_[level].some[word] == 0)) {
      if (++level == count_) return;
      levels_[level].some[word >> kBits] &= ~(uint64_t{1} << (word & kLast));
      word >>= kBits;
    }
  }

  void SetEnd(uint64_t last) {
    for (int level = 0; level < count_; ++level) {
      uint64_t& ends = levels_[level].ends[last >> kBits];
      const uint64_t before = ends;
      ends |= uint64_t{1} << (last & kLast);
      if (before != 0) return;
      last >>= kBits;
    }
  }
  void ClearEnd(uint64_t last) {
    for (int level = 0; level < count_; ++level) {
      uint64_t& ends = levels_[level].ends[last >> kBits];
      ends &= ~(uint64_t{1} << (last & kLast));
      if (ends != 0) return;
      last >>= kBits;
    }
  }

  Level levels_[kMostLevels] = {};
  uint64_t* begins_ = nullptr;        // a bit: the first number of a range
  uint64_t words_[kMostLevels] = {};  // of each array of a level
  int count_ = 0;                     // of levels; the last one has one word
  uint64_t wide_ = 0;                 // masks above level 0
  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_RANGE_SET_H_
