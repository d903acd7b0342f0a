#include "trace/spool_merge.h"

#include <algorithm>
#include <utility>

namespace reprise::trace {
std::vector<uint64_t>& SpoolInterpreter::OpenReallocs(uint32_t thread) {
  if (open_reallocs_.size() <= thread) open_reallocs_.resize(recording_.threads.size());
  return open_reallocs_[thread];
}

void SpoolInterpreter::Perform(const SpoolEvent& event, uint32_t thread) {
  switch (event.kind) {
    case kSpoolMalloc:
      return Allocate(event, thread, AllocationKind::kMalloc);
    case kSpoolCalloc:
      return Allocate(event, thread, AllocationKind::kCalloc);
    case kSpoolAligned:
      return Allocate(event, thread, AllocationKind::kAligned);
    case kSpoolReallocAlloc:
      return Allocate(event, thread, AllocationKind::kRealloc);
    case kSpoolFree:
      ledger_.Free(event.address, thread);
      return;
    case kSpoolReallocFree: {
      if (index_.Revoked(event.at)) return;
      std::vector<uint64_t>& open = OpenReallocs(thread);
      // Reallocs nest only where signal handlers do; a realloc to nothing stays open for ever.
      if (open.size() >= kMostOpenReallocs) open.erase(open.begin());
      open.push_back(ledger_.Free(event.address, thread));
      return;
    }
    case kSpoolUsable:
      return ledger_.Usable(event.address, thread, event.words[0]);
    case kSpoolStack:
      return modules_.DefineStack(event.address, event.stack(), event.epoch);
    case kSpoolSkip:  // a mark
      return AddMark(recording_.marks, {recording_.events, thread});
    default:
      return;
  }
}

void SpoolInterpreter::Allocate(const SpoolEvent& event, uint32_t thread, AllocationKind kind) {
  Event block;
  block.thread = thread;
  block.site = modules_.Resolve(event.words[0], event.epoch);
  block.allocation_kind = kind;
  block.log2_alignment = static_cast<uint8_t>(event.words[1] >> kSpoolSizeBits);
  block.size = event.words[1] & ((uint64_t{1} << kSpoolSizeBits) - 1);
  if (block.size > bytes_left_) {  // no sum of sizes reaches 2^63
    ++recording_.lost_events;
    return;
  }
  bytes_left_ -= block.size;
  if (kind == AllocationKind::kRealloc) {
    if (std::vector<uint64_t>& open = OpenReallocs(thread); !open.empty()) {
      block.previous = open.back();
      open.pop_back();
    }
  }
  ledger_.Allocate(event.address, block);
}

SpoolMerge::Cursor::Cursor(SpoolSegment segment, const MappedFile* file)
    : segment_(std::move(segment)), file_(file), at_(segment_.begin) {
  event_.epoch = segment_.epoch;
  Advance();
}

inline void SpoolMerge::Cursor::Advance() {
  bool malformed = false;
  do {
    done_ = !DecodeSpoolEvent(at_, segment_.end, event_, malformed);
    at_ += event_.bytes;
  } while (!done_ && (event_.kind == kSpoolEpoch || (event_.kind == kSpoolSkip && !event_.mark)));
}

void SpoolMerge::Cursor::Release() {
  segment_.owner.reset();
  if (file_ == nullptr) return;
  file_->Release(segment_.position, static_cast<uint64_t>(segment_.end - segment_.begin));
}

void SpoolMerge::Add(std::vector<SpoolSegment> segments, const MappedFile* file) {
  for (SpoolSegment& segment : segments) segments_.push({std::move(segment), file, numbers_++});
}

void SpoolMerge::Begin(Waiting waiting) {
  const uint64_t epoch = waiting.segment.epoch;
  Cursor cursor(std::move(waiting.segment), waiting.file);
  if (cursor.done()) return;
  auto place = static_cast<uint32_t>(cursors_.size());
  const uint64_t next = cursor.event().epoch;
  if (unused_.empty()) {
    cursors_.push_back(std::move(cursor));
  } else {
    place = unused_.back();
    unused_.pop_back();
    cursors_[place] = std::move(cursor);
  }
  queue_.emplace(next, epoch, waiting.number, place);
}

void SpoolMerge::Run(SpoolInterpreter& interpreter, uint64_t last) {
  const auto next_segment = [this] {
    return segments_.empty() ? UINT64_MAX : segments_.top().segment.epoch;
  };
  for (;;) {
    while (!segments_.empty() && next_segment() <= last &&
           (queue_.empty() || next_segment() <= std::get<0>(queue_.top()))) {
      Waiting waiting = segments_.top();
      segments_.pop();
      Begin(std::move(waiting));
    }
    if (queue_.empty() || std::get<0>(queue_.top()) > last) return;
    const auto [epoch, begin, number, place] = queue_.top();
    queue_.pop();
    uint64_t limit = std::min(next_segment(), last);
    if (!queue_.empty()) limit = std::min(limit, std::get<0>(queue_.top()));
    Cursor& cursor = cursors_[place];
    do {
      interpreter.Perform(cursor.event(), cursor.thread());
      cursor.Advance();
    } while (!cursor.done() && cursor.event().epoch <= limit);
    if (cursor.done()) {
      cursor.Release();
      unused_.push_back(place);
    } else {
      queue_.emplace(cursor.event().epoch, begin, number, place);
    }
  }
}

}  // namespace reprise::trace
