#include "interpose/replayer.h"

namespace reprise::interpose {
bool StartReplay() { return false; }
void StopReplayAfterFork() {}
void BeginReplayThread() {}
void EndReplayThread() {}
void* ReplayMalloc(size_t, uint64_t) { return nullptr; }
void* ReplayCalloc(size_t, uint64_t) { return nullptr; }
void* ReplayAllocate(size_t, size_t, uint64_t) { return nullptr; }
void* ReplayRealloc(void*, size_t, uint64_t) { return nullptr; }
void ReplayFree(void*, uint64_t) {}
size_t ReplayUsable(void*) { return 0; }
}  // namespace reprise::interpose
