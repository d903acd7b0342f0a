// The replayer: serves the program's allocations from the plan, and from the fallback what does not
// fit it.
#ifndef REPRISE_INTERPOSE_REPLAYER_H_
#define REPRISE_INTERPOSE_REPLAYER_H_

#include <stddef.h>
#include <stdint.h>

namespace reprise::interpose {

// Finds the plan of this image and sets the arena up; false when there is none (and a message was
// left for the launcher, when that is a surprise).
bool StartReplay();

// A forked child goes on without a plan: what it allocates comes from the fallback.
void StopReplayAfterFork();

// The calling thread ends: it leaves its lane, which it took with its first allocation.
void EndReplayThread();

void* ReplayMalloc(size_t size, uint64_t site);
void* ReplayCalloc(size_t bytes, uint64_t site);
void* ReplayAllocate(size_t size, size_t alignment, uint64_t site);
void* ReplayRealloc(void* pointer, size_t size, uint64_t site);
void ReplayFree(void* pointer, uint64_t site);
size_t ReplayUsable(void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAYER_H_
