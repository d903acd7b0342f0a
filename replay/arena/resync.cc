#include "replay/arena/resync.h"

namespace reprise::replay {

const uint32_t* Resync::BehindTheSameSites(const uint32_t* cursor) const {
  if (unmatched_ == 0 || unmatched_ >= kConfirm) return nullptr;
  const auto left = static_cast<uint64_t>(stream_->end - cursor);
  const uint32_t* limit = cursor + (left < kLookAhead ? left : kLookAhead);
  for (uint64_t number = 1; number <= unmatched_; ++number) {
    cursor = stream_->NextAllocation(cursor, limit);
    if (cursor == nullptr) return nullptr;
    if (stream_->KeyAt(cursor).site != history_[number % kConfirm].site) return nullptr;
    cursor += stream_->Decode(cursor).length;
  }
  return cursor;
}

bool Resync::MissesTooMuch(const uint32_t* cursor, uint64_t cost) {
  const uint64_t passed = passed_before_ + static_cast<uint64_t>(cursor - missed_at_);
  passed_before_ = 0;
  missed_at_ = cursor;
  if (passed > kAWhile) Earn(passed);
  balance_ -= static_cast<int64_t>(cost);
  spent_ += cost;
  return balance_ < -most_debt_;
}

const uint32_t* Resync::Miss(const uint32_t* cursor, const Request& request,
                             const LoopPlaces& loop) {
  history_[++unmatched_ % kConfirm] = request;
  if (unmatched_ < next_look_ || cursor == stream_->end) return nullptr;
  next_look_ = unmatched_ + (unmatched_ < 64 ? 1 : 16);
  const uint64_t window = Window();
  const auto limit = [&](const uint32_t* from, const uint32_t* end) {
    return static_cast<uint64_t>(end - from) < window ? end : from + window;
  };
  const uint32_t* found = FindAgain(cursor, limit(cursor, stream_->end));
  if (found != nullptr || loop.first == nullptr) return found;
  found = FindAgain(loop.first, limit(loop.first, cursor));
  return found != nullptr ? found : FindAgain(loop.behind, limit(loop.behind, stream_->end));
}

// How many words to look at.
uint64_t Resync::Window() const {
  uint64_t window = kLookAhead;
  if (unmatched_ >= 64 && (unmatched_ & (unmatched_ - 1)) == 0) window = unmatched_ * 64;
  return window < kMostLookAhead ? window : kMostLookAhead;
}

const uint32_t* Resync::FindAgain(const uint32_t* from, const uint32_t* limit) const {
  const auto request = [this](uint64_t age) -> const Request& {
    return history_[(unmatched_ - age) % kConfirm];
  };
  for (const uint32_t* start = stream_->NextAllocation(from, limit); start != nullptr;) {
    const uint32_t* at = start;
    if (stream_->Matches(start, request(kConfirm - 1))) {
      uint64_t age = kConfirm - 1;
      while (age > 0) {
        at = stream_->NextAllocation(at + stream_->Decode(at).length, limit);
        if (at == nullptr) return nullptr;
        if (!stream_->Matches(at, request(age - 1))) break;
        --age;
      }
      if (age == 0) return at;
    }
    start = stream_->NextAllocation(start + stream_->Decode(start).length, limit);
  }
  return nullptr;
}

}  // namespace reprise::replay
