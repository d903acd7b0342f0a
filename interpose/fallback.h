// The fallback: mimalloc in a fixed address range of ours, for every block that the plan does not
// serve. Each thread has a heap of its own; blocks may be freed by any thread.
#ifndef REPRISE_INTERPOSE_FALLBACK_H_
#define REPRISE_INTERPOSE_FALLBACK_H_

#include <mimalloc.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/address_map.h"

namespace reprise::interpose {

// A block aligned to `alignment` (a power of two, 16 or more), zeroed when `zero`; null with errno
// ENOMEM when there is none. Not from a signal handler that interrupted another of these calls.
void* FallbackAllocate(size_t size, size_t alignment, bool zero);

// A short block's size, in 16 bytes; rounded up before mimalloc sees it.
inline constexpr size_t kMostShort = 1024;
inline size_t ShortSize(size_t bytes) { return bytes < 16 ? 1 : (bytes + 15) / 16; }

// Of each 64 KiB of the fallback: how many times 16 bytes every block there has at least that may
// go to a FallbackCache, or 0. What mimalloc 2 calls a page is no smaller and has blocks of one
// size, as long as any of them is live; so it is enough to note each block's. But one that was
// asked for with an alignment may begin later and be shorter. Such blocks come from a heap of their
// own, the pages of which go to any heap when their thread ends: where one has been, mimalloc is
// asked for each block.
inline uint8_t* FallbackSizesAt(const void* pointer) {
  const uint64_t offset = reinterpret_cast<uint64_t>(pointer) - kFallback.begin;
  return reinterpret_cast<uint8_t*>(kFallbackSizes.begin + (offset >> 16));
}
inline constexpr uint8_t kHasHadAligned = 255;
// `size`: ShortSize, 0 or kHasHadAligned.
inline void NoteFallbackSize(const void* pointer, size_t size) {
  uint8_t* noted = FallbackSizesAt(pointer);
  if (__atomic_load_n(noted, __ATOMIC_RELAXED) == kHasHadAligned) return;
  __atomic_store_n(noted, static_cast<uint8_t>(size), __ATOMIC_RELAXED);
}

// Short blocks that a thread freed lately, for its next requests of the same size: while its lane
// rests, calls of mimalloc are most of what an allocation costs, and what was freed last is still
// in the processor's cache. A megabyte at most. Blocks of any thread; for mimalloc they are live.
class FallbackCache {
 public:
  // Null: it has none of that size.
  void* Take(size_t bytes) {
    const size_t size = (bytes + 15) / 16;
    if (bytes > kMostShort || counts_[size] == 0) return nullptr;
    return blocks_[size][--counts_[size]];
  }
  // False: it has no room for this block.
  bool Put(void* pointer) {
    size_t size = __atomic_load_n(FallbackSizesAt(pointer), __ATOMIC_RELAXED);
    if (__builtin_expect(size == kHasHadAligned, 0)) size = mi_usable_size(pointer) / 16;
    if (size - 1 >= kSizes - 1 || counts_[size] == kMost) return false;
    blocks_[size][counts_[size]++] = pointer;
    return true;
  }
  // Gives all of them back.
  void Clear();

 private:
  static constexpr size_t kSizes = kMostShort / 16 + 1;
  static constexpr size_t kMost = 32;  // of a size
  uint8_t counts_[kSizes];             // none of size 0
  void* blocks_[kSizes][kMost];
};

// Whether the thread has a cache now, in `self`.
bool FallbackMakeCache();

// FallbackAllocate from the thread's heap, which it has. This may change errno.
inline void* FallbackAllocateQuickly(mi_heap_t* heap, size_t bytes) {
  const size_t size = bytes <= kMostShort ? ShortSize(bytes) : 0;
  void* pointer = mi_heap_malloc(heap, size != 0 ? 16 * size : bytes);
  if (__builtin_expect(pointer != nullptr, 1)) NoteFallbackSize(pointer, size);
  return pointer;
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

// mimalloc's code goes until it is needed (modules.h, DropCleanPages). Some is at the program's
// end, at least: it comes in short pieces once they are told apart.
void DropFallbackCode();
void MapFallbackCodeInPieces();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_FALLBACK_H_
