// How a lane goes on in its stream: what the cursor passes without a request of the program, by
// itself or because the program did not do it.
//
// Thread-safety: as Lane. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_LANE_STREAM_H_
#define REPRISE_REPLAY_ARENA_LANE_STREAM_H_

#include <stdint.h>

#include "replay/arena/lane_box.h"
#include "replay/arena/lane_notes.h"
#include "replay/arena/remote_frees.h"
#include "replay/arena/resync.h"
#include "replay/plan/counters.h"

namespace reprise::replay {

class LaneStream : public LaneBox {
 public:
  // Tells the counters how far the stream has been followed. By any thread; the owner does it by
  // itself at every checkpoint, and when it leaves the plan.
  void Publish() const {
    const uint32_t* here = cursor_.Seen();  // before it is known that this is not the end's
    if (!off_plan_.Seen()) {
      __atomic_store_n(&counters_->passed, reinterpret_cast<uint64_t>(here), __ATOMIC_RELAXED);
    }
  }
  LaneCounters* counters() const { return counters_; }

 protected:
  // After StartBox. `alone`: it is the plan's only lane.
  void StartStream(LaneCounters* counters, const LaneNotes& notes, bool alone);

  // The next allocation word from the cursor on, and null behind the last.
  const uint32_t* NextAllocation();
  // From a word on the first that is an allocation, or the free of a live block, or an end.
  const uint32_t* NextEvent(const uint32_t* from) const;

  // Passes what the cursor need not wait at: planned frees of blocks that are not live, what tells
  // of pages, and frees by other threads, which may come at any time.
  void Settle();
  // Passes a step of the stream that the program did not take.
  void Pass(const Word& word);
  void PassUntil(const uint32_t* target);
  // Passes the planned frees of blocks that are not live.
  void PassFreed();
  // Passes what is before a word, which may be one that comes again.
  void GoTo(const uint32_t* target);
  // From the end of a body to its beginning.
  void GoBack(const PlanLoop& loop);
  // From the end of a period to behind the loop. What lives is the same there.
  void LeaveLoop(const PlanLoop& loop);

  // Takes in blocks that other threads freed: they are theirs to free. What is no live block is
  // counted.
  void TakeInRemoteFrees(void* first);
  // A block is freed that may have been in the way.
  void NoteFreed(uint64_t granule);
  // The allocation of a word is not where the word says.
  void CountSkipped(const uint32_t* at, uint64_t granule) {
    ++counters_->skipped;
    counters_->skipped_hash +=
        MixAddress(stream_.IndexOf(at), reinterpret_cast<uint64_t>(At(granule)));
  }
  void CountInvalidFree() { __atomic_fetch_add(&counters_->invalid_frees, 1, __ATOMIC_RELAXED); }

  LaneCounters* counters_;
  LaneNotes notes_;
  Resync resync_;
  uint64_t overdue_remotely_;  // blocks, about, that another thread is late to free
  Owned<bool> off_plan_;
  // Touched by other threads.
  alignas(64) RemoteFrees remote_;

 private:
  void PassCheckpoint();

  alignas(64) const uint32_t* next_allocation_;  // as of the latest look
  uint64_t checkpoints_;                         // passed
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LANE_STREAM_H_
