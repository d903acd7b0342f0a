// How a lane follows the loops of its stream.
#include "replay/arena/lane.h"

namespace reprise::replay {

// The loop in which a word is, or at the end of whose body; null: it is in none.
const PlanLoop* Lane::LoopAt(const uint32_t* at) const {
  const uint64_t index = stream_.IndexOf(at);
  for (const PlanLoop* loop = loops_; loop < loops_ + lane_->loops; ++loop) {
    if (index - loop->first_word <= loop->words) return loop;
  }
  return nullptr;
}

// The loop of whose body whole periods were passed: it may be left. Null: there is none.
const PlanLoop* Lane::AtPeriod() const {
  const PlanLoop* loop = LoopAt(cursor_);
  if (loop == nullptr || (Here() - loop->first_word) % loop->period_words != 0) return nullptr;
  return loop;
}

// The first word that is an allocation, or the free of a live block, or an end.
const uint32_t* Lane::NextEvent(const uint32_t* from) const {
  for (;;) {
    const Word word = stream_.Decode(from);
    if (word.kind == Word::kAllocation || word.kind == Word::kLoopEnd || word.kind == Word::kEnded)
      return from;
    if (word.kind == Word::kFree && (mapped_ == 0 || LiveAt(word.granule).granules != 0))
      return from;
    from += word.length;
  }
}

// Between two periods: goes on with the body or behind the loop, where it `expects` what comes.
template <typename Expects>
bool Lane::FollowLoop(const PlanLoop& loop, Expects expects) {
  const bool ended = cursor_ == LoopEnd(loop);
  if (expects(ended ? LoopFirst(loop) : cursor_)) {
    if (ended) GoBack(loop);
  } else if (expects(LoopEnd(loop) + 1)) {
    LeaveLoop(loop);
  } else {
    return false;
  }
  Settle();
  return true;
}

void Lane::FollowLoop(const Request& request) {
  constexpr uint64_t kLookAhead = 256;
  const PlanLoop* loop = AtPeriod();
  if (loop == nullptr) return;
  const auto at_once = [&](const uint32_t* from) {
    const uint32_t* event = NextEvent(from);
    return stream_.Decode(event).kind == Word::kAllocation && stream_.Matches(event, request);
  };
  const auto soon = [&](const uint32_t* from) {
    const auto left = static_cast<uint64_t>(stream_.end - from);
    const uint32_t* next =
        stream_.NextAllocation(from, from + (left < kLookAhead ? left : kLookAhead));
    return next != nullptr && stream_.Matches(next, request);
  };
  const auto in_other_length = [&](const uint32_t* from) {
    const uint32_t* event = NextEvent(from);
    return stream_.Decode(event).kind == Word::kAllocation &&
           stream_.KeyAt(event).site == request.site;
  };
  const auto same_call = [&](const uint32_t* from) {
    const uint32_t* event = NextEvent(from);
    return stream_.Decode(event).kind == Word::kAllocation && IsSameCall(event, request);
  };
  if (FollowLoop(*loop, at_once) || FollowLoop(*loop, soon)) return;
  if (FollowLoop(*loop, same_call)) return;
  FollowLoop(*loop, in_other_length);
}

// Whether it is the request of an allocation word, maybe from another depth of the stack: in a loop
// an interpreter that has warmed up reaches the same call by fewer frames.
bool Lane::IsSameCall(const uint32_t* at, const Request& request) const {
  const LiveKey key = stream_.KeyAt(at);
  return key.shape == request.shape && key.site != 0 &&
         AddressOfSite(key.site) == AddressOfSite(request.site);
}

bool Lane::IsSameCallInLoop(const uint32_t* at, const Request& request) const {
  const PlanLoop* loop = LoopAt(cursor_);
  return loop != nullptr && at < LoopEnd(*loop) && IsSameCall(at, request);
}

void Lane::SettleBefore(const void* pointer) {
  Settle();
  const PlanLoop* loop = AtPeriod();
  if (loop == nullptr) return;
  const uint64_t granule = GranuleOf(pointer);
  FollowLoop(*loop, [&](const uint32_t* from) { return *NextEvent(from) == (granule | kFreeBit); });
}

// Whether only frees are left of the body, and then the request is its first allocation again.
bool Lane::IsNextInBody(const PlanLoop& loop, const Request& request) {
  const uint32_t* next = NextAllocation();
  if (next != nullptr && next < LoopEnd(loop)) return false;
  next = stream_.NextAllocation(LoopFirst(loop), LoopEnd(loop));
  return next != nullptr && stream_.Matches(next, request);
}

// From the end of a body to its beginning. What lives is the same there.
void Lane::GoBack(const PlanLoop& loop) {
  const uint32_t* first = LoopFirst(loop);
  ++counters_->went_back[&loop - loops_];
  counters_->iterations += loop.iterations;
  walk_lock_.Lock();
  if (walked_ > first) {
    if (mapped_ == 0) Walk(LoopEnd(loop));
    walked_ = first;
  }
  cursor_ = first;
  walk_lock_.Unlock();
  next_allocation_ = first;
  resync_.WentBack(loop.words, loop.blocks);
  Publish();
}

// From the end of a period to behind the loop. What lives is the same there.
void Lane::LeaveLoop(const PlanLoop& loop) {
  const uint32_t* end = LoopEnd(loop);
  const uint64_t passed = static_cast<uint64_t>(cursor_ - LoopFirst(loop)) / loop.period_words;
  counters_->iterations += loop.iterations / (loop.words / loop.period_words) * passed;
  // The periods that are left are as if they had been skipped.
  for (const uint32_t* at = cursor_; at < end;) {
    const Word word = stream_.Decode(at);
    if (word.kind == Word::kAllocation) {
      ++counters_->skipped;
      counters_->skipped_hash +=
          MixAddress(stream_.IndexOf(at), reinterpret_cast<uint64_t>(At(word.granule)));
    }
    at += word.length;
  }
  cursor_ = end + 1;
  resync_.LeftLoop();
}

// Passes what is before a word, which may be one that comes again.
void Lane::GoTo(const uint32_t* target) {
  if (target < cursor_) {
    const PlanLoop* loop = LoopAt(cursor_);
    PassUntil(LoopEnd(*loop));
    GoBack(*loop);
  }
  PassUntil(target);
}

}  // namespace reprise::replay
