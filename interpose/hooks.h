// What the exported functions forward to: the whole allocation family, with the call site as an
// argument. Linkable into a test without being preloaded. Semantics (errno, alignment, zero sizes)
// are glibc's in every mode.
#ifndef REPRISE_INTERPOSE_HOOKS_H_
#define REPRISE_INTERPOSE_HOOKS_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/thread_state.h"

namespace reprise::interpose {

void* HookMalloc(size_t size, Caller caller);
void* HookCalloc(size_t count, size_t size, Caller caller);
void* HookRealloc(void* pointer, size_t size, Caller caller);
void* HookReallocArray(void* pointer, size_t count, size_t size, Caller caller);
void* HookMemalign(size_t alignment, size_t size, Caller caller);
void* HookAlignedAlloc(size_t alignment, size_t size, Caller caller);
int HookPosixMemalign(void** out, size_t alignment, size_t size, Caller caller);
void* HookValloc(size_t size, Caller caller);
void* HookPvalloc(size_t size, Caller caller);
void HookFree(void* pointer);
size_t HookUsableSize(void* pointer);

// operator new: null is returned only when no new handler is left that could free memory and
// std::bad_alloc cannot be thrown.
void* HookNew(size_t size, size_t alignment, bool may_throw, Caller caller);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_HOOKS_H_
