// The private level of the arena: what one thread takes that its plan does not tell it.
//
// Blocks of up to 512 bytes lie in regions of 1 KiB that the thread owns and that come from the
// shared heap; a region goes back when nothing in it is taken. In front of the regions some blocks
// of each length are ready: taken, but not live. Longer blocks come from the shared heap, with a
// few of them ready for each length up to 8 KiB.
//
// A block of a region is freed by its owner, or through the owner's list of remote frees. Once its
// thread has ended nobody owns it, and whoever frees a block does so with the lock of the heap. A
// long block may be freed by any thread.
//
// Thread-safety: every function is the owner's, unless it says otherwise. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_LOCAL_HEAP_H_
#define REPRISE_REPLAY_ARENA_LOCAL_HEAP_H_

#include <stdint.h>

#include "replay/arena/arena_tables.h"
#include "replay/arena/heap.h"
#include "replay/arena/remote_frees.h"
#include "replay/plan/counters.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

inline constexpr uint64_t kMostSmall = 512;            // bytes of a block in a region
inline constexpr uint64_t kReadySmallBytes = 2 << 10;  // of the ready blocks of one small length

// How many small blocks of one length are ready at most, and of all lengths.
constexpr uint64_t MostReady(uint64_t granules) {
  const uint64_t fit = kReadySmallBytes / (granules * kGranule);
  return fit < 4 ? 4 : fit > 64 ? 64 : fit;
}
constexpr uint64_t ReadySlots() {
  uint64_t slots = 0;
  for (uint64_t granules = 1; granules <= kMostSmall / kGranule; ++granules) {
    slots += MostReady(granules);
  }
  return slots;
}

class LocalHeap {
 public:
  static constexpr uint64_t kMostReady = 8 << 10;          // bytes of a block that may be ready
  static constexpr uint64_t kReadyLargeBytes = 128 << 10;  // of all that are longer

  // Once, before the first thread has it. `number` is this heap's among all, from 1 on.
  void Start(Heap* heap, ArenaTables* tables, uint64_t arena_bytes, uint32_t number);
  // A thread begins to own it, with the lock of the heap. What it allocates is counted there.
  void Open(HeapCounters* counters);
  // Its thread ends, which has the lock of the heap. Blocks may live on.
  void Close();

  // The usual case: a small block that is ready. Null: nothing has happened.
  void* AllocateQuickly(uint64_t bytes) {
    const uint64_t granules = (bytes + kGranule - 1) / kGranule;
    if (__builtin_expect(granules > kMostGranules, 0)) return nullptr;
    Ready& ready = small_[granules];
    if (__builtin_expect(ready.count == 0, 0)) return nullptr;
    char* block = blocks_[ready.first + --ready.count];
    map_->Mark(GranuleOf(block), granules);
    return Count(block);
  }
  // The same of a free. False: it is no live small block of this heap, or there is no room for it,
  // and nothing has happened.
  bool FreeQuickly(void* pointer) {
    const uint64_t offset = OffsetOf(pointer);
    if (__builtin_expect(offset >= bytes_, 0)) return false;
    if (OwnerOf(offset) != number_) return false;
    const uint64_t granules = SmallAt(offset);
    if (__builtin_expect(granules == 0, 0)) return false;
    Ready& ready = small_[granules];
    if (__builtin_expect(ready.count == ready.most, 0)) return false;
    map_->Unmark(offset / kGranule, granules);
    blocks_[ready.first + ready.count++] = static_cast<char*>(pointer);
    return true;
  }

  // A block of so many bytes, aligned to `alignment` (a power of two). Null: the arena has no room.
  void* Allocate(uint64_t bytes, uint64_t alignment = 16);
  // Frees a live block of a region that this heap owns; false: it is none.
  bool FreeSmall(void* pointer);
  // Frees a live block of the shared heap; false: it is none.
  bool FreeLarge(void* pointer);
  // Makes such a block, small or long, as long as that where it is; false: nothing has happened.
  bool Resize(void* pointer, uint64_t bytes);
  // Frees a block of a region of this heap. By any other thread; false: it is no live block.
  bool FreeRemotely(void* pointer);
  // Bytes of the live block of a region that begins there, whoever owns it; 0: none does. By any
  // thread, if the block stays live meanwhile.
  uint64_t UsableSmall(const void* pointer) const {
    return SmallAtShared(OffsetOf(pointer)) * kGranule;
  }
  // Frees that were of no live block, found when they were taken in.
  uint64_t invalid_frees() const { return invalid_frees_; }

