// The arena in replay: a plan's lanes, the shared heap, the local heaps of threads, and what an
// address belongs to. docs/internals/arena.md.
//
// The heap comes first, the boxes behind it: no block lies behind the boxes, unless they are longer
// than 32 GiB.
//
// Thread-safety: every function may be called from any thread, unless it says otherwise. Hook-safe:
// a thread that is inside of one of them is not interrupted by another (the caller's `busy` mark).
#ifndef REPRISE_REPLAY_ARENA_ARENA_H_
#define REPRISE_REPLAY_ARENA_ARENA_H_

#include <stdint.h>

#include "replay/arena/arena_tables.h"
#include "replay/arena/heap.h"
#include "replay/arena/held_pages.h"
#include "replay/arena/lane.h"
#include "replay/arena/local_heap.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

// Where the arena's parts lie. All memory is the caller's and outlives the arena. It need not be
// writable but for the counters and notes: what is used is made writable before. Nothing that a
// program frees may lie less than 64 GiB behind the blocks.
struct ArenaMemory {
  char* blocks;            // heap_bytes, and the boxes behind them; aligned to 1 GiB
  uint64_t heap_bytes;     // at most; a multiple of 2 MiB
  char* state;             // StateBytes(plan, heap_bytes), zeroed and readable
  LaneCounters* counters;  // one per lane of the plan, and kOtherCounters
  NotePage* notes;         // as many per lane as CountersLayout says
  bool releases;           // pages of the boxes that the plan leaves idle are given back
};

class Arena {
 public:
  static uint64_t StateBytes(const PlanHeader& plan, uint64_t heap_bytes);

  // Called once, before anything else. `keys` are the plan's, relocated (LiveKeys). False: the
  // system refuses the memory.
  bool Start(const PlanHeader* plan, const LiveKeys& keys, const ArenaMemory& memory);

  // The heap grows no further than it has, and the addresses that it would need for that are given
  // back to the system. `alone`: in a forked child, where the heap is no longer used and its lock
  // may be held for ever.
  void StopGrowing(bool alone);

  // The lane for the thread of this path, now held by the calling thread; null when there is none.
  // A name can be wrong: LevelDB's compaction thread is the child of whichever thread needs it
  // first, and every thread that this one creates later is one further on. So a lane that begins
  // with the thread's first request comes first: its own, or else one that nobody has taken. A
  // thread whose own lane has gone to another one takes that one's.
  Lane* TakeLane(uint64_t path, uint64_t first_shape, uint64_t first_site);
  // A local heap for the calling thread, which has this lane or none; null when there are too many.
  LocalHeap* TakeHeap(const Lane* lane);
  // The thread that held them ends. Blocks may live on. Either may be null.
  void Leave(Lane* lane, LocalHeap* heap);

  // A block that belongs to no thread; null: there is no room.
  void* AllocateShared(uint64_t bytes, uint64_t alignment);
  // Frees a block of the arena, by the thread that has this heap and this lane, or none. False: it
  // is no live block.
  bool Free(void* pointer, LocalHeap* heap, Lane* lane);
  // The same by a signal handler that interrupted one of these functions: some later call of
  // FreeWhatWasLeft does it.
  void FreeLater(void* pointer) { later_.Push(pointer); }
  void FreeWhatWasLeft(LocalHeap* heap, Lane* lane);
  bool IsAnyLeft() const { return later_.Any(); }
  // Bytes usable in a live block; 0: it is none. Waits for nobody.
  uint64_t Usable(const void* pointer);

  // The calling thread will never finish what it was doing here (a signal handler jumped out).
  void LeaveBehind() { heap_.LeaveBehind(); }

  // Brings the counters of all lanes up to date.
  void Publish() const;

  Lane* LaneOf(const void* pointer) const {
    const uint64_t distance = OffsetOf(pointer) - memory_.heap_bytes;
    if (distance >= plan_->arena_bytes) return nullptr;
    const uint32_t owner = __atomic_load_n(&owner_[distance / kBoxAlignment], __ATOMIC_ACQUIRE);
    return owner == 0 ? nullptr : &lanes_[owner - 1];
  }
  bool Contains(const void* pointer) const { return OffsetOf(pointer) < bytes_; }

  // Of everything outside the lanes; shared, to be changed atomically.
  LaneCounters* other_counters() const { return &memory_.counters[plan_->lanes.count]; }

 private:
  enum State : int32_t { kUnused = 0, kHeld, kLeft };
  static constexpr uint32_t kMostHeaps = kOtherCounters - 1;

  uint64_t OffsetOf(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - memory_.blocks);
  }
  uint32_t RegionOwner(const void* pointer) const {
    return __atomic_load_n(&tables_.regions()[OffsetOf(pointer) / kRegionBytes].owner,
                           __ATOMIC_RELAXED);
  }
  bool BeginsWith(uint64_t index, uint64_t shape, uint64_t site) const;
  uint64_t LaneNamed(uint64_t path) const;
  uint64_t FindLane(uint64_t path, uint64_t first_shape, uint64_t first_site) const;
  void StartLane(uint64_t index, uint64_t path);

  const PlanHeader* plan_ = nullptr;
  const PlanLane* plan_lanes_ = nullptr;
  LaneSurroundings around_{};
  ArenaMemory memory_{};
  uint64_t bytes_ = 0;          // of the blocks
  Lane* lanes_ = nullptr;       // one per lane of the plan
  uint32_t* owner_ = nullptr;   // per page of the boxes: 1 + index of its lane; 0: nobody's
  LocalHeap* heaps_ = nullptr;  // kMostHeaps
  uint32_t heaps_made_ = 0;     // with the lock of the heap
  uint32_t most_heaps_ = kMostHeaps;
  LocalHeap* closed_ = nullptr;
  ArenaTables tables_;
  Heap heap_;
  HeldPages held_;
  RemoteFrees later_;
  Mutex lane_lock_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_ARENA_H_
