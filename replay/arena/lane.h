// A lane in replay: serves one thread's allocations from the thread's part of the plan.
//
// A lane is in one of three states:
//
//   exact     The run does what the recording did. Nothing is kept about a block: what lives in the
//             box is what the stream says up to the cursor, and nothing is tested, because the plan
//             was checked beforehand.
//   mapped    The run deviated: a block was freed in another order, or the stream was passed
//             without it. A map tells what lives in the box. It is built once, by walking the
//             stream up to the cursor. A planned block is placed if and only if the map has nothing
//             in its place.
//   off plan  The run does something else, or the thread has ended. What is free in the box has
//             been given to the shared heap, and so is every block of the box that is freed. There
//             is no way back. A lane without a box begins so.
//
// Requests that get no place in the box are the caller's, who has a local heap (local_heap.h).
//
// Thread-safety: a lane belongs to one thread until it is off plan; then it needs the lock of the
// heap. Other threads free blocks with FreeRemotely, and may ask for Usable at any time. Hook-safe.
// Nothing here allocates or fails.
#ifndef REPRISE_REPLAY_ARENA_LANE_H_
#define REPRISE_REPLAY_ARENA_LANE_H_

#include <stdint.h>

#include "base/mutex.h"
#include "replay/arena/heap.h"
#include "replay/arena/held_pages.h"
#include "replay/arena/lane_notes.h"
#include "replay/arena/plan_cursor.h"
#include "replay/arena/remote_frees.h"
#include "replay/arena/resync.h"
#include "replay/plan/counters.h"

namespace reprise::replay {

// What all lanes of an arena share.
struct LaneSurroundings {
  const PlanHeader* plan;
  LiveKeys keys;
  ArenaTables* tables;
  Heap* heap;
  HeldPages* held;
  bool releases;  // pages of the boxes that the plan leaves idle are given back
  bool crowded;   // other blocks may lie some 32 to 64 GiB behind a box
};

class Lane : public PlanCursor {
 public:
  // A place in the box, or null and how many bytes a block elsewhere is to have.
  struct Placed {
    void* block;
    uint64_t bytes;
  };

  // Everything outlives the lane, whose memory is zeroed. `box` is where the arena has it.
  void Start(const LaneSurroundings& around, const PlanLane* lane, char* box,
             LaneCounters* counters, LaneNotes notes);

  // A request of a lane that follows its stream. Afterwards it may want to leave its plan.
  [[gnu::hot]] Placed Allocate(uint64_t shape, uint64_t site);
  // The same where it is known to be what stands at the cursor.
  Placed PlaceAsExpected() { return Place(stream_.Decode(cursor_)); }

  // A realloc, if it is just what the stream expects: where the plan has the new block, to which
  // the caller copies the old one unless that is where it is; only then, if it may not move. Else
  // null, and nothing has happened.
  [[gnu::hot]] void* ReallocateExpected(const void* pointer, uint64_t size, uint64_t site,
                                        bool may_move);
  // From a block of the box up to its end.
  uint64_t BytesBehind(const void* pointer) const {
    return static_cast<uint64_t>(box_ + box_granules_ * kGranule -
                                 static_cast<const char*>(pointer));
  }

  // A free or a realloc of this block comes next: the stream is at its free, if that is what it
  // expects at the end or at the beginning of a loop.
  void SettleBefore(const void* pointer);

  // Frees a block of the box, by the owner of a lane that follows; false: it is no live block's
  // start.
  bool Free(void* pointer);
  // By any other thread, or when there is no owner.
  bool FreeRemotely(void* pointer);

  // Whether no page may be given back: while the bytes of a block that was just freed are still
  // wanted.
  void set_keeps_pages(bool keeps) { keeps_pages_ = keeps; }

  // Undoes a Free after which nothing was placed: for a realloc that failed.
  void Revive(void* pointer, uint64_t bytes);

