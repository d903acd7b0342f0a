// The arena in replay: a plan's lanes, who holds them, and which lane an address belongs to.
//
// A lane's box may share addresses with boxes of other lanes, because the plan knows that their
// threads did not coexist. The next run need not keep to that: a lane is taken when its thread
// allocates for the first time, and only if no block of another lane is live in its box. If one is,
// the lane runs at the same relative offsets in a spare range behind the boxes.
//
// Thread-safety: every function may be called from any thread, unless it says otherwise. Take and
// Leave use a lock, which is held for microseconds at the start and the end of a thread; the caller
// blocks signals. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_ARENA_H_
#define REPRISE_REPLAY_ARENA_ARENA_H_

#include <stdint.h>

#include "base/mutex.h"
#include "replay/arena/held_memory.h"
#include "replay/arena/lane.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

// Where the arena's parts lie. All memory is the caller's, zeroed, and outlives the arena. Nothing
// that a program frees may lie less than 64 GiB behind the blocks.
struct ArenaMemory {
  char* blocks;  // the boxes and the spare range behind them
  uint64_t block_bytes;
  char* state;             // StateBytes(plan, block_bytes)
  LaneCounters* counters;  // one per lane of the plan, and one more
  NotePage* notes;         // as many per lane as CountersLayout says
  bool releases;           // pages of the boxes that the plan leaves idle are given back
  bool dear_pages;         // lanes that run free give back long runs of pages only
};

class Arena {
 public:
  // Bytes for the annexes of all lanes: a part of the spare range.
  static uint64_t AnnexBytes(const PlanHeader& plan);

  // Bytes of `state` for a plan: mostly untouched. `block_bytes` is ArenaMemory's.
  static uint64_t StateBytes(const PlanHeader& plan, uint64_t block_bytes);

  // Called once, before anything else. `keys` are the plan's, relocated (LiveKeys).
  void Start(const PlanHeader* plan, const LiveKeys& keys, const ArenaMemory& memory);

  // The lane for the thread of this path, now held by the calling thread; null when there is none
  // or no place for it. A name can be wrong: LevelDB's compaction thread is the child of whichever
  // thread needs it first, and every thread that this one creates later is one further on. So a
  // lane that begins with the thread's first request comes first: its own, or else one that nobody
  // has taken. A thread whose own lane has gone to another one takes that one's.
  Lane* Take(uint64_t path, uint64_t first_shape, uint64_t first_site);

  // The thread that held the lane ends. Its blocks may live on.
  void Leave(Lane* lane);

  // Brings the counters of all lanes up to date.
  void Publish() const;

  // The lane whose box or annex holds the address, or null.
  Lane* LaneOf(const void* pointer) const {
    const uint64_t distance = static_cast<const char*>(pointer) - memory_.blocks;
    if (distance >= memory_.block_bytes) return nullptr;
    const uint32_t owner = __atomic_load_n(&owner_[distance / kBoxAlignment], __ATOMIC_ACQUIRE);
    return owner == 0 ? nullptr : &lanes_[owner - 1];
  }

  bool Contains(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - memory_.blocks) <
           memory_.block_bytes;
  }

  // Of everything outside the lanes; shared, to be changed atomically.
  LaneCounters* other_counters() const { return &memory_.counters[plan_->lanes.count]; }

  // Counters for a thread without a lane, its own until it gives them back; null when all are
  // taken.
  LaneCounters* TakeCounters();
  void LeaveCounters(const LaneCounters* counters);

 private:
  enum State : int32_t { kUnused = 0, kHeld, kLeft, kReleased };

  bool BeginsWith(uint64_t index, uint64_t shape, uint64_t site) const;
  uint64_t LaneNamed(uint64_t path) const;
  uint64_t FindLane(uint64_t path, uint64_t first_shape, uint64_t first_site) const;
  char* BoxFor(const PlanLane& plan_lane, bool* moved);
  char* Spare(uint64_t bytes, uint64_t alignment);
  bool Clear(char* box, uint64_t bytes);
  void SetOwner(char* box, uint64_t bytes, uint32_t owner);

  const PlanHeader* plan_ = nullptr;
  const PlanLane* plan_lanes_ = nullptr;
  LiveKeys keys_{};
  ArenaMemory memory_{};
  Lane* lanes_ = nullptr;       // one per lane of the plan
  uint32_t* owner_ = nullptr;   // per page of the blocks: 1 + index of its lane; 0: nobody's
  char* lane_state_ = nullptr;  // the next unused state memory
  uint64_t spare_used_ = 0;     // bytes behind the boxes
  HeldMemory held_;
  uint32_t others_taken_ = 1;  // atomic: a bit for each of kOtherCounters, the first is shared
  Mutex lock_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_ARENA_H_
