// What the exported functions forward to: the whole allocation family, with the call site as an
// argument. Linkable into a test without being preloaded. Semantics (errno, alignment, zero sizes)
// are glibc's in every mode.
#ifndef REPRISE_INTERPOSE_HOOKS_H_
#define REPRISE_INTERPOSE_HOOKS_H_

#include <stddef.h>
#include <stdint.h>

namespace reprise::interpose {

void* HookMalloc(size_t size, uint64_t site);
void* HookCalloc(size_t count, size_t size, uint64_t site);
void* HookRealloc(void* pointer, size_t size, uint64_t site);
void* HookReallocArray(void* pointer, size_t count, size_t size, uint64_t site);
void* HookMemalign(size_t alignment, size_t size, uint64_t site);
void* HookAlignedAlloc(size_t alignment, size_t size, uint64_t site);
int HookPosixMemalign(void** out, size_t alignment, size_t size, uint64_t site);
void* HookValloc(size_t size, uint64_t site);
void* HookPvalloc(size_t size, uint64_t site);
void HookFree(void* pointer, uint64_t site);
size_t HookUsableSize(void* pointer);

// operator new: null is returned only when no new handler is left that could free memory and
// std::bad_alloc cannot be thrown.
void* HookNew(size_t size, size_t alignment, bool may_throw, uint64_t site);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_HOOKS_H_
