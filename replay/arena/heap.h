// The shared level of the arena: one heap for all threads, in units of 64 bytes. Best fit, the
// lowest address on ties; neighbours are coalesced at once (Johnstone and Wilson, The memory
// fragmentation problem: solved?, ISMM 1998). All it notes lies outside of the blocks.
//
// A range of the heap is free, a live block, or neither: taken for something else (a region, a
// block in a cache, a box). Units are numbered from the arena's start.
//
// Pages: idle ones go back to the system when the heap holds 1/16 more than was lately in use at
// most, and at least four of the longest blocks that were lately freed and 1 MiB more; the longest
// ranges first, until half of that is left. A program that takes and frees the same large blocks
// again and again keeps their pages.
//
// Thread-safety: every function needs the lock, unless it says otherwise. Whoever holds it is not
// interrupted by a hook of its own thread (a busy thread's signal handlers stay out). Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_HEAP_H_
#define REPRISE_REPLAY_ARENA_HEAP_H_

#include <stdint.h>

#include "base/mutex.h"
#include "replay/arena/arena_tables.h"
#include "replay/arena/free_index.h"
#include "replay/arena/held_pages.h"

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
  // Pages [begin, end) that were used outside of the heap so far count as its own from now on, if
  // they are resident: how many.
  uint64_t AdoptPages(uint64_t begin, uint64_t end);
  // How many of them are resident. Without the lock.
  uint64_t CountResident(uint64_t begin, uint64_t end) const;

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
  // How many bytes each of them may keep ready for itself beside a few: an equal part.
  uint64_t ReadyBytes() const {
    constexpr uint64_t kShare = 16;
    constexpr uint64_t kLeast = 256 << 10;
    const uint64_t bytes = (used_pages_ - idle_pages_) * kPage / kShare;
    return (bytes > kLeast ? bytes : kLeast) / users_;
  }
  uint64_t idle_pages() const { return idle_pages_; }

 private:
  static constexpr uint64_t kPageUnits = kPage / kHeapUnit;
  static constexpr uint64_t kIdleShare = 16;  // of what was lately in use
  static constexpr uint64_t kFall = 1 << 12;  // of the difference, with each release of pages
  static constexpr uint64_t kIdleBlocks = 4;  // as long as the longest that was lately freed
  static constexpr uint64_t kLeastIdle = (1 << 20) / kPage;

  // Calls visit(page) for each page of [begin, end) that the system has memory for: how many.
  template <typename Visit>
  uint64_t ForEachResident(uint64_t begin, uint64_t end, Visit visit) const;
  static uint64_t FirstWhole(uint64_t unit) { return (unit + kPageUnits - 1) / kPageUnits; }
  UnitRange Find(uint64_t units, uint64_t step);
  UnitRange Grow(uint64_t units, uint64_t step);
  bool Reach(uint64_t units);
  bool MakeUsable(uint64_t end);
  void AddFree(UnitRange range);
  bool HaveNode();
  void Carve(UnitRange range, uint64_t unit, uint64_t units);
  void CountTaken(UnitRange from, uint64_t unit, uint64_t units);
  void CountFreed(uint64_t unit, uint64_t units);
  void GiveIdlePages(uint64_t enough);

  char* base_ = nullptr;
  ArenaTables* tables_ = nullptr;
  FreeIndex index_;
  char* nodes_ = nullptr;     // of the index
  uint64_t nodes_bytes_ = 0;  // of these that are writable
  uint64_t most_nodes_bytes_ = 0;
  uint64_t limit_ = 0;            // units that it grows to
  uint64_t longest_request_ = 0;  // units; boxes that were released count, too
  uint64_t top_ = 0;              // units that were ever taken
  uint64_t writable_ = 0;         // units
  uint64_t used_pages_ = 0;       // that were used and not given back
  uint64_t idle_pages_ = 0;       // of these, wholly free
  uint64_t lately_ = 0;           // pages in use at most; falls slowly
  uint64_t longest_ = 0;          // units that were freed at once at most; falls as slowly
  uint64_t users_ = 0;            // local heaps that take from here
  HeldPages* held_ = nullptr;
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
