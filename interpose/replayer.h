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

// A forked child goes on without a plan: what it allocates comes from the fallback.
void StopReplayAfterFork();

// The calling thread ends: it leaves its lane, which it took with its first allocation.
void EndReplayThread();

// Keeps a signal handler that allocates out of the thread's lane and heap while they change.
class Busy {
 public:
  Busy() {
    self.busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~Busy() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.busy = 0;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

void* ReplayMallocSlowly(size_t size, uint64_t site);
void ReplayFreeSlowly(void* pointer);

// A run that follows its plan goes no further than this. It calls nothing, so that nothing need be
// saved on the stack.
inline void* ReplayMalloc(size_t size, uint64_t site) {
  constexpr size_t kMostBytes = size_t{1} << 38;  // fits a shape; none of the plan is as large
  if (__builtin_expect(self.lane != nullptr && self.busy == 0 && size <= kMostBytes, 1)) {
    const Busy busy;
    void* pointer = self.lane->AllocateExpected(replay::Shape(size, 4), site);
    if (__builtin_expect(pointer != nullptr, 1)) return pointer;
  }
  return ReplayMallocSlowly(size, site);
}
inline void ReplayFree(void* pointer) {
  if (__builtin_expect(self.lane != nullptr && self.busy == 0, 1)) {
    const Busy busy;
    if (__builtin_expect(self.lane->FreeExpected(pointer), 1)) return;
  }
  ReplayFreeSlowly(pointer);
}

void* ReplayCalloc(size_t bytes, uint64_t site);
void* ReplayAllocate(size_t size, size_t alignment, uint64_t site);
void* ReplayRealloc(void* pointer, size_t size, uint64_t site);
size_t ReplayUsable(void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAYER_H_
