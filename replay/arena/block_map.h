// Which granules of 16 bytes are taken, and where the blocks there begin and end.
//
// Two bitmaps, which lie interleaved, tell of each granule that it is
//
//                                              start  body
//     free                                       0      0
//     the first one of a block that is marked    1      1
//     the first one of a block that is not       1      0
//     another one of a block                     0      1
//
// In a box a block that is marked is usable to the end of its last granule, and not 8 bytes less;
// in a region none is marked. Blocks are disjoint.
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
    Owned<uint64_t> starts;
    Owned<uint64_t> body;
    uint64_t taken() const { return starts | body; }
    // The granules that are another one of the block before them.
    uint64_t followers() const { return body & ~starts; }
    // How many granules the block has in this unit that begins at this one of the unit.
    uint64_t LengthAt(uint64_t at) const { return LengthIn(followers(), at); }
    // The same by any thread.
    uint64_t LengthSeenAt(uint64_t at) const { return LengthIn(FollowersSeen(*this), at); }
    // A block that ends in the unit, too.
    void Add(uint64_t at, uint64_t granules, bool marked = false) {
      starts |= Bit(at);
      body |= Mask(at, granules) & ~(marked ? 0 : Bit(at));
    }
    void Remove(uint64_t at, uint64_t granules) {
      body &= ~Mask(at, granules);
      starts &= ~Bit(at);
    }

   private:
    static uint64_t Mask(uint64_t at, uint64_t granules) {
      return ~uint64_t{0} >> (kUnit - granules) << at;
    }
  };

  // One unit is before the first granule, and one behind the last one: none of them is taken.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return (granules / kUnit + 3) * sizeof(Unit);
  }
  void Attach(void* zeroed_memory) { units_ = static_cast<Unit*>(zeroed_memory) + 1; }

  Unit& UnitOf(uint64_t granule) const { return units_[granule / kUnit]; }

  void Add(uint64_t granule, uint64_t granules, bool marked) {
    const uint64_t at = granule % kUnit;
    if (at + granules <= kUnit) return UnitOf(granule).Add(at, granules, marked);
    UnitOf(granule).starts |= Bit(granule);
    ForEachUnit(granule + (marked ? 0 : 1), granule + granules,
                [](Unit& unit, uint64_t mask) { unit.body |= mask; });
  }
  void Remove(uint64_t granule, uint64_t granules) {
    const uint64_t at = granule % kUnit;
    if (at + granules <= kUnit) return UnitOf(granule).Remove(at, granules);
    ForEachUnit(granule, granule + granules, [](Unit& unit, uint64_t mask) { unit.body &= ~mask; });
    UnitOf(granule).starts &= ~Bit(granule);
  }

  // The block that begins at a granule. By the owner.
  MappedBlock At(uint64_t granule) const {
    const Unit& unit = UnitOf(granule);
    return BlockAt(granule, unit.followers());
  }
  // The same by any thread.
  MappedBlock SeenAt(uint64_t granule) const {
    return BlockAt(granule, FollowersSeen(UnitOf(granule)));
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
  // The length of the longest run; 0: there is none.
  static uint64_t LongestRun(uint64_t free) {
    if (free == 0 || ~free == 0) return free == 0 ? 0 : kUnit;
    uint64_t starts[7] = {free};  // of runs of 1, 2, 4, ... 64
    uint64_t level = 0;
    while ((starts[level + 1] = starts[level] & starts[level] >> (1 << level)) != 0) {
      ++level;
    }
    uint64_t length = uint64_t{1} << level;
    for (uint64_t longest = starts[level]; level-- > 0;) {
      const uint64_t longer = longest & starts[level] >> length;
      if (longer == 0) continue;
      longest = longer;
      length += uint64_t{1} << level;
    }
    return length;
  }

  static uint64_t Bit(uint64_t granule) { return uint64_t{1} << (granule % kUnit); }

 private:
  static uint64_t LengthIn(uint64_t followers, uint64_t at) {
    return static_cast<uint64_t>(__builtin_ctzll(~(followers >> at >> 1))) + 1;
  }
  // How many of the lowest bits are set.
  static uint64_t Length(uint64_t bits) {
    return ~bits != 0 ? static_cast<uint64_t>(__builtin_ctzll(~bits)) : kUnit;
  }
  // The two words of a unit cannot be read at one time: the first granule of a block that another
  // thread adds or removes meanwhile may look like a follower, but not again and again.
  static uint64_t FollowersSeen(const Unit& unit) {
    constexpr int kLooks = 8;
    uint64_t followers = ~uint64_t{0};
    for (int looks = 0; looks < kLooks && followers != 0; ++looks) {
      followers &= unit.body.Seen() & ~unit.starts.Seen();
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    return followers;
  }
  MappedBlock BlockAt(uint64_t granule, uint64_t followers) const {
    const Unit* unit = &UnitOf(granule);
    if ((unit->starts.Seen() & Bit(granule)) == 0) return {};
    const bool marked = (unit->body.Seen() & Bit(granule)) != 0;
    const uint64_t at = granule % kUnit;
    uint64_t granules = LengthIn(followers, at);
    if (at + granules < kUnit) return {granules, marked};
    // What is behind a unit may be another thread's.
    for (uint64_t more = kUnit; more == kUnit; granules += more) {
      more = Length(FollowersSeen(*++unit));
    }
    return {granules, marked};
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
