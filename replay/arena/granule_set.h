// Sets of 16-byte granules of a lane, or of stretches of them, as bitmaps in memory that is zero
// until touched.
//
// A set belongs to one thread. Others may ask Has at any time.
#ifndef REPRISE_REPLAY_ARENA_GRANULE_SET_H_
#define REPRISE_REPLAY_ARENA_GRANULE_SET_H_

#include <stdint.h>

#include "base/owned.h"

namespace reprise::replay {

class GranuleSet {
 public:
  // Bytes of zeroed memory that a set over `granules` needs.
  static constexpr uint64_t MemoryFor(uint64_t granules) { return (granules / 64 + 1) * 8; }

  void Attach(void* zeroed_memory) { words_ = static_cast<Owned<uint64_t>*>(zeroed_memory); }
  const void* memory() const { return words_; }

  bool Has(uint64_t granule) const {
    return (words_[granule >> 6].Seen() >> (granule & 63) & 1) != 0;
  }
  void Add(uint64_t granule) { words_[granule >> 6] |= uint64_t{1} << (granule & 63); }
  void Remove(uint64_t granule) { words_[granule >> 6] &= ~(uint64_t{1} << (granule & 63)); }

 private:
  Owned<uint64_t>* words_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_GRANULE_SET_H_
