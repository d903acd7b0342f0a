// The book-keeping that every reader shares: numbers events and blocks, knows which blocks live,
// and notes when each thread was active. A reader names a block by any 64-bit key that is unique
// among the live ones (its address, its ordinal in a file).
#ifndef REPRISE_TRACE_LEDGER_H_
#define REPRISE_TRACE_LEDGER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "trace/event.h"
#include "trace/live_blocks.h"
#include "trace/recording.h"

namespace reprise::trace {

// Memory: proportional to the blocks that live. `recording` and what `on_event` refers to must
// outlive it; it keeps recording.events, unmatched_frees, implied_frees and the threads' ranges.
class Ledger {
 public:
  Ledger(Recording& recording, absl::FunctionRef<void(const Event&)> on_event)
      : recording_(recording), on_event_(on_event) {}

  // Of `block`, the reader fills thread, site, allocation_kind, log2_alignment, size and previous.
  // A key that lives already has been freed without a record: an implied free goes first. The rest
  // of `block` is filled here.
  void Allocate(uint64_t key, Event& block);

  // Returns the ordinal of the freed block; kNever when the free matches nothing.
  uint64_t Free(uint64_t key, uint32_t thread, EventKind kind = EventKind::kFree);

  // Ignored for a block that does not live.
  void Usable(uint64_t key, uint32_t thread, uint64_t answer);

  // Of memory, for the live blocks.
  uint64_t bytes() const { return live_.bytes(); }

 private:
  static Event Describe(const LiveBlock& block, EventKind kind, uint32_t thread);
  void Emit(Event& event);

  Recording& recording_;
  absl::FunctionRef<void(const Event&)> on_event_;
  LiveBlocks live_;
  uint64_t allocations_ = 0;
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_LEDGER_H_
