#include "replay/arena/lane_stream.h"

namespace reprise::replay {

void LaneStream::StartStream(LaneCounters* counters, const LaneNotes& notes, bool alone) {
  counters_ = counters;
  counters_->first_word = counters_->passed = reinterpret_cast<uint64_t>(stream_.first);
  counters_->box = reinterpret_cast<uint64_t>(box_);
  notes_ = notes;
  resync_.Start(&stream_, alone);
  next_allocation_ = stream_.first;
  off_plan_ = box_granules_ == 0;
}

const uint32_t* LaneStream::NextAllocation() {
  if (next_allocation_ == nullptr) return nullptr;
  if (next_allocation_ < cursor_ || stream_.Decode(next_allocation_).kind != Word::kAllocation) {
    next_allocation_ = stream_.NextAllocation(cursor_, stream_.end);
  }
  return next_allocation_;
}

const uint32_t* LaneStream::NextEvent(const uint32_t* from) const {
  for (;;) {
    const Word word = stream_.Decode(from);
    if (word.kind == Word::kAllocation || word.kind == Word::kLoopEnd || word.kind == Word::kEnded)
      return from;
    if (word.kind == Word::kFree && (mapped_ == 0 || LiveAt(word.granule).granules != 0))
      return from;
    from += word.length;
  }
}

void LaneStream::Settle() {
  for (;;) {
    const Word word = stream_.Decode(cursor_);
    if (word.kind == Word::kFree) {
      if (mapped_ == 0 || LiveAt(word.granule).granules != 0) return;
      cursor_ = cursor_ + 1;
    } else if (word.kind == Word::kRemoteFree) {
      const uint32_t* before = cursor_;
      if (remote_.Any()) TakeInRemoteFrees(remote_.TakeAll());
      if (cursor_ == before) Pass(word);
    } else if (word.kind == Word::kAllocation || word.kind == Word::kLoopEnd ||
               word.kind == Word::kEnded) {
      return;
    } else {
      Pass(word);
    }
  }
}

void LaneStream::Pass(const Word& word) {
  switch (word.kind) {
    case Word::kAllocation: {
      BecomeMapped();
      CountSkipped(cursor_, word.granule);
      const LiveKey key = stream_.KeyAt(cursor_);
      resync_.Skipped({key.shape, key.site});
      break;
    }
    case Word::kFree:
    case Word::kRemoteFree:
      BecomeMapped();
      if (LiveAt(word.granule).granules == 0) break;
      notes_.BecameLate(word.granule, Here());
      overdue_remotely_ += word.kind == Word::kRemoteFree ? 1 : 0;
      break;
    case Word::kCheckpoint:
      return PassCheckpoint();
    case Word::kIdlePages:
      ReleaseIdle(word);
      break;
    case Word::kUsedPages:
      CountPages(word.granule);
      break;
    case Word::kLoopEnd:
      return LeaveLoop(*stream_.LoopAt(cursor_));
    case Word::kEnded:
      return;
  }
  cursor_ += word.length;
}

// The words behind are not read again soon: they go in pieces of at least a twentieth of the box,
// since the system asks a few microseconds each time. A loop that is shorter than that stays.
void LaneStream::PassCheckpoint() {
  constexpr uint64_t kBoxShare = 20;
  constexpr uint64_t kMostAtOnce = 16;
  Publish();
  ++cursor_;
  const uint64_t share = box_granules_ * kGranule / kBoxShare / (kTurnWords * sizeof(uint32_t));
  const uint64_t at_once = share < kMostAtOnce ? share + 1 : kMostAtOnce;
  const PlanLoop* loop = stream_.LoopAt(cursor_);
  if (++checkpoints_ % at_once != 0) return;
  if (loop != nullptr && loop->words < at_once * kTurnWords) return;
  DropWords(cursor_);
}

void LaneStream::PassUntil(const uint32_t* target) {
  while (cursor_ < target) Pass(stream_.Decode(cursor_));
  Publish();
}

void LaneStream::PassFreed() {
  if (mapped_ == 0) return;
  while (*cursor_ - kFreeBit < kSpecial - kFreeBit && LiveAt(*cursor_ & ~kFreeBit).granules == 0) {
    cursor_ = cursor_ + 1;
  }
}

void LaneStream::GoTo(const uint32_t* target) {
  if (target < cursor_) {
    const PlanLoop* loop = stream_.LoopAt(cursor_);
    PassUntil(stream_.EndOf(*loop));
    GoBack(*loop);
  }
  PassUntil(target);
}

void LaneStream::GoBack(const PlanLoop& loop) {
  ++counters_->went_back[&loop - stream_.loops];
  counters_->iterations += loop.iterations;
  MoveBack(loop);
  next_allocation_ = cursor_;
  resync_.WentBack(loop.words, loop.blocks);
  Publish();
}

void LaneStream::LeaveLoop(const PlanLoop& loop) {
  const uint32_t* end = stream_.EndOf(loop);
  const uint64_t passed =
      static_cast<uint64_t>(cursor_ - stream_.FirstOf(loop)) / loop.period_words;
  counters_->iterations += loop.iterations / (loop.words / loop.period_words) * passed;
  // The periods that are left are as if they had been skipped.
  for (const uint32_t* at = cursor_; at < end;) {
    const Word word = stream_.Decode(at);
    if (word.kind == Word::kAllocation) CountSkipped(at, word.granule);
    at += word.length;
  }
  cursor_ = end + 1;
  resync_.LeftLoop();
}

void LaneStream::TakeInRemoteFrees(void* first) {
  for (void* block = first; block != nullptr;) {
    const uint64_t granule = GranuleOf(block);
    const bool next_in_stream = *cursor_ == kDrain && cursor_[1] == granule;
    if (granule >= box_granules_) return CountInvalidFree();  // what it leads to may be anything
    if (!next_in_stream || mapped_ != 0) {
      BecomeMapped();
      if (LiveAt(granule).granules == 0) return CountInvalidFree();
    }
    void* next = RemoteFrees::Next(block);
    if (mapped_ != 0) {
      NoteFreed(granule);
      RemoveLive(granule);
    }
    if (next_in_stream) {
      cursor_ = cursor_ + 2;
    } else {
      overdue_remotely_ -= overdue_remotely_ > 0 ? 1 : 0;
    }
    block = next;
  }
}

void LaneStream::NoteFreed(uint64_t granule) {
  if (!notes_.AnyLate()) return;
  if (SquatterNote* note = notes_.LiveSquatter(granule)) notes_.Freed(note, Here());
}

}  // namespace reprise::replay
