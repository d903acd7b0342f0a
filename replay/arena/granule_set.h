// Sets of 16-byte granules of a lane's box, as bitmaps in memory that is zero until touched.
#ifndef REPRISE_REPLAY_ARENA_GRANULE_SET_H_
#define REPRISE_REPLAY_ARENA_GRANULE_SET_H_

#include <stdint.h>

namespace reprise::replay {

class GranuleSet {
 public:
  // Bytes of zeroed memory that a set over `granules` needs.
  static constexpr uint64_t MemoryFor(uint64_t granules) { return (granules / 64 + 2) * 8; }

  void Attach(void* zeroed_memory) { words_ = static_cast<uint64_t*>(zeroed_memory); }

  bool Has(uint64_t granule) const { return (words_[granule >> 6] >> (granule & 63) & 1) != 0; }
  void Add(uint64_t granule) { words_[granule >> 6] |= uint64_t{1} << (granule & 63); }
  void Remove(uint64_t granule) { words_[granule >> 6] &= ~(uint64_t{1} << (granule & 63)); }

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

  void AddRange(uint64_t begin, uint64_t end) {
    for (; begin < end && (begin & 63) != 0; ++begin) Add(begin);
    for (; begin + 64 <= end; begin += 64) words_[begin >> 6] = ~uint64_t{0};
    for (; begin < end; ++begin) Add(begin);
  }

  void RemoveRange(uint64_t begin, uint64_t end) {
    for (; begin < end && (begin & 63) != 0; ++begin) Remove(begin);
    for (; begin + 64 <= end; begin += 64) words_[begin >> 6] = 0;
    for (; begin < end; ++begin) Remove(begin);
  }

 private:
  uint64_t* words_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_GRANULE_SET_H_
