// Where long stretches of a lane are free, by length: a long block takes the shortest that is long
// enough (best fit), so that the longer ones are left for longer blocks.
//
// It is told of what becomes free, and of nothing else that is taken. So what it notes is a hint:
// the lane's cover, which says what is free, is asked before a place is given out.
//
// Hook-safe. Belongs to one thread. Memory is the caller's, zeroed: little of it is touched, unless
// there are many such stretches.
#ifndef REPRISE_REPLAY_ARENA_LONG_GAPS_H_
#define REPRISE_REPLAY_ARENA_LONG_GAPS_H_

#include <stdint.h>
#include <string.h>

#include "replay/arena/block_set.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

class LongGaps {
 public:
  // Of granules, the end not included.
  struct Range {
    uint64_t begin;
    uint64_t end;
  };

  static constexpr uint64_t kLeast = kLongGapGranules;  // shorter ones are not noted
  static_assert(kLeast == BlockSet::kHasAUnit);
  static constexpr uint64_t kMost = 1024;  // gaps; then the shortest is forgotten

  // Bytes of zeroed memory beside the object itself.
  static constexpr uint64_t MemoryFor() { return kMost * sizeof(uint64_t); }

  // `cover` is everything that is taken, and outlives the object.
  void Attach(void* zeroed_memory, const BlockSet* cover) {
    gaps_ = static_cast<uint64_t*>(zeroed_memory);
    cover_ = cover;
    Clear();
  }

  uint64_t Count() const { return count_; }
  // Whether none was forgotten because there were too many.
  bool HasAll() const { return has_all_; }
  void Clear() {
    count_ = 0;
    has_all_ = true;
  }

  // Notes all gaps of a part of the lane.
  void AddAll(Range part) {
    int32_t effort = INT32_MAX;
    while (cover_->FindGap(&part.begin, part.end, kLeast, 1, &effort)) {
      const uint64_t end = EndOf(part.begin, part.end);
      Add({part.begin, end});
      part.begin = end;
    }
  }

  // Notes that of a part of the lane a range has become free: `cover` has nothing of it. What of it
  // lies behind the part does not count.
  void Freed(Range freed, Range part) {
    if (!Clip(&freed, part) || !cover_->CanBeInALongGap(freed.begin, freed.end)) return;
    const Range gap = Around(freed, part);
    Forget({gap.begin, freed.begin});
    Forget({freed.end, gap.end});
    Add(gap);
  }

  // Calls visit(gap) for those of so many granules and more, the longest first, as long as that
  // says so; what is noted must not change meanwhile.
  template <typename Visit>
  void EachLongest(uint64_t least, Visit visit) const {
    const uint32_t first = From(least << kBeginBits);
    for (uint32_t at = count_; at > first; --at) {
      if (!visit(RangeOf(gaps_[at - 1]))) return;
    }
  }

  // No longer notes that gap, if it is one.
  void Forget(Range gap) {
    if (gap.begin + kLeast > gap.end) return;
    const uint64_t entry = Entry(gap);
    const uint32_t at = From(entry);
    if (at < count_ && gaps_[at] == entry) Remove(at);
  }

  // Takes so many granules, below 2^32, of the shortest gap that has them, from a place on that
  // `align` allows: it gives the first one from a granule on. False: there is none.
  template <typename Align>
  bool Take(uint64_t granules, Align align, uint64_t* place) {
    for (uint32_t at = From(granules << kBeginBits); at < count_;) {
      const auto [begin, end] = RangeOf(gaps_[at]);
      *place = align(begin);
      if (*place + granules > end) {
        ++at;
        continue;
      }
      Remove(at);
      const uint64_t taken = EndOf(*place, *place + granules);
      const bool free = taken == *place + granules;
      Add({begin, free ? *place : taken});
      Add({free ? taken : cover_->NextOut(taken, end), end});
      if (free) return true;
      at = From(granules << kBeginBits);
    }
    return false;
  }

 private:
  static constexpr uint64_t kBeginBits = 32;
  static constexpr uint64_t kBeginMask = (uint64_t{1} << kBeginBits) - 1;
  // How far is looked for what is free around a range, granules, and a multiple of which it is
  // looked up to: so, where one block behind the other is freed, each lengthens the same gap.
  static constexpr uint64_t kReach = 1 << 14;

  static uint64_t Entry(Range gap) { return (gap.end - gap.begin) << kBeginBits | gap.begin; }
  static Range RangeOf(uint64_t entry) {
    const uint64_t begin = entry & kBeginMask;
    return {begin, begin + (entry >> kBeginBits)};
  }

  static bool Clip(Range* range, const Range& part) {
    if (range->end > part.end) range->end = part.end;
    return range->begin < range->end;
  }

  // Where what is free from `begin` on ends, at most at `limit`.
  uint64_t EndOf(uint64_t begin, uint64_t limit) const {
    const uint64_t end = cover_->NextIn(begin, limit);
    return end < limit ? end : limit;
  }

  // What is free, and what is free around it.
  Range Around(const Range& range, const Range& part) const {
    const uint64_t reach = kReach + range.end - range.begin;
    uint64_t from = part.begin;
    uint64_t to = part.end;
    if (range.begin > from + reach) from = (range.begin - reach) & -kReach;
    if (range.end + reach < to) to = (range.end + reach) & -kReach;
    if (from < part.begin) from = part.begin;
    return {cover_->GapBegin(range.begin, from), EndOf(range.end - 1, to)};
  }

  // Notes a gap, unless it is too short.
  void Add(Range gap) {
    if (gap.begin + kLeast > gap.end) return;
    const uint64_t entry = Entry(gap);
    uint32_t at = From(entry);
    if (at < count_ && gaps_[at] == entry) return;
    if (count_ == kMost) {
      has_all_ = false;
      if (at == 0) return;
      --at;
      memmove(&gaps_[0], &gaps_[1], at * sizeof(uint64_t));
    } else {
      memmove(&gaps_[at + 1], &gaps_[at], (count_ - at) * sizeof(uint64_t));
      ++count_;
    }
    gaps_[at] = entry;
  }

  // The number of the first entry that is no less.
  uint32_t From(uint64_t entry) const {
    uint32_t first = 0;
    for (uint32_t left = count_; left > 0;) {
      const uint32_t half = left / 2;
      const bool below = gaps_[first + half] < entry;
      first = below ? first + half + 1 : first;
      left = below ? left - half - 1 : half;
    }
    return first;
  }

  void Remove(uint32_t at) {
    --count_;
    memmove(&gaps_[at], &gaps_[at + 1], (count_ - at) * sizeof(uint64_t));
  }

  uint64_t* gaps_;  // ascending: length above, where it begins below
  const BlockSet* cover_;
  uint32_t count_;
  bool has_all_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LONG_GAPS_H_
