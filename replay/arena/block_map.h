// Which granules of 16 bytes are taken, and where the blocks there begin and end.
//
// Two bitmaps, which lie interleaved, tell of each granule that it is
//
//                                             body  end
//     free                                     0     0
//     in a block, not its last one             1     0
//     the last one of a block that is marked   1     1
//     the last one of a block that is not      0     1
//
// What the mark means is the owner's: in a region it is a live block, in a box a block that is
// usable to the end of its last granule and not 8 bytes less. Blocks are disjoint.
//
// The granules of a region or of a box are changed by one thread at a time, which may be
// interrupted. Others may ask for the block at a granule at any time, and get the right answer
// while that block lives. Memory is the caller's, zero until touched. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_BLOCK_MAP_H_
#define REPRISE_REPLAY_ARENA_BLOCK_MAP_H_

#include <stdint.h>

#include "base/owned.h"

namespace reprise::replay {

struct MappedBlock {
  uint64_t granules = 0;  // 0: none begins there
  bool marked = false;
};

class BlockMap {
 public:
  static constexpr uint64_t kUnit = 64;  // granules that one unit of the map tells of
  struct Unit {
    Owned<uint64_t> body;
    Owned<uint64_t> ends;
    uint64_t taken() const { return body | ends; }
  };

  // One unit is before the first granule, and one behind the last one: none of them is taken.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return (granules / kUnit + 3) * sizeof(Unit);
  }
  void Attach(void* zeroed_memory) { units_ = static_cast<Unit*>(zeroed_memory) + 1; }

  Unit& UnitOf(uint64_t granule) const { return units_[granule / kUnit]; }

  void Add(uint64_t granule, uint64_t granules, bool marked) {
    const uint64_t last = granule + granules - 1;
    UnitOf(last).ends |= Bit(last);
    ForEachUnit(granule, marked ? last + 1 : last,
                [](Unit& unit, uint64_t mask) { unit.body |= mask; });
  }
  void Remove(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    ForEachUnit(granule, last + 1, [](Unit& unit, uint64_t mask) { unit.body &= ~mask; });
    UnitOf(last).ends &= ~Bit(last);
  }
  void Mark(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    UnitOf(last).body |= Bit(last);
  }
  void Unmark(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    UnitOf(last).body &= ~Bit(last);
  }

  // The block that begins at a granule, and ends in the unit where `limit` is or before.
  MappedBlock At(uint64_t granule, uint64_t limit) const {
    if (LeadsOn(granule - 1)) return {};
    uint64_t at = granule / kUnit;
    for (uint64_t mask = 0 - Bit(granule);; mask = ~uint64_t{0}) {
      const uint64_t ends = units_[at].ends.Seen() & mask;
      const uint64_t body = units_[at].body.Seen() | ends;
      if ((~body & mask & UpToFirst(ends)) != 0) return {};
      if (ends != 0) {
        const auto last = static_cast<uint64_t>(__builtin_ctzll(ends));
        return {at * kUnit + last + 1 - granule, (units_[at].body.Seen() >> last & 1) != 0};
      }
      if (++at * kUnit >= limit) return {};
    }
  }

  // Whether any of [begin, end) is taken; begin < end.
  bool HasAny(uint64_t begin, uint64_t end) const { return NextIn(begin, end) < end; }
  // The same for the few of [begin, begin + count), 0 < count <= kUnit, in a few instructions.
  bool HasAnyOfFew(uint64_t begin, uint64_t count) const {
    const Unit* unit = &UnitOf(begin);
    const uint64_t taken = unit->taken() >> (begin % kUnit) | unit[1].taken()
                                                                  << 1 << (~begin % kUnit);
    return taken << (kUnit - count) != 0;
  }

  // The first granule of [from, end) that is taken; `end` when there is none.
  uint64_t NextIn(uint64_t from, uint64_t end) const {
    if (from >= end) return end;
    uint64_t at = from / kUnit;
    uint64_t found = units_[at].taken() & (0 - Bit(from));
    while (found == 0) {
      if (++at * kUnit >= end) return end;
      found = units_[at].taken();
    }
    const uint64_t next = at * kUnit + static_cast<uint64_t>(__builtin_ctzll(found));
    return next < end ? next : end;
  }

  // Where in a word of free granules runs of so many begin; 0 < length <= 64.
  static uint64_t Runs(uint64_t free, uint64_t length) {
    uint64_t so_far = 1;
    for (; so_far * 2 <= length; so_far *= 2) free &= free >> so_far;
    return so_far < length ? free & free >> (length - so_far) : free;
  }
  // The length of the longest run, rounded down to a power of two; 0: there is none.
  static uint64_t LongestRun(uint64_t free) {
    uint64_t length = free != 0 ? 1 : 0;
    while (free != 0 && length < kUnit && (free &= free >> length) != 0) length *= 2;
    return length;
  }

  // The two words of a unit cannot be read at one time: of a block that another thread adds or
  // removes meanwhile it may look as if it went on. Whether that is seen again and again.
  template <typename Look>
  static bool SeenAgain(Look look) {
    constexpr int kLooks = 16;
    for (int looks = 0; looks < kLooks; ++looks) {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (!look()) return false;
    }
    return true;
  }

  static uint64_t Bit(uint64_t granule) { return uint64_t{1} << (granule % kUnit); }
  // The bits up to the first one that is set, that included; all of them where none is.
  static uint64_t UpToFirst(uint64_t bits) { return bits ^ (bits - 1); }

 private:
  // Whether the granule behind it belongs to the same block. It may be the one before the first.
  bool LeadsOn(uint64_t granule) const {
    const Unit* unit = &units_[static_cast<int64_t>(granule) >> 6];
    const auto leads_on = [unit, granule] {
      return ((unit->body.Seen() & ~unit->ends.Seen()) >> (granule % kUnit) & 1) != 0;
    };
    return leads_on() && SeenAgain(leads_on);
  }

  // Calls change(unit, mask of the granules that count) for every unit of [begin, end).
  template <typename Change>
  void ForEachUnit(uint64_t begin, uint64_t end, Change change) {
    uint64_t mask = 0 - Bit(begin);
    Unit* const last = &UnitOf(end);
    Unit* unit = &UnitOf(begin);
    for (; unit < last; ++unit, mask = ~uint64_t{0}) change(*unit, mask);
    mask &= Bit(end) - 1;
    if (mask != 0) change(*unit, mask);
  }

  Unit* units_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_BLOCK_MAP_H_
