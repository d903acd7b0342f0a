// The shared level of the arena: one heap for all threads, in units of 64 bytes. Best fit, the
// lowest address on ties; neighbours are coalesced at once (Johnstone and Wilson, The memory
// fragmentation problem: solved?, ISMM 1998). All it notes lies outside of the blocks.
//
// A range of the heap is free, a live block, or neither: taken for something else (a region, a
// block in a cache, a box). Units are numbered from the arena's start.
//
// What becomes of pages that are free is told in heap_pages.h.
//
// Thread-safety: every function needs the lock, unless it says otherwise. Whoever holds it is not
// interrupted by a hook of its own thread (a busy thread's signal handlers stay out). Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_HEAP_H_
#define REPRISE_REPLAY_ARENA_HEAP_H_

#include <stdint.h>

#include "base/mutex.h"
#include "replay/arena/arena_tables.h"
#include "replay/arena/free_index.h"
#include "replay/arena/heap_pages.h"

namespace reprise::replay {

class Heap {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  // Bytes of address space that the heap notes its free ranges in.
  static uint64_t StateBytes(uint64_t arena_bytes);

  // The heap grows in [0, limit_bytes) of the arena; what is beyond comes by Release. `state` is
  // zeroed and readable. Everything outlives the heap.
  void Start(char* base, uint64_t limit_bytes, ArenaTables* tables, char* state, HeldPages* held);

  // The heap does not grow beyond what is writable: the bytes of that, a multiple of a page. What
  // is released beyond, of at most `more_bytes`, is noted as before; what could be noted of the
  // rest is given back.
  uint64_t StopGrowing(uint64_t more_bytes);

  void Lock() { lock_.Lock(); }
  void Unlock() { lock_.Unlock(); }
  // The calling thread will never finish what it was doing here, perhaps with the lock, which is
  // then given back: nothing is taken or returned any more.
  void LeaveBehind();

  // Takes units that begin at a multiple of `step` (a power of two). The first; kNone: there are
  // none.
  uint64_t Take(uint64_t units, uint64_t step);
  // Gives back what Take gave.
  void Return(uint64_t unit) { Release(unit, Length(unit)); }
  // Gives [unit, unit + units) to the heap, which nobody uses.
  void Release(uint64_t unit, uint64_t units);
  // Makes a taken range longer where it is; false: it stays as it is.
  bool Extend(uint64_t unit, uint64_t units);
  HeapPages& pages() { return pages_; }

  // Units of what was taken at `unit` and is still taken. Without the lock.
  uint64_t Length(uint64_t unit) const { return tables_->starts().Next(unit + 1) - unit; }

  // Units of the live long block that begins at an offset; 0: none does. Without the lock.
  uint64_t LiveAt(uint64_t offset) const {
    const uint64_t units = tables_->live().UnitsAt(offset);
    return units < LiveMarks::kMany ? units : Length(offset / kHeapUnit);
  }

  char* AddressOf(uint64_t unit) const { return base_ + unit * kHeapUnit; }
  uint64_t UnitOf(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - base_) / kHeapUnit;
  }
  // Local heaps that take from here.
  void AddUser(int more) { users_ += static_cast<uint64_t>(more); }
  // How many bytes each of them may keep ready for itself beside a few: an equal part of what all
  // may, or enough for some blocks of some lengths.
  uint64_t ReadyBytes() const {
    constexpr uint64_t kShare = 16;
    constexpr uint64_t kLeast = 256 << 10;
    constexpr uint64_t kLeastOfOne = 64 << 10;
    const uint64_t bytes = pages_.in_use() * kPage / kShare;
    const uint64_t of_one = (bytes > kLeast ? bytes : kLeast) / users_;
    return of_one > kLeastOfOne ? of_one : kLeastOfOne;
  }

 private:
  static constexpr uint64_t kPageUnits = kPage / kHeapUnit;
  UnitRange Find(uint64_t units, uint64_t step);
  UnitRange Grow(uint64_t units, uint64_t step);
  bool Reach(uint64_t units);
  bool MakeUsable(uint64_t end);
  void AddFree(UnitRange range);
  bool HaveNode();
  void Carve(UnitRange range, uint64_t unit, uint64_t units);

  char* base_ = nullptr;
  ArenaTables* tables_ = nullptr;
  FreeIndex index_;
  HeapPages pages_;
  char* nodes_ = nullptr;     // of the index
  uint64_t nodes_bytes_ = 0;  // of these that are writable
  uint64_t most_nodes_bytes_ = 0;
  uint64_t limit_ = 0;            // units that it grows to
  uint64_t longest_request_ = 0;  // units; boxes that were released count, too
  uint64_t top_ = 0;              // units that were ever taken
  uint64_t writable_ = 0;         // units
  uint64_t users_ = 0;            // local heaps that take from here
  bool abandoned_ = false;
  Mutex lock_;
};

// Holds the lock of a heap.
class HeapLock {
 public:
  explicit HeapLock(Heap& heap) : heap_(heap) { heap_.Lock(); }
  ~HeapLock() { heap_.Unlock(); }
  HeapLock(const HeapLock&) = delete;
  HeapLock& operator=(const HeapLock&) = delete;

 private:
  Heap& heap_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_HEAP_H_
