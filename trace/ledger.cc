#include "trace/ledger.h"

namespace reprise::trace {

Event Ledger::Describe(const Block& block, EventKind kind, uint32_t thread) {
  Event event;
  event.kind = kind;
  event.allocation_kind = block.kind;
  event.log2_alignment = block.log2_alignment;
  event.thread = thread;
  event.site = block.site;
  event.block = block.ordinal;
  event.size = block.size;
  event.birth = block.birth;
  return event;
}

void Ledger::Emit(Event& event) {
  event.index = recording_.events++;
  Thread& thread = recording_.threads[event.thread];
  if (thread.end_event == 0) thread.first_event = event.index;
  thread.end_event = event.index + 1;
  on_event_(event);
}

void Ledger::Allocate(uint64_t key, Event& event) {
  auto [live, added] = live_.try_emplace(key);
  if (!added) {
    Free(key, event.thread, EventKind::kImpliedFree);
    live = live_.try_emplace(key).first;
  }
  event.kind = EventKind::kAllocate;
  event.block = allocations_++;
  event.birth = recording_.events;
  Block& block = live->second;
  block.ordinal = event.block;
  block.size = event.size;
  block.birth = event.birth;
  block.site = event.site;
  block.kind = event.allocation_kind;
  block.log2_alignment = event.log2_alignment;
  Emit(event);
}

uint64_t Ledger::Free(uint64_t key, uint32_t thread, EventKind kind) {
  const auto found = live_.find(key);
  if (found == live_.end()) {
    ++recording_.unmatched_frees;
    Event event;
    event.kind = EventKind::kUnmatchedFree;
    event.thread = thread;
    Emit(event);
    return kNever;
  }
  Event event = Describe(found->second, kind, thread);
  live_.erase(found);
  if (kind == EventKind::kImpliedFree) ++recording_.implied_frees;
  Emit(event);
  return event.block;
}

void Ledger::Usable(uint64_t key, uint32_t thread, uint64_t answer) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  Event event = Describe(found->second, EventKind::kUsable, thread);
  event.usable = answer;
  event.index = recording_.events;
  on_event_(event);
}

uint64_t Ledger::Ordinal(uint64_t key) const {
  const auto found = live_.find(key);
  return found == live_.end() ? kNever : found->second.ordinal;
}

}  // namespace reprise::trace