  // Bytes usable in a live block of the box; 0 when none begins there. By any thread, if the block
  // stays live meanwhile, also by a signal handler and in a forked child.
  uint64_t Usable(const void* pointer);

  // Leaves the plan, by the owner: when Allocate or PlaceAsExpected found that it should, or its
  // thread ends.
  void LeavePlan();
  bool wants_to_leave() const { return wants_to_leave_; }
  bool is_off_plan() const { return off_plan_.Seen(); }

  bool Contains(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - box_) / kGranule <
           box_granules_;
  }

  // Tells the counters how far the stream has been followed. By any thread; the owner does it by
  // itself at every checkpoint, and when it leaves the plan.
  void Publish() const {
    const uint32_t* here = cursor_.Seen();  // before it is known that this is not the end's
    if (!off_plan_.Seen()) {
      __atomic_store_n(&counters_->passed, reinterpret_cast<uint64_t>(here), __ATOMIC_RELAXED);
    }
  }
  LaneCounters* counters() const { return counters_; }

  // Who holds the lane; managed by Arena.
  int32_t state = 0;
  uint64_t taker = 0;  // path of the thread that took it

 private:
  uint64_t Here() const { return stream_.IndexOf(cursor_); }
  void* At(uint64_t granule) const { return box_ + granule * kGranule; }
  void Walk(const uint32_t* until);
  uint64_t SizeByWalking(uint64_t granule) const;
  void BecomeMapped();
  void DropStream() const;
  void Settle();
  void PassFreed();
  const PlanLoop* LoopAt(const uint32_t* at) const;
  const PlanLoop* AtPeriod() const;
  const uint32_t* LoopFirst(const PlanLoop& loop) const { return stream_.first + loop.first_word; }
  const uint32_t* LoopEnd(const PlanLoop& loop) const { return LoopFirst(loop) + loop.words; }
  const uint32_t* NextEvent(const uint32_t* from) const;
  template <typename Expects>
  bool FollowLoop(const PlanLoop& loop, Expects expects);
  void FollowLoop(const Request& request);
  bool IsNextInBody(const PlanLoop& loop, const Request& request);
  bool IsSameCall(const uint32_t* at, const Request& request) const;
  bool IsSameCallInLoop(const uint32_t* at, const Request& request) const;
  void GoBack(const PlanLoop& loop);
  void LeaveLoop(const PlanLoop& loop);
  void GoTo(const uint32_t* target);
  void Pass(const Word& word);
  void PassUntil(const uint32_t* target);
  void PassCheckpoint();
  void CountPages(uint64_t told);
  void ReleaseIdle(const Word& idle) const;
  Placed Place(const Word& word);
  Placed PlaceElsewhere(const uint32_t* at, const Word& word);
  Placed PlaceInstead(const Word& expected, const Request& request);
  const uint32_t* NextAllocation();
  void TakeInRemoteFrees(void* first);
  bool FreeInBox(uint64_t granule);
  void DonateAround(uint64_t granule, uint64_t granules);
  void NoteDivergence(const Request& request);
  uint64_t BlockBegin(uint64_t granule) const;
  void NoteFreed(uint64_t granule);

  PlanStream stream_;
  LaneSurroundings around_;
  const PlanLane* lane_;
  const PlanLoop* loops_;  // the lane's
  LaneCounters* counters_;
  LaneNotes notes_;
  Resync resync_;
  const uint32_t* walked_;  // the map knows the stream up to there; with walk_lock_
  Mutex walk_lock_;
  const uint32_t* next_allocation_;  // as of the latest look
  uint64_t used_pages_;              // of the box, as counted
  uint64_t told_pages_;              // as the stream told last
  uint64_t checkpoints_;             // passed
  uint64_t overdue_remotely_;        // blocks, about, that another thread is late to free
  Owned<bool> off_plan_;
  bool wants_to_leave_;
  bool keeps_pages_;

  // Touched by other threads.
  alignas(64) RemoteFrees remote_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_H_
