// How a lane follows the loops of its stream.
#include "replay/arena/lane.h"

namespace reprise::replay {

// Between two periods: goes on with the body or behind the loop, where it `expects` what comes.
template <typename Expects>
bool Lane::FollowLoop(const PlanLoop& loop, Expects expects) {
  const bool ended = cursor_ == stream_.EndOf(loop);
  if (expects(ended ? stream_.FirstOf(loop) : cursor_)) {
    if (ended) GoBack(loop);
  } else if (expects(stream_.EndOf(loop) + 1)) {
    LeaveLoop(loop);
  } else {
    return false;
  }
  Settle();
  return true;
}

void Lane::FollowLoop(const Request& request) {
  constexpr uint64_t kLookAhead = 256;
  const PlanLoop* loop = stream_.LoopBetweenPeriods(cursor_);
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
  const PlanLoop* loop = stream_.LoopAt(cursor_);
  return loop != nullptr && at < stream_.EndOf(*loop) && IsSameCall(at, request);
}

void Lane::SettleBefore(const void* pointer) {
  Settle();
  const PlanLoop* loop = stream_.LoopBetweenPeriods(cursor_);
  if (loop == nullptr) return;
  const uint64_t granule = GranuleOf(pointer);
  FollowLoop(*loop, [&](const uint32_t* from) { return *NextEvent(from) == (granule | kFreeBit); });
}

// Whether only frees are left of the body, and then the request is its first allocation again.
bool Lane::IsNextInBody(const PlanLoop& loop, const Request& request) {
  const uint32_t* next = NextAllocation();
  if (next != nullptr && next < stream_.EndOf(loop)) return false;
  next = stream_.NextAllocation(stream_.FirstOf(loop), stream_.EndOf(loop));
  return next != nullptr && stream_.Matches(next, request);
}

}  // namespace reprise::replay
