// The regions of one local heap: 1 KiB each, in which small blocks of any lengths lie. They come
// from the shared heap, and a region goes back when nothing in it is taken.
//
// Thread-safety: belongs to the local heap, but for UsableAt. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_REGIONS_H_
#define REPRISE_REPLAY_ARENA_REGIONS_H_

#include <stdint.h>

#include "replay/arena/arena_tables.h"
#include "replay/arena/heap.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

inline constexpr uint64_t kMostSmall = 512;  // bytes of a block in a region

class Regions {
 public:
  // Once. `number` is the local heap's.
  void Start(Heap* heap, ArenaTables* tables, uint64_t arena_bytes, uint32_t number) {
    heap_ = heap;
    map_ = tables->blocks();
    regions_ = tables->regions();
    links_ = tables->links();
    base_ = heap->AddressOf(0);
    bytes_ = arena_bytes;
    number_ = number;
  }

  uint64_t OffsetOf(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - base_);
  }
  // The region at this offset; null: it is none of these.
  Region* OwnAt(uint64_t offset) const {
    Region* region = &regions_[offset / kRegionBytes];
    return __atomic_load_n(&region->owner, __ATOMIC_RELAXED) == number_ ? region : nullptr;
  }
  // The granules of the live block of this region that begins there; 0: none does.
  uint64_t LiveAt(const Region& region, uint64_t offset) const {
    const uint64_t at = offset / kGranule % BlockMap::kUnit;
    if ((region.live & uint64_t{1} << at) == 0 || offset % kGranule != 0) return 0;
    return map_.UnitOf(offset / kGranule).LengthAt(at);
  }
  // The same of any pointer and of all these regions.
  uint64_t LiveAt(const void* pointer) const {
    const uint64_t offset = OffsetOf(pointer);
    const Region* region = offset < bytes_ ? OwnAt(offset) : nullptr;
    return region != nullptr ? LiveAt(*region, offset) : 0;
  }
  // Bytes of the live block that begins there, whoever owns it; 0: none does. By any thread, if the
  // block stays live meanwhile.
  uint64_t UsableAt(const void* pointer) const {
    const uint64_t offset = OffsetOf(pointer);
    const uint64_t live = regions_[offset / kRegionBytes].live.Seen();
    if (offset % kGranule != 0 || (live & BlockMap::Bit(offset / kGranule)) == 0) return 0;
    return map_.SeenAt(offset / kGranule).granules * kGranule;
  }
  // A taken block becomes a live one, or ceases to be one.
  void Mark(const void* block) {
    const uint64_t offset = OffsetOf(block);
    regions_[offset / kRegionBytes].live |= BlockMap::Bit(offset / kGranule);
  }
  void Unmark(const void* block) {
    const uint64_t offset = OffsetOf(block);
    regions_[offset / kRegionBytes].live &= ~BlockMap::Bit(offset / kGranule);
  }

  // Takes up to so many blocks of so many granules, and opens a region if there are none: how many.
  uint64_t Take(uint64_t granules, uint64_t most, char** blocks);
  // Gives a block back that was taken.
  void Return(char* block, uint64_t granules);
  // Whether there are more than a few in which nothing is taken.
  bool HasSpare() const { return empty_ > opened_ / kKeptShare; }
  // Gives those to the shared heap, of which the caller has the lock, or all that are empty.
  void ReleaseSpare() { ReleaseEmpty(opened_ / kKeptShare); }
  void ReleaseEmpty(uint32_t kept = 0);

 private:
  static constexpr uint32_t kEmpty = 64;  // the list of those in which nothing is taken
  static constexpr uint32_t kKeptShare = 32;

  uint32_t Find(uint64_t granules) const;
  uint32_t Open();
  uint64_t Cut(uint32_t region, uint64_t granules, uint64_t most, char** blocks);
  void Relink(uint32_t region);
  uint64_t FreeIn(uint32_t region) const {
    return ~map_.UnitOf(uint64_t{region} * BlockMap::kUnit).taken();
  }

  char* base_;
  uint64_t bytes_;
  BlockMap map_;
  Region* regions_;
  RegionLinks* links_;
  uint32_t number_;
  uint32_t opened_;             // that there are
  uint32_t empty_;              // of these, in which nothing is taken
  uint64_t filled_;             // bit n - 1: list n is not empty
  uint32_t lists_[kEmpty + 1];  // regions with room, by the longest run in them
  Heap* heap_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_REGIONS_H_
