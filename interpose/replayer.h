// The replayer: serves the program's allocations from the plan, and from the fallback what does not
// fit it.
#ifndef REPRISE_INTERPOSE_REPLAYER_H_
#define REPRISE_INTERPOSE_REPLAYER_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/thread_state.h"
#include "replay/arena/lane.h"

namespace reprise::interpose {

// Finds the plan of this image and sets the arena up; false when there is none (and a message was
// left for the launcher, when that is a surprise).
bool StartReplay();

// A forked child goes on without a plan, and without the fallback (FallbackForget): it gets
// everything new from the allocator that the program has without us. What it inherited stays
// usable and is never given back.
void StopReplayAfterFork();

// Bytes usable in a block that a forked child inherited. Waits for nobody: a thread that was
// changing the block's lane at the fork never gets any further.
size_t InheritedUsable(const void* pointer);

// The calling thread ends: it leaves its lane, which it took with its first allocation.
void EndReplayThread();

// Whether a hook is changing this thread's state: then this is a signal handler, which must keep
// out of the thread's lane and heap.
inline bool IsBusy() { return self.busy != 0; }

// Keeps signal handlers out.
inline void BeginBusy() {
  self.busy = ~uint64_t{0};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
inline void EndBusy() {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  self.busy = 0;
}

// The same, for changes after which the lane may be plain, or be so no longer.
class Busy {
 public:
  Busy() { BeginBusy(); }
  ~Busy() {
    self.plain = self.lane != nullptr && self.lane->Plain() ? self.lane : nullptr;
    EndBusy();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

void* ReplayMallocSlowly(size_t size, Caller caller);
void ReplayFreeSlowly(void* pointer);

// A run that follows its plan goes no further than these. They call nothing, so that nothing need
// be saved on the stack. What one call writes and the next one reads is the cursor alone: loads
// that wait for stores are what they cost. `mask` is 0 where the lane may be another process's.
// Null and false: nothing has happened.
inline replay::Lane* PlainLane(uint64_t mask) {
  const uint64_t lane = reinterpret_cast<uint64_t>(self.plain) & mask;
  // One comparison for both: there is no such lane, or a hook is active.
  return reinterpret_cast<replay::Lane*>(__builtin_expect(lane <= self.busy, 0) ? 0 : lane);
}
inline void* ReplayPlainMalloc(size_t size, Caller caller, uint64_t mask) {
  replay::Lane* lane = PlainLane(mask);
  if (__builtin_expect(lane == nullptr, 0)) return nullptr;
  BeginBusy();
  void* pointer = lane->AllocatePlainly(
      size, [caller](uint64_t site) { return LessQuickSiteWord(site, caller); });
  EndBusy();
  return pointer;
}
inline bool ReplayPlainFree(const void* pointer, uint64_t mask) {
  replay::Lane* lane = PlainLane(mask);
  if (__builtin_expect(lane == nullptr, 0)) return false;
  BeginBusy();
  const bool freed = lane->FreeExpected(pointer);
  EndBusy();
  return freed;
}

inline void* ReplayMalloc(size_t size, Caller caller) {
  void* pointer = ReplayPlainMalloc(size, caller, ~uint64_t{0});
  return __builtin_expect(pointer != nullptr, 1) ? pointer : ReplayMallocSlowly(size, caller);
}
inline void ReplayFree(void* pointer) {
  if (__builtin_expect(!ReplayPlainFree(pointer, ~uint64_t{0}), 0)) ReplayFreeSlowly(pointer);
}

void* ReplayCalloc(size_t bytes, uint64_t site);
void* ReplayAllocate(size_t size, size_t alignment, uint64_t site);
void* ReplayRealloc(void* pointer, size_t size, Caller caller);
size_t ReplayUsable(void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAYER_H_
