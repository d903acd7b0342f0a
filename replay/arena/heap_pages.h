// The pages of the shared heap: which ones are held, which of these are idle, and when they go back
// to the system.
//
// The rule: idle pages go back when the heap holds 1/16 more than was lately in use at most, and at
// least four of the longest blocks that were lately freed and 1 MiB more; the longest ranges first,
// until half of that is left. A program that takes and frees the same large blocks again and again
// keeps their pages.
//
// Thread-safety: every function needs the lock of the heap, unless it says otherwise. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_HEAP_PAGES_H_
#define REPRISE_REPLAY_ARENA_HEAP_PAGES_H_

#include <stdint.h>

#include "replay/arena/arena_tables.h"
#include "replay/arena/free_index.h"
#include "replay/arena/held_pages.h"

namespace reprise::replay {

class HeapPages {
 public:
  // Everything outlives the object.
  void Start(char* base, ArenaTables* tables, HeldPages* held) {
    base_ = base;
    tables_ = tables;
    held_ = held;
  }

  // A part of the free range `from` is going to be used.
  void Take(UnitRange from, UnitRange part);
  // A range is free from now on, which tables and index know already.
  void Free(UnitRange range);
  // The same of one that was in use. Pages may go back.
  void Release(UnitRange range, const FreeIndex& index);

  // Pages [begin, end) that were used outside of the heap so far count as its own from now on, if
  // they are resident: how many.
  uint64_t Adopt(uint64_t begin, uint64_t end);
  // How many of them are resident. Without the lock.
  uint64_t CountResident(uint64_t begin, uint64_t end) const;

  uint64_t in_use() const { return held_here_ - idle_; }
  uint64_t idle() const { return idle_; }

 private:
  static constexpr uint64_t kIdleShare = 16;  // of what was lately in use
  static constexpr uint64_t kFall = 1 << 12;  // of the difference, with each release of pages
  static constexpr uint64_t kIdleBlocks = 4;  // as long as the longest that was lately freed
  static constexpr uint64_t kLeastIdle = (1 << 20) / kPage;

  // Calls visit(page) for each page of [begin, end) that the system has memory for: how many.
  template <typename Visit>
  uint64_t ForEachResident(uint64_t begin, uint64_t end, Visit visit) const;
  void GiveIdle(uint64_t enough, const FreeIndex& index);

  char* base_ = nullptr;
  ArenaTables* tables_ = nullptr;
  HeldPages* held_ = nullptr;
  uint64_t held_here_ = 0;  // that were used and not given back
  uint64_t idle_ = 0;       // of these, wholly free
  uint64_t lately_ = 0;     // pages in use at most; falls slowly
  uint64_t longest_ = 0;    // units that were freed at once at most; falls as slowly
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_HEAP_PAGES_H_
