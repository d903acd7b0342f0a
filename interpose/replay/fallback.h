// The fallback: mimalloc in a fixed address range of ours, for every block that the plan does not
// serve. Each thread has a heap of its own; blocks may be freed by any thread.
#ifndef REPRISE_INTERPOSE_REPLAY_FALLBACK_H_
#define REPRISE_INTERPOSE_REPLAY_FALLBACK_H_

#include <mimalloc.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/process/address_map.h"

namespace reprise::interpose {

// A block aligned to `alignment` (a power of two, 16 or more), zeroed when `zero`; null with errno
// ENOMEM when there is none. Not from a signal handler that interrupted another of these calls.
void* FallbackAllocate(size_t size, size_t alignment, bool zero);

// Short blocks come in few sizes, the same as mimalloc's, to which they are rounded up before
// mimalloc sees them: in steps of 16 bytes up to 128, then four to each power of two. With few of
// them the next block of each is still in the processor's first cache when it is needed.
inline constexpr size_t kMostShort = 1024;
inline constexpr size_t kShortSizes = 8 + 4 * 3;
struct ShortSizes {
  uint16_t bytes[kShortSizes + 1];     // of the first one on; before it there is none, of 0 bytes
  uint8_t holds[kMostShort / 16 + 1];  // the smallest one that has so many times 16 bytes
};
inline constexpr ShortSizes kShort = [] {
  ShortSizes sizes{};
  size_t size = 1;
  for (size_t units = 0; units <= kMostShort / 16; ++units) {
    if (16 * units > sizes.bytes[size] && sizes.bytes[size] != 0) ++size;
    const size_t step = units <= 8 ? 1 : (size_t{1} << (63 - __builtin_clzll(units - 1))) / 4;
    const size_t rounded = (units + step - 1) / step * step;
    sizes.bytes[size] = static_cast<uint16_t>(16 * (rounded == 0 ? 1 : rounded));
    sizes.holds[units] = static_cast<uint8_t>(size);
  }
  return sizes;
}();
static_assert(kShort.bytes[kShortSizes] == kMostShort);
// 0: it is no short one.
inline size_t ShortSize(size_t bytes) {
  return __builtin_expect(bytes <= kMostShort, 1) ? kShort.holds[(bytes + 15) / 16] : 0;
}

// Of each 64 KiB of the fallback: which short size every block there has at least that may go to a
// FallbackCache, or none. What mimalloc 2 calls a page is no smaller and has blocks of one size, as
// long as any of them is live; so it is enough to note each block's. But one that was asked for
// with an alignment may begin later and be shorter. Such blocks come from a heap of their own, the
// pages of which go to any heap when their thread ends: where one has been, no block may.
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
// in the processor's cache. Half a megabyte at most. Blocks of any thread; for mimalloc they are
// live. They are linked through their first words: that line the program has just used, or will.
class FallbackCache {
 public:
  // Null: it has none of that size.
  void* Take(size_t bytes) {
    Blocks& blocks = blocks_[ShortSize(bytes)];  // of size 0 there are none
    void* pointer = blocks.first;
    if (pointer == nullptr) return nullptr;
    blocks.first = *static_cast<void**>(pointer);
    --blocks.count;
    return pointer;
  }
  // False: it has no room for this block.
  bool Put(void* pointer) {
    const size_t size = __atomic_load_n(FallbackSizesAt(pointer), __ATOMIC_RELAXED);
    if (size - 1 >= kShortSizes) return false;
    Blocks& blocks = blocks_[size];
    if (blocks.count == kMost) return false;
    ++blocks.count;
    *static_cast<void**>(pointer) = blocks.first;
    blocks.first = pointer;
    return true;
  }
  // Gives all of them back.
  void Clear();

 private:
  static constexpr uint64_t kMost = 64;  // of a size
  struct Blocks {
    void* first;
    uint64_t count;
  };
  Blocks blocks_[kShortSizes + 1];
};

// Whether the thread has a cache now, in `this_thread`.
bool FallbackMakeCache();

// FallbackAllocate from the thread's heap, which it has. This may change errno.
inline void* FallbackAllocateQuickly(mi_heap_t* heap, size_t bytes) {
  const size_t size = ShortSize(bytes);
  void* pointer = mi_heap_malloc(heap, size != 0 ? kShort.bytes[size] : bytes);
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

#endif  // REPRISE_INTERPOSE_REPLAY_FALLBACK_H_
