// Where a lane's blocks begin and end, as two bitmaps over its granules that lie interleaved: what
// is asked about a short block lies in one cache line, for a place that is taken again and again
// this is most of what it costs.
//
// A place that is kept (kept_places.h) has an end and no beginning. Blocks and places are disjoint.
// A set belongs to one thread. Others may ask for LengthAt at any time; of a block that lives
// while they ask, they get the right answer.
#ifndef REPRISE_REPLAY_ARENA_BLOCK_SET_H_
#define REPRISE_REPLAY_ARENA_BLOCK_SET_H_

#include <stdint.h>

#include "replay/arena/owned.h"

namespace reprise::replay {

class BlockSet {
 public:
  static constexpr uint64_t kPageTells = 4096 * 8 / 2;  // granules that a page tells of

  // Bytes of zeroed memory that a set over `granules` needs.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return (granules / 64 + 2) * sizeof(Unit);
  }

  void Attach(void* zeroed_memory) { units_ = static_cast<Unit*>(zeroed_memory); }
  const void* memory() const { return units_; }

  // Of a block.
  void Add(uint64_t granule, uint64_t granules) {
    AddKept(granule, granules);
    Reuse(granule);
  }
  // Of a kept place.
  void AddKept(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].ends |= Bit(last);
  }
  // Of a block that may lie where ends were left behind: by Keep, of places that nobody keeps.
  void AddOver(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    uint64_t at = granule >> 6;
    uint64_t before = Bit(granule) - 1;
    for (; at < last >> 6; ++at, before = 0) units_[at].ends &= before;
    units_[at].ends = (units_[at].ends & (before | (0 - Bit(last)))) | Bit(last);
    Reuse(granule);
  }
  // Of a block or of a kept place.
  void Remove(uint64_t granule, uint64_t granules) {
    Keep(granule);
    RemoveKept(granule, granules);
  }
  // Of a kept place.
  void RemoveKept(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].ends &= ~Bit(last);
  }
  // It is going to be asked or changed.
  void LookAhead(uint64_t granule) const { __builtin_prefetch(&units_[granule >> 6], 1); }

  // A block becomes a place that is kept, and the other way round.
  void Keep(uint64_t granule) { units_[granule >> 6].begins &= ~Bit(granule); }
  void Reuse(uint64_t granule) { units_[granule >> 6].begins |= Bit(granule); }

  // Whether a block begins there.
  bool BeginsAt(uint64_t granule) const {
    return (units_[granule >> 6].begins.Seen() >> (granule & 63) & 1) != 0;
  }
  // Moves `granule`, at most `end`, on to where the next block begins; false: none does below
  // `end`.
  bool NextBegin(uint64_t* granule, uint64_t end) const {
    uint64_t at = *granule >> 6;
    uint64_t found = units_[at].begins & (0 - Bit(*granule));
    while (found == 0) {
      if (++at << 6 >= end) return false;
      found = units_[at].begins;
    }
    *granule = (at << 6) + static_cast<uint64_t>(__builtin_ctzll(found));
    return *granule < end;
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

  // The length of the block that begins there, in granules; 0: none does. It ends below `limit`.
  uint64_t LengthAt(uint64_t granule, uint64_t limit) const {
    if (!BeginsAt(granule)) return 0;
    uint64_t at = granule >> 6;
    uint64_t ends = units_[at].ends.Seen() & (0 - Bit(granule));
    while (ends == 0) {
      if (++at << 6 >= limit) return 0;
      ends = units_[at].ends.Seen();
    }
    return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(ends)) + 1 - granule;
  }

  // The same by the owner, quickly, for lengths up to 64; for longer ones it may be 0.
  uint64_t ShortLengthAt(uint64_t granule) const {
    const Unit* unit = &units_[granule >> 6];
    if ((unit->begins >> (granule & 63) & 1) == 0) return 0;
    const uint64_t ends = unit->ends >> (granule & 63) | unit[1].ends << 1 << (~granule & 63);
    if (ends == 0) return 0;
    return static_cast<uint64_t>(__builtin_ctzll(ends)) + 1;
  }

 private:
  struct Unit {
    Owned<uint64_t> begins;
    Owned<uint64_t> ends;
  };

  static uint64_t Bit(uint64_t granule) { return uint64_t{1} << (granule & 63); }

  Unit* units_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_BLOCK_SET_H_
