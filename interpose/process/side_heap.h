// Memory for the moments when neither the program's allocator nor the arena may be touched: while
// the library starts, inside a signal handler that interrupted a hook, and in a thread whose exit
// hook has run. Every block has pages of its own in our reservation; where that could not be made
// there is only a small table. Lock-free and safe in signal handlers.
#ifndef REPRISE_INTERPOSE_PROCESS_SIDE_HEAP_H_
#define REPRISE_INTERPOSE_PROCESS_SIDE_HEAP_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/process/address_map.h"

namespace reprise::interpose {

// A zeroed block of at least `bytes`, aligned to `alignment` (a power of two, at most 1 GiB) and at
// least to 16; null when there is no more memory. Sets no errno.
void* SideAllocate(size_t bytes, size_t alignment = 16);

// Blocks of the time before the range can be reserved, and where it cannot be; never given back.
inline constexpr uint64_t kEarlySideBytes = 64 << 10;
extern __attribute__((visibility("hidden"))) char early_side_blocks[kEarlySideBytes];

// False: `pointer` does not lie in the side heap. True: it does, or our range could not be reserved
// and the program may have something there: only IsSide tells.
inline bool MayBeSide(const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  static_assert(kSideHeap.begin % kSideHeap.bytes == 0, "one shift tells");
  return address / kSideHeap.bytes == kSideHeap.begin / kSideHeap.bytes ||
         address - reinterpret_cast<uint64_t>(early_side_blocks) < kEarlySideBytes;
}

// Whether `pointer` lies in the side heap, when it may.
bool LiesInSideHeap(const void* pointer);

inline bool IsSide(const void* pointer) {
  return __builtin_expect(MayBeSide(pointer), 0) && LiesInSideHeap(pointer);
}

// Gives a block back. A pointer that is not a block's start is ignored.
void SideFree(void* pointer);

// Gives the addresses back that no block has had, and notes that (Process::given_back). Blocks that
// are needed later are mapped one by one, where nobody else has mapped anything.
void CutSideHeap();

// The bytes usable from `pointer` on, a block's start.
size_t SideUsable(const void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_SIDE_HEAP_H_
