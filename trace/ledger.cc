#include "trace/ledger.h"

namespace reprise::trace {

Event Ledger::Describe(const LiveBlock& block, EventKind kind, uint32_t thread) {
  Event event;
  event.kind = kind;
  event.allocation_kind = static_cast<AllocationKind>(block.kind);
  event.log2_alignment = block.log2_alignment;
  event.thread = thread;
  event.site = block.site();
  event.block = block.ordinal;
  event.size = block.size;
  event.birth = block.birth;
  return event;
}

inline void Ledger::Emit(Event& event) {
  event.index = recording_.events++;
  Thread& thread = recording_.threads[event.thread];
  if (thread.end_event == 0) thread.first_event = event.index;
  thread.end_event = event.index + 1;
  on_event_(event);
}

void Ledger::Allocate(uint64_t key, Event& event) {
  if (live_.Find(key) != nullptr) Free(key, event.thread, EventKind::kImpliedFree);
  event.kind = EventKind::kAllocate;
  event.block = allocations_++;
  event.birth = recording_.events;
  LiveBlock& block = live_.Insert(key);
  block.size = event.size & kMaxSize;
  block.log2_alignment = event.log2_alignment & 63;
  block.kind = static_cast<uint64_t>(event.allocation_kind) & 3;
  block.ordinal = event.block;
  block.birth = event.birth;
  block.set_site(event.site);
  Emit(event);
}

uint64_t Ledger::Free(uint64_t key, uint32_t thread, EventKind kind) {
  const LiveBlock* found = live_.Find(key);
  if (found == nullptr) {
    ++recording_.unmatched_frees;
    Event event;
    event.kind = EventKind::kUnmatchedFree;
    event.thread = thread;
    Emit(event);
    return kNever;
  }
  Event event = Describe(*found, kind, thread);
  live_.Erase(found);
  if (kind == EventKind::kImpliedFree) ++recording_.implied_frees;
  Emit(event);
  return event.block;
}

void Ledger::Usable(uint64_t key, uint32_t thread, uint64_t answer) {
  const LiveBlock* found = live_.Find(key);
  if (found == nullptr) return;
  Event event = Describe(*found, EventKind::kUsable, thread);
  event.usable = answer;
  event.index = recording_.events;
  on_event_(event);
}

}  // namespace reprise::trace
