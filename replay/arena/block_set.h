// Which granules of a lane are taken, and where the blocks there begin and end.
//
// Two bitmaps over the granules, which lie interleaved: what is asked about a short block lies in
// one cache line; for a place that is taken again and again this is most of what it costs. Together
// they tell of each granule that it is
//
//                                              body  end
//     free                                      0     0
//     in a block or a kept place, not the last  1     0
//     the last of a block                       1     1
//     the last of a kept place                  0     1
//
// So a block begins where no granule before it leads on to it and all are body up to the next end.
// A place that is kept (kept_places.h) is taken, and no block. Blocks and places are disjoint.
//
// A set belongs to one thread, which may be interrupted at any time. Others may ask for LengthAt at
// any time; of a block that lives while they ask they get the right answer, if no block or place
// was added or removed meanwhile. Memory is the caller's, zero until touched.
#ifndef REPRISE_REPLAY_ARENA_BLOCK_SET_H_
#define REPRISE_REPLAY_ARENA_BLOCK_SET_H_

#include <stdint.h>

#include "base/owned.h"

namespace reprise::replay {

class BlockSet {
 public:
  static constexpr uint64_t kFew = 64;                  // granules that lie in two units at most
  static constexpr uint64_t kHasAUnit = 127;            // a gap of that length holds a whole unit
  static constexpr uint64_t kPageTells = 4096 * 8 / 2;  // granules that a page tells of

  // Bytes of zeroed memory that a set over `granules` needs.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return (granules / 64 + 3) * sizeof(Unit);
  }

  // One unit is before the first granule, and one behind the last one: none of them is taken.
  void Attach(void* zeroed_memory) { units_ = static_cast<Unit*>(zeroed_memory) + 1; }
  // What tells of the first granules.
  const void* memory() const { return units_; }

