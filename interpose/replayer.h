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
inline bool IsBusy() { return self.busy != 0 || self.ready != self.lane; }

// Keeps signal handlers out.
class Busy {
 public:
  Busy() {
    self.busy = 1;
    self.ready = nullptr;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~Busy() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.ready = self.lane;
    self.busy = 0;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

void* ReplayMallocSlowly(size_t size, Caller caller);
void ReplayFreeSlowly(void* pointer);

// A run that follows its plan goes no further than this. It calls nothing, so that nothing need be
// saved on the stack, and one pointer tells both that there is a lane and that no hook is active.
// Null: nothing has happened.
inline void* ReplayExpectedMalloc(size_t size, uint64_t site) {
  replay::Lane* lane = self.ready;
  if (__builtin_expect(lane == nullptr, 0)) return nullptr;
  self.ready = nullptr;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  void* pointer = lane->AllocateExpected(size, site);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  self.ready = lane;
  return pointer;
}
inline void* ReplayMalloc(size_t size, Caller caller) {
  void* pointer = ReplayExpectedMalloc(size, QuickSiteWord(caller));
  return __builtin_expect(pointer != nullptr, 1) ? pointer : ReplayMallocSlowly(size, caller);
}
inline void ReplayFree(void* pointer) {
  replay::Lane* lane = self.ready;
  if (__builtin_expect(lane != nullptr, 1)) {
    self.ready = nullptr;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const bool expected = lane->FreeExpected(pointer);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.ready = lane;
    if (__builtin_expect(expected, 1)) return;
  }
  ReplayFreeSlowly(pointer);
}

void* ReplayCalloc(size_t bytes, uint64_t site);
void* ReplayAllocate(size_t size, size_t alignment, uint64_t site);
void* ReplayRealloc(void* pointer, size_t size, Caller caller);
size_t ReplayUsable(void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAYER_H_
