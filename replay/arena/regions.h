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
    regions_ = tables->regions();
    live_ = tables->live();
    base_ = heap->AddressOf(0);
    bytes_ = arena_bytes;
    number_ = number;
  }

  uint64_t OffsetOf(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - base_);
  }
  Region& At(uint64_t offset) const { return regions_[offset / kRegionBytes]; }
  bool Owns(const Region& region) const {
    return __atomic_load_n(&region.owner, __ATOMIC_RELAXED) == number_;
  }
  // The granules of the block that begins there, if one does: 1 to 64.
  static uint64_t LengthAt(const Region& region, uint64_t offset) {
    return region.blocks.LengthAt(offset / kGranule % BlockMap::kUnit);
  }
  // The granules of the live block of these regions that begins there; 0: none does.
  uint64_t LiveAt(const void* pointer) const {
    const uint64_t offset = OffsetOf(pointer);
    if (offset >= bytes_ || !Owns(At(offset)) || !IsLive(offset)) return 0;
    return LengthAt(At(offset), offset);
  }
  // Bytes of the live block of a region that begins there, whoever owns it; 0: none does. By any
  // thread, if the block stays live meanwhile.
  uint64_t UsableAt(const void* pointer) const {
    const uint64_t offset = OffsetOf(pointer);
    if (!IsLive(offset)) return 0;
    return At(offset).blocks.LengthSeenAt(offset / kGranule % BlockMap::kUnit) * kGranule;
  }
  // A live block ceases to be one; it stays taken.
  void Unmark(const void* block) {
    const uint64_t offset = OffsetOf(block);
    live_.Set(offset, live_.Get(offset) & ~LiveMarks::SmallAt(offset));
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
  bool IsLive(uint64_t offset) const {
    return offset % kGranule == 0 && (live_.Get(offset) & LiveMarks::SmallAt(offset)) != 0;
  }

  char* base_;
  uint64_t bytes_;
  Region* regions_;
  LiveMarks live_;
  uint32_t number_;
  uint32_t opened_;             // that there are
  uint32_t empty_;              // of these, in which nothing is taken
  uint64_t filled_;             // bit n - 1: list n is not empty
  uint32_t lists_[kEmpty + 1];  // regions with room, by the longest run in them
  Heap* heap_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_REGIONS_H_
