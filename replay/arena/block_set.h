// Where a lane's blocks begin and end, as two bitmaps over its granules that lie interleaved: what
// is asked about a short block lies in one cache line, for a place that is taken again and again
// this is most of what it costs.
//
// A place that is kept (kept_places.h) has a beginning and no end. Blocks and places are disjoint.
// A set belongs to one thread. Others may ask for LengthAt at any time; of a block that lives
// while they ask, they get the right answer.
#ifndef REPRISE_REPLAY_ARENA_BLOCK_SET_H_
#define REPRISE_REPLAY_ARENA_BLOCK_SET_H_

#include <stdint.h>

#include "replay/arena/owned.h"

namespace reprise::replay {

class BlockSet {
 public:
  // Bytes of zeroed memory that a set over `granules` needs.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return (granules / 64 + 2) * sizeof(Unit);
  }

  void Attach(void* zeroed_memory) { units_ = static_cast<Unit*>(zeroed_memory); }

  void Add(uint64_t granule, uint64_t granules) {
    Reuse(granule, granules);
    units_[granule >> 6].begins |= Bit(granule);
  }
  // Of a block or of a kept place.
  void Remove(uint64_t granule, uint64_t granules) {
    units_[granule >> 6].begins &= ~Bit(granule);
    Keep(granule, granules);
  }

  // A block becomes a place that is kept, and the other way round.
  void Keep(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].ends &= ~Bit(last);
  }
  void Reuse(uint64_t granule, uint64_t granules) {
    const uint64_t last = granule + granules - 1;
    units_[last >> 6].ends |= Bit(last);
  }

  // Whether a block or a kept place begins there.
  bool BeginsAt(uint64_t granule) const {
    return (units_[granule >> 6].begins.Seen() >> (granule & 63) & 1) != 0;
  }
  // The last granule up to `from` at which one begins; there must be one.
  uint64_t LastBeginning(uint64_t from) const {
    uint64_t at = from >> 6;
    uint64_t found = units_[at].begins & ~uint64_t{0} >> (63 - (from & 63));
    while (found == 0) found = units_[--at].begins;
    return (at << 6) + 63 - static_cast<uint64_t>(__builtin_clzll(found));
  }

  // The length of the block that begins there, in granules; 0: none does. It ends below `limit`.
  uint64_t LengthAt(uint64_t granule, uint64_t limit) const {
    if (!BeginsAt(granule)) return 0;
    uint64_t at = granule >> 6;
    const uint64_t own = Bit(granule);
    uint64_t begins = units_[at].begins.Seen() & ~own & (0 - own);
    uint64_t ends = units_[at].ends.Seen() & (0 - own);
    while ((begins | ends) == 0) {
      if (++at << 6 >= limit) return 0;
      begins = units_[at].begins.Seen();
      ends = units_[at].ends.Seen();
    }
    if (ends == 0 || (begins & UpToLowest(ends)) != 0) return 0;
    return (at << 6) + static_cast<uint64_t>(__builtin_ctzll(ends)) + 1 - granule;
  }

  // The same by the owner, for lengths up to 64; 0 for longer ones.
  uint64_t ShortLengthAt(uint64_t granule) const {
    const Unit* unit = &units_[granule >> 6];
    const uint64_t begins = unit[0].begins >> (granule & 63) | unit[1].begins << 1
                                                                              << (~granule & 63);
    const uint64_t ends = unit[0].ends >> (granule & 63) | unit[1].ends << 1 << (~granule & 63);
    // Its own beginning and no other before the next end.
    if (ends == 0 || (begins & UpToLowest(ends)) != 1) return 0;
    return static_cast<unsigned>(__builtin_ctzll(ends)) + uint64_t{1};
  }

 private:
  struct Unit {
    Owned<uint64_t> begins;
    Owned<uint64_t> ends;
  };

  static uint64_t Bit(uint64_t granule) { return uint64_t{1} << (granule & 63); }
  static uint64_t UpToLowest(uint64_t bits) { return bits ^ (bits - 1); }

  Unit* units_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_BLOCK_SET_H_
