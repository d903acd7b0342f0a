// One event of a recording, as a streaming reader hands it out. Blocks are named by their ordinal:
// the n-th allocation of the recording has ordinal n, counted from 0.
#ifndef REPRISE_TRACE_EVENT_H_
#define REPRISE_TRACE_EVENT_H_

#include <cstdint>

#include "trace/recording.h"

namespace reprise::trace {

// Sizes, alignments and usable sizes are below 2^56: more than any address space has; all sizes of
// a recording together stay below 2^63. What does not is damage.
inline constexpr int kSizeBits = 56;
inline constexpr uint64_t kMaxSize = (uint64_t{1} << kSizeBits) - 1;

enum class EventKind : uint8_t {
  kAllocate,
  kFree,           // of a block whose allocation is known
  kImpliedFree,    // nobody recorded it; `thread` is that of the allocation that reuses the address
  kUnmatchedFree,  // of an address that was never seen allocated; it has no block
  kUsable,         // malloc_usable_size was asked; takes no event index
};

struct Event {
  EventKind kind = EventKind::kAllocate;
  AllocationKind allocation_kind = AllocationKind::kMalloc;  // of the block
  uint8_t log2_alignment = 0;                                // of the block; 0: the usual 16 bytes
  uint32_t thread = 0;         // in which the event happened; index into Recording::threads
  uint32_t site = kNone;       // of the block; index into Recording::sites
  uint64_t index = 0;          // event index; kUsable: of the next event
  uint64_t block = 0;          // ordinal of the block
  uint64_t size = 0;           // bytes that the block was requested with
  uint64_t birth = 0;          // event index of the block's allocation
  uint64_t previous = kNever;  // kAllocate by realloc: ordinal of the block it replaces
  uint64_t usable = 0;         // kUsable: the answer, bytes
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_EVENT_H_
