// The fallback: mimalloc in a fixed address range of ours, for every block that the plan does not
// serve. Each thread has a heap of its own; blocks may be freed by any thread.
#ifndef REPRISE_INTERPOSE_FALLBACK_H_
#define REPRISE_INTERPOSE_FALLBACK_H_

#include <mimalloc.h>
#include <stddef.h>

#include "interpose/address_map.h"

namespace reprise::interpose {

// A block aligned to `alignment` (a power of two, 16 or more), zeroed when `zero`; null with errno
// ENOMEM when there is none. Not from a signal handler that interrupted another of these calls.
void* FallbackAllocate(size_t size, size_t alignment, bool zero);

// The same from the thread's heap, which it has. This may change errno.
inline void* FallbackAllocateQuickly(mi_heap_t* heap, size_t size) {
  return mi_heap_malloc(heap, size < 16 ? 16 : size);
}

// Whether the block came from here.
inline bool IsFallback(const void* pointer) { return kFallback.Contains(pointer); }

inline void FallbackFree(void* pointer) { mi_free(pointer); }

// The same from a signal handler that may have interrupted one of these calls: the block is freed
// by a later call of any thread.
void FallbackFreeLater(void* pointer);

size_t FallbackUsable(const void* pointer);

// The calling thread ends: it must not use its heap any more.
void FallbackLeave();

// In a forked child, which must not allocate or free here any more: another thread of its parent
// may have been inside mimalloc, which waits for what such a thread has begun. What is usable in a
// block may still be asked.
void FallbackForget();

// mimalloc's code goes until it is needed (modules.h, DropCleanPages).
void DropFallbackCode();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_FALLBACK_H_
