// What lives in the box of a lane, and what becomes of its pages.
//
// As long as the run does what the recording did, the stream up to the cursor tells what lives, and
// nothing is kept. When it deviates, a map is built by walking the stream up to the cursor, and
// kept from then on. When the lane leaves its plan, all that is free goes to the heap.
//
// Thread-safety: as Lane. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_LANE_BOX_H_
#define REPRISE_REPLAY_ARENA_LANE_BOX_H_

#include <stdint.h>

#include "base/mutex.h"
#include "replay/arena/heap.h"
#include "replay/arena/held_pages.h"
#include "replay/arena/plan_cursor.h"
#include "replay/arena/plan_stream.h"

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

class LaneBox : public PlanCursor {
 public:
  bool Contains(const void* pointer) const {
    return static_cast<uint64_t>(static_cast<const char*>(pointer) - box_) / kGranule <
           box_granules_;
  }
  // From a block of the box up to its end.
  uint64_t BytesBehind(const void* pointer) const {
    return static_cast<uint64_t>(box_ + box_granules_ * kGranule -
                                 static_cast<const char*>(pointer));
  }
  // Bytes usable in a live block of the box; 0 when none begins there. By any thread, if the block
  // stays live meanwhile, also by a signal handler and in a forked child.
  uint64_t Usable(const void* pointer);

  // Undoes a Free after which nothing was placed: for a realloc that failed.
  void Revive(void* pointer, uint64_t bytes);
  // Whether no page may be given back: while the bytes of a block that was just freed are still
  // wanted.
  void set_keeps_pages(bool keeps) { keeps_pages_ = keeps; }

 protected:
  // `box` is where the arena has it.
  void StartBox(const LaneSurroundings& around, const PlanLane& lane, char* box);

  uint64_t Here() const { return stream_.IndexOf(cursor_); }
  void* At(uint64_t granule) const { return box_ + granule * kGranule; }
  // From now on the map tells what lives.
  void BecomeMapped();
  // The cursor goes from the end of a body to its beginning. What lives is the same there.
  void MoveBack(const PlanLoop& loop);
  // The block that a granule is in, by its beginning.
  uint64_t BlockBegin(uint64_t granule) const;

  // The stream tells that no more pages of the box have been used than so many.
  void CountPages(uint64_t told);
  // Gives pages back in which no block is planned for long, if none lives there.
  void ReleaseIdle(const Word& idle) const;
  // Gives back what is resident of the words before one.
  void DropWords(const uint32_t* end) const;

  // Off plan, with the lock of the heap. What is free in the box becomes the heap's, in whole
  // pieces.
  void Donate();
  // A block is freed, and what is free because of that becomes the heap's; false: none lives there.
  bool FreeInBox(uint64_t granule);

  PlanStream stream_;
  LaneSurroundings around_;

 private:
  void Walk(const uint32_t* until);
  uint64_t SizeByWalking(uint64_t granule) const;
  void DonateAround(uint64_t granule, uint64_t granules);

  const uint32_t* walked_;  // the map knows the stream up to there; with walk_lock_
  Mutex walk_lock_;
  uint64_t used_pages_;  // of the box, as counted
  uint64_t told_pages_;  // as the stream told last
  bool keeps_pages_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_BOX_H_