  // Of a block. While this is done, as when it is undone, the granule before the next block is
  // never seen as one that leads on to it.
  void Add(uint64_t granule, uint64_t granules) {
    AddKept(granule, granules);
    Reuse(granule, granules);
  }
  // Of a kept place.
  void AddKept(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].ends |= Bit(last);
    ForEachUnit(granule, last, [](Unit& unit, uint64_t mask) { unit.body |= mask; });
  }
  // Of a block or of a kept place.
  void Remove(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    ForEachUnit(granule, last + 1, [](Unit& unit, uint64_t mask) { unit.body &= ~mask; });
    units_[last >> 6].ends &= ~Bit(last);
  }
  // It is going to be asked or changed.
  void LookAhead(uint64_t granule) const { __builtin_prefetch(&units_[granule >> 6], 1); }

  // A block becomes a place that is kept, and the other way round.
  void Keep(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].body &= ~Bit(last);
  }
  void Reuse(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].body |= Bit(last);
  }

  // The length of the block that begins there, in granules; 0: none does. It ends below `limit`.
  uint64_t LengthAt(uint64_t granule, uint64_t limit) const {
    if (LeadsOn(granule - 1)) return 0;
    uint64_t at = granule >> 6;
    for (uint64_t mask = 0 - Bit(granule);; mask = ~uint64_t{0}) {
      const uint64_t others = ~units_[at].body.Seen() & mask;
      const uint64_t ends = units_[at].ends.Seen() & mask;
      if ((others & UpToFirst(ends)) != 0) return 0;
      if (ends != 0) return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(ends)) + 1 - granule;
      if (++at << 6 >= limit) return 0;
    }
  }
  // Whether a block begins there.
  bool BeginsAt(uint64_t granule) const { return LengthAt(granule, UINT64_MAX) != 0; }

  // The length by the owner, quickly, for lengths up to 64; for longer ones it may be 0.
  uint64_t ShortLengthAt(uint64_t granule) const {
    const Unit* unit = &units_[granule >> 6];
    const uint64_t ends = unit->ends >> (granule & 63) | unit[1].ends << 1 << (~granule & 63);
    const uint64_t body = unit->body >> (granule & 63) | unit[1].body << 1 << (~granule & 63);
    if (ends == 0 || (~body & UpToFirst(ends)) != 0 || LeadsOn(granule - 1)) return 0;
    return static_cast<uint64_t>(__builtin_ctzll(ends)) + 1;
  }

  // The granule behind the last block or kept place that ends in [lowest, granule); `lowest` when
  // none does.
  uint64_t LastEnd(uint64_t granule, uint64_t lowest) const {
    uint64_t at = granule >> 6;
    uint64_t found = units_[at].ends & (Bit(granule) - 1);
    while (found == 0) {
      if (at << 6 <= lowest) return lowest;
      found = units_[--at].ends;
    }
    const uint64_t end = (at << 6) + 64 - static_cast<uint64_t>(__builtin_clzll(found));
    return end > lowest ? end : lowest;
  }

  // Whether it is taken.
  bool Has(uint64_t granule) const { return (Taken(granule >> 6) & Bit(granule)) != 0; }

  // Whether any of [begin, end) is taken; begin < end.
  bool HasAny(uint64_t begin, uint64_t end) const {
    uint64_t at = begin >> 6;
    const uint64_t last = (end - 1) >> 6;
    const uint64_t first_mask = ~uint64_t{0} << (begin & 63);
    const uint64_t last_mask = ~uint64_t{0} >> (63 - ((end - 1) & 63));
    if (at == last) return (Taken(at) & first_mask & last_mask) != 0;
    if ((Taken(at) & first_mask) != 0) return true;
    while (++at < last) {
      if (Taken(at) != 0) return true;
    }
    return (Taken(last) & last_mask) != 0;
  }
  // The same for the few of [begin, begin + count), 0 < count <= kFew, in a few instructions.
  bool HasAnyOfFew(uint64_t begin, uint64_t count) const {
    const uint64_t at = begin >> 6;
    const uint64_t taken = Taken(at) >> (begin & 63) | Taken(at + 1) << 1 << (~begin & 63);
    return taken << (64 - count) != 0;
  }

  // Whether [begin, end), which is free, can be part of a gap that holds a whole unit.
  bool CanBeInALongGap(uint64_t begin, uint64_t end) const {
    uint64_t at = begin >> 6;
    const uint64_t last = ((end - 1) >> 6) + 1;
    for (at -= at > 0 ? 1 : 0; at <= last; ++at) {
      if (Taken(at) == 0) return true;
    }
    return false;
  }

  // Moves `at` on to the first run of `length` granules in [at, end) that are free and begin at a
  // multiple of `step`. False: there is none, or the effort, one for each place or unit with places
  // looked at, is spent; `at` is where the search stopped.
  bool FindGap(uint64_t* at, uint64_t end, uint64_t length, uint64_t step, int32_t* effort) const {
    if (step == 1 && length <= 64) return FindShortGap(at, end, length, effort);
    for (;;) {
      *at = (*at + step - 1) / step * step;
      if (*at + length > end || *effort <= 0) return false;
      --*effort;
      const uint64_t taken = NextIn(*at, *at + length);
      if (taken >= *at + length) return true;
      *at = length < kHasAUnit ? NextOut(taken + 1, end) : NextLongGap(taken, end);
    }
  }

  // The first granule of [from, end) that is taken; `end`, or more, when there is none.
  uint64_t NextIn(uint64_t from, uint64_t end) const {
    uint64_t at = from >> 6;
    uint64_t found = Taken(at) & ~uint64_t{0} << (from & 63);
    while (found == 0) {
      if (++at << 6 >= end) return end;
      found = Taken(at);
    }
    return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(found));
  }

  // The first granule of [from, end) that is free; `end`, or more, when there is none.
  uint64_t NextOut(uint64_t from, uint64_t end) const {
    if (from >= end) return end;
    uint64_t at = from >> 6;
    uint64_t found = ~Taken(at) & ~uint64_t{0} << (from & 63);
    while (found == 0) {
      if (++at << 6 >= end) return end;
      found = ~Taken(at);
    }
    return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(found));
  }

  // The first granule from `lowest` on from which all up to `at` are free; lowest <= at.
  uint64_t GapBegin(uint64_t at, uint64_t lowest) const {
    return RunBegin(at, lowest, [this](uint64_t unit) { return Taken(unit); });
  }
  // The same where all are taken.
  uint64_t TakenBegin(uint64_t at, uint64_t lowest) const {
    return RunBegin(at, lowest, [this](uint64_t unit) { return ~Taken(unit); });
  }

 private:
  struct Unit {
    Owned<uint64_t> body;
    Owned<uint64_t> ends;
  };

  static uint64_t Bit(uint64_t granule) { return uint64_t{1} << (granule & 63); }
  // The bits up to the first one that is set, that included; all of them where none is.
  static uint64_t UpToFirst(uint64_t bits) { return bits ^ (bits - 1); }

  uint64_t Taken(uint64_t unit) const { return units_[unit].body | units_[unit].ends; }
  // Whether the granule behind it belongs to the same block or place. It may be the one before the
  // first.
  bool LeadsOn(uint64_t granule) const {
    const Unit* unit = &units_[static_cast<int64_t>(granule) >> 6];
    return ((unit->body.Seen() & ~unit->ends.Seen()) >> (granule & 63) & 1) != 0;
  }

  // Calls change(unit, mask of the granules that count) for every unit of [begin, end).
  template <typename Change>
  void ForEachUnit(uint64_t begin, uint64_t end, Change change) {
    uint64_t mask = 0 - Bit(begin);
    Unit* const last = &units_[end >> 6];
    Unit* unit = &units_[begin >> 6];
    for (; unit < last; ++unit, mask = ~uint64_t{0}) change(*unit, mask);
    mask &= Bit(end) - 1;
    if (mask != 0) change(*unit, mask);
  }

  // The first granule from `lowest` on from which up to `at` none is in what `others` gives of a
  // unit.
  template <typename Others>
  static uint64_t RunBegin(uint64_t at, uint64_t lowest, Others others) {
    uint64_t unit = at >> 6;
    uint64_t found = others(unit) & ~uint64_t{0} >> (63 - (at & 63));
    while (found == 0) {
      if (unit << 6 <= lowest) return lowest;
      found = others(--unit);
    }
    const uint64_t begin = (unit << 6) + 64 - static_cast<uint64_t>(__builtin_clzll(found));
    return begin > lowest ? begin : lowest;
  }

  // The same for at most 64 granules, anywhere: a unit at a time, because where the gaps in it are
  // cannot be foretold.
  bool FindShortGap(uint64_t* at, uint64_t end, uint64_t length, int32_t* effort) const {
    uint64_t unit = *at >> 6;
    uint64_t free = ~Taken(unit) & ~uint64_t{0} << (*at & 63);
    while (*at + length <= end && *effort > 0) {
      const uint64_t next = ~Taken(unit + 1);
      if (free != 0) {
        --*effort;
        const uint64_t begins = Runs(free, next, length);
        if (begins != 0) {
          *at = (unit << 6) + static_cast<uint64_t>(__builtin_ctzll(begins));
          return *at + length <= end;
        }
      }
      *at = ++unit << 6;
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

  // Where the first gap behind `taken`, which is, begins that holds a whole unit; `end` when there
  // is none below.
  uint64_t NextLongGap(uint64_t taken, uint64_t end) const {
    uint64_t at = (taken >> 6) + 1;
    while (at << 6 < end && Taken(at) != 0) ++at;
    if (at << 6 >= end) return end;
    return (at << 6) - static_cast<uint64_t>(__builtin_clzll(Taken(at - 1)));
  }

  Unit* units_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_BLOCK_SET_H_
