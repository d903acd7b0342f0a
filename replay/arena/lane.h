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

#include "replay/arena/lane_stream.h"

namespace reprise::replay {

class Lane : public LaneStream {
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

  // A free or a realloc of this block comes next: the stream is at its free, if that is what it
  // expects at the end or at the beginning of a loop.
  void SettleBefore(const void* pointer);

  // Frees a block of the box, by the owner of a lane that follows; false: it is no live block's
  // start.
  bool Free(void* pointer);
  // By any other thread, or when there is no owner.
  bool FreeRemotely(void* pointer);

  // Leaves the plan, by the owner: when Allocate or PlaceAsExpected found that it should, or its
  // thread ends.
  void LeavePlan();
  bool wants_to_leave() const { return wants_to_leave_; }
  bool is_off_plan() const { return off_plan_.Seen(); }

  // Who holds the lane; managed by Arena.
  int32_t state = 0;
  uint64_t taker = 0;  // path of the thread that took it

 private:
  template <typename Expects>
  bool FollowLoop(const PlanLoop& loop, Expects expects);
  void FollowLoop(const Request& request);
  bool IsNextInBody(const PlanLoop& loop, const Request& request);
  bool IsSameCall(const uint32_t* at, const Request& request) const;
  bool IsSameCallInLoop(const uint32_t* at, const Request& request) const;
  Placed Place(const Word& word);
  Placed PlaceElsewhere(const uint32_t* at, const Word& word);
  Placed PlaceInstead(const Word& expected, const Request& request);
  void NoteDivergence(const Request& request);

  bool wants_to_leave_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_H_
