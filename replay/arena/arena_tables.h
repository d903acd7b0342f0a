// What the arena notes about addresses: tables indexed by address, outside of the blocks. They are
// mapped so that they count as no memory; a part of the arena that is going to be used is covered
// first, which makes its entries writable.
//
// Hook-safe. Cover needs a lock of the caller's.
#ifndef REPRISE_REPLAY_ARENA_ARENA_TABLES_H_
#define REPRISE_REPLAY_ARENA_ARENA_TABLES_H_

#include <stdint.h>

#include "replay/arena/block_map.h"
#include "replay/arena/ordered_bits.h"

namespace reprise::replay {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kHeapUnit = 64;       // bytes
inline constexpr uint64_t kRegionBytes = 1024;  // of a region, and its alignment
static_assert(kRegionBytes / 16 == BlockMap::kUnit, "one unit of the map tells of a region");

// A region of small blocks (regions.h). All that a free looks at lies in one line of the cache.
struct Region {
  BlockMap::Unit blocks;  // that are taken
  uint32_t owner;         // the number of the local heap it belongs to; 0: it is no region; atomic
  uint32_t list;          // of the owner's, that it is in
  uint32_t next, prev;    // in that list: numbers of regions; 0: the end
};
static_assert(sizeof(Region) == 32);

// A bit per page or per unit.
class FlatBits {
 public:
  void Attach(uint64_t* words) { words_ = words; }
  bool Has(uint64_t at) const { return (words_[at >> 6] >> (at & 63) & 1) != 0; }
  void Add(uint64_t at) { words_[at >> 6] |= uint64_t{1} << (at & 63); }
  void Remove(uint64_t at) { words_[at >> 6] &= ~(uint64_t{1} << (at & 63)); }
  // How many of [begin, end) are set; they become set or not, if told to.
  enum class Then { kKeep, kSet, kClear };
  uint64_t Count(uint64_t begin, uint64_t end, Then then = Then::kKeep) {
    uint64_t count = 0;
    while (begin < end) {
      const uint64_t next = (begin | 63) + 1 < end ? (begin | 63) + 1 : end;
      const uint64_t mask = ~uint64_t{0} >> (64 - (next - begin)) << (begin & 63);
      uint64_t& word = words_[begin >> 6];
      count += static_cast<uint64_t>(__builtin_popcountll(word & mask));
      if (then == Then::kSet) word |= mask;
      if (then == Then::kClear) word &= ~mask;
      begin = next;
    }
    return count;
  }

 private:
  uint64_t* words_ = nullptr;
};

// Where live blocks of the heap begin: a mark per unit. Of a unit in a region it has a bit for each
// granule, of a long block it is more than that and tells the length. Any thread may read a mark;
// it is changed by whoever owns the region or the block. Two threads that free the same block at
// the same time are not told apart.
class LiveMarks {
 public:
  static constexpr uint64_t kSmall = 15;           // the bits of a unit in a region
  static constexpr uint64_t kMany = 255 - kSmall;  // units, or more

  static uint64_t SmallAt(uint64_t offset) { return uint64_t{1} << offset % kHeapUnit / 16; }
  static uint64_t Long(uint64_t units) { return kSmall + (units < kMany ? units : kMany); }
  static bool IsLong(uint64_t mark) { return mark > kSmall; }

  void Attach(void* bytes) { bytes_ = static_cast<uint8_t*>(bytes); }
  uint64_t Get(uint64_t offset) const {
    return __atomic_load_n(&bytes_[offset / kHeapUnit], __ATOMIC_RELAXED);
  }
  void Set(uint64_t offset, uint64_t mark) {
    __atomic_store_n(&bytes_[offset / kHeapUnit], static_cast<uint8_t>(mark), __ATOMIC_RELAXED);
  }
  // Units of the long block that begins there; kMany: so many or more; 0: none does.
  uint64_t UnitsAt(uint64_t offset) const {
    const uint64_t mark = Get(offset);
    return IsLong(mark) && offset % kHeapUnit == 0 ? mark - kSmall : 0;
  }

 private:
  uint8_t* bytes_ = nullptr;
};

class ArenaTables {
 public:
  // Bytes of address space for an arena of so many bytes, a multiple of 1 MiB.
  static uint64_t BytesFor(uint64_t arena_bytes);

  // `memory` is zeroed, readable, aligned to pages and outlives the tables.
  bool Attach(char* memory, uint64_t arena_bytes);

  // Makes the entries of [begin, end) writable, bytes from the arena's start. False: the system
  // refuses.
  bool Cover(uint64_t begin, uint64_t end);

  // Gives back the entries of [begin, end), which nobody asks for again.
  void Uncover(uint64_t begin, uint64_t end);

  BlockMap& blocks() { return blocks_; }
  const BlockMap& blocks() const { return blocks_; }
  Region* regions() const { return regions_; }
  OrderedBits& starts() { return starts_; }
  const OrderedBits& starts() const { return starts_; }
  FlatBits& free() { return free_; }
  LiveMarks& live() { return live_; }
  FlatBits& resident() { return resident_; }

 private:
  // The tables in memory: so many bytes of the arena per byte (log2), each between empty pages.
  enum Table { kBlocks, kRegions, kStarts, kFree, kLive, kResident, kTables };
  static constexpr int kShift[kTables] = {6, 5, 9, 9, 6, 15};
  static constexpr uint64_t kAround = 64;  // bytes: neighbours are looked at, too
  static uint64_t TableBytes(int table, uint64_t arena_bytes) {
    return ((arena_bytes >> kShift[table]) + 3 * kPage) & ~(kPage - 1);
  }

  char* at_[kTables] = {};
  BlockMap blocks_;
  Region* regions_ = nullptr;
  OrderedBits starts_;  // units at which a block, a free range or neither begins
  FlatBits free_;       // those at which a free range does
  LiveMarks live_;
  FlatBits resident_;  // pages that were used and not given back
};

// Makes whole pages around [begin, begin + bytes) readable and writable. Leaves errno alone.
bool MakeWritable(const void* begin, uint64_t bytes);

// Unmaps the whole pages of [begin, end).
void GiveAddresses(const char* begin, const char* end);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_ARENA_TABLES_H_
