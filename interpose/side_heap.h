// Memory for the moments when neither the program's allocator nor the arena may be touched: while
// the library starts, inside a signal handler that interrupted a hook, and in a thread whose exit
// hook has run. Every block has pages of its own; lock-free and safe in signal handlers.
#ifndef REPRISE_INTERPOSE_SIDE_HEAP_H_
#define REPRISE_INTERPOSE_SIDE_HEAP_H_

#include <stddef.h>

namespace reprise::interpose {

// A zeroed block of at least `bytes`, aligned to `alignment` (a power of two, at most 1 GiB) and at
// least to 16; null when there is no more memory. Sets no errno.
void* SideAllocate(size_t bytes, size_t alignment = 16);

// Whether `pointer` lies in the side heap.
bool IsSide(const void* pointer);

// Gives a block back. A pointer that is not a block's start is ignored.
void SideFree(void* pointer);

// The bytes usable from `pointer` on, a block's start.
size_t SideUsable(const void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_SIDE_HEAP_H_