  LocalHeap* next_closed = nullptr;  // in the arena's list; with the lock of the heap

 private:
  static constexpr uint64_t kMostGranules = kMostSmall / kGranule;
  static constexpr uint64_t kMostUnits = kMostReady / kHeapUnit;
  static constexpr uint32_t kReadyOfLarge = 16;  // of one length
  static constexpr uint64_t kBins = 7;  // of regions, by the longest run that is free (log2)

  // Blocks of one length that are ready: a stack, a part of blocks_.
  struct Ready {
    uint16_t count;
    uint16_t most;
    uint16_t first;
    uint16_t batch;  // so many are made ready at a time
  };
  uint64_t OffsetOf(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - base_);
  }
  uint64_t GranuleOf(const void* pointer) const { return OffsetOf(pointer) / kGranule; }
  uint32_t OwnerOf(uint64_t offset) const {
    return __atomic_load_n(&regions_[offset / kRegionBytes].owner, __ATOMIC_RELAXED);
  }
  void* Count(char* block) {
    ++counters_->allocations;
    counters_->addresses += reinterpret_cast<uint64_t>(block);
    return block;
  }
  // The granules of the live block of a region at this offset; 0: there is none.
  uint64_t SmallAt(uint64_t offset) const {
    const BlockMap::Unit& unit = map_->UnitOf(offset / kGranule);
    const uint64_t at = offset / kGranule % BlockMap::kUnit;
    const uint64_t body = unit.body.Seen(), all_ends = unit.ends.Seen();
    const uint64_t ends = all_ends >> at;
    // Behind a granule that is in a block and not its last one no block begins.
    if ((((body & ~all_ends) << 1) >> at & 1) != 0 || offset % kGranule != 0) return 0;
    if (ends == 0 || (~(body >> at) & BlockMap::UpToFirst(ends)) != 0) return 0;
    return static_cast<uint64_t>(__builtin_ctzll(ends)) + 1;
  }
  // The same while another thread may change blocks beside it.
  uint64_t SmallAtShared(uint64_t offset) const {
    uint64_t granules = 0;
    BlockMap::SeenAgain([&] { return (granules = SmallAt(offset)) == 0; });
    return granules;
  }
  void PutSmall(char* block, uint64_t granules);
  void* AllocateSmall(uint64_t granules);
  void* AllocateLarge(uint64_t units, uint64_t step);
  uint64_t TakeUnits(uint64_t units, uint64_t step);
  void FlushLarge();
  void Refill(uint64_t granules);
  uint32_t FindRegion(uint64_t granules) const;
  uint32_t OpenRegions();
  uint64_t CutBlocks(uint32_t region, uint64_t granules, uint64_t most, char** blocks);
  void FreeInRegion(char* block, uint64_t granules);
  uint64_t FreeIn(uint32_t region) const {
    return ~map_->UnitOf(uint64_t{region} * BlockMap::kUnit).taken();
  }
  void Unlink(uint32_t region);
  void Link(uint32_t region);
  void GiveEmptyRegions();
  void ReleaseEmptyRegions();
  void TakeInRemoteFrees(void* first);

  // Hot.
  HeapCounters* counters_;
  char* base_;
  uint64_t bytes_;
  BlockMap* map_;
  Region* regions_;
  uint32_t number_;
  uint32_t empty_;  // list of regions in which nothing is taken, linked by `next`
  Ready small_[kMostGranules + 1];
  char* blocks_[ReadySlots()];

  Heap* heap_;
  ArenaTables* tables_;
  bool open_;        // with the lock of the heap
  uint32_t opened_;  // regions that it owns
  uint64_t invalid_frees_;
  uint32_t lists_[kBins];  // regions with room, by the longest run in them
  uint64_t large_bytes_;   // of the long blocks that are ready
  uint8_t large_counts_[kMostUnits + 1];
  uint32_t large_[kMostUnits + 1][kReadyOfLarge];  // units at which they begin

  // Touched by other threads.
  alignas(64) RemoteFrees remote_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LOCAL_HEAP_H_
