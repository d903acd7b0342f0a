#include "replay/arena/lane.h"

namespace reprise::replay {

void Lane::Start(const LaneSurroundings& around, const PlanLane* lane, char* box,
                 LaneCounters* counters, LaneNotes notes) {
  StartBox(around, *lane, box);
  StartStream(counters, notes, around.plan->lanes.count == 1);
  wants_to_leave_ = false;
}

// Places the allocation that the cursor stands at, unless a block lives there.
Lane::Placed Lane::Place(const Word& word) {
  const uint32_t* at = cursor_;
  const uint64_t size = stream_.keys.Size(word.key);
  const uint64_t first = box_granule_ + word.granule;
  const uint64_t granules = (size + 1) / 2;
  if (mapped_ != 0 && map_.HasAny(first, first + granules)) {
    // Perhaps another thread has freed what is in the way.
    if (remote_.Any()) TakeInRemoteFrees(remote_.TakeAll());
    if (map_.HasAny(first, first + granules)) {
      cursor_ = at + word.length;
      return PlaceElsewhere(at, word);
    }
  }
  if (mapped_ != 0) map_.Add(first, granules, size % 2 == 0);
  cursor_ = at + word.length;
  resync_.Found();
  Publish();
  return {At(word.granule), 0};
}

// A place is taken. The block elsewhere is as long as planned: a program that asks how long it is
// goes another way when it is shorter.
Lane::Placed Lane::PlaceElsewhere(const uint32_t* at, const Word& word) {
  resync_.Found();
  const uint64_t bytes = stream_.keys.Size(word.key) * (kGranule / 2);
  const LiveKey key = stream_.KeyAt(at);
  ++counters_->blocked;
  CountSkipped(at, word.granule);
  // Of many one stands for those before it: what is in the way is looked for.
  constexpr uint64_t kAllNamed = 1 << 12;
  constexpr uint32_t kNamed = 16;
  const uint32_t times = counters_->blocked <= kAllNamed    ? 1
                         : counters_->blocked % kNamed == 0 ? kNamed
                                                            : 0;
  if (times != 0) {
    const uint64_t end = word.granule + (bytes + kGranule - 1) / kGranule;
    const uint64_t taken = map_.NextIn(box_granule_ + word.granule, box_granule_ + end);
    notes_.Blocked(key.shape, key.site, BlockBegin(taken - box_granule_), times);
  }
  // What the thread keeps longer itself is no reason to leave the plan; what it waits for is.
  if (overdue_remotely_ > 0 && resync_.MissesTooMuch(at, Resync::kMiss)) wants_to_leave_ = true;
  return {nullptr, bytes};
}

Lane::Placed Lane::Allocate(uint64_t shape, uint64_t site) {
  const Request request = {shape, site};
  Settle();
  FollowLoop(request);
  resync_.ComeTo(cursor_);
  const Word expected = stream_.Decode(cursor_);
  if (expected.kind == Word::kAllocation) {
    if (stream_.Matches(cursor_, request)) return Place(expected);
    if (stream_.KeyAt(cursor_).site == site && resync_.MayReplace(cursor_, request)) {
      return PlaceInstead(expected, request);
    }
  }
  if (const uint32_t* next = NextAllocation()) {
    const LiveKey key = stream_.KeyAt(next);
    const bool learned = key.site == 0 && key.shape == shape && stream_.keys.learn(site);
    if (learned ? stream_.Matches(next, request)
                : key.shape == shape && (key.site == site || IsSameCallInLoop(next, request))) {
      PassUntil(next);
      return Place(stream_.Decode(next));
    }
  }
  LoopPlaces places;
  if (const PlanLoop* loop = stream_.LoopAt(cursor_)) {
    places = {stream_.FirstOf(*loop), stream_.EndOf(*loop) + 1};
    if (IsNextInBody(*loop, request)) {
      PassUntil(stream_.EndOf(*loop));
      GoBack(*loop);
      PassUntil(NextAllocation());
      return Place(stream_.Decode(cursor_));
    }
  }
  NoteDivergence(request);
  if (const uint32_t* behind = resync_.BehindTheSameSites(cursor_)) {
    const uint32_t* here = stream_.NextAllocation(behind, stream_.end);
    if (here != nullptr && stream_.Matches(here, request)) {
      resync_.Forgive();
      PassUntil(here);
      return Place(stream_.Decode(here));
    }
  }
  const uint64_t bytes = ShapeUnits(shape) * 8;
  if (resync_.MissesTooMuch(cursor_, Resync::kMiss)) {
    ++counters_->unmatched;
    wants_to_leave_ = true;
    return {nullptr, bytes};
  }
  if (const uint32_t* found = resync_.Miss(cursor_, request, places)) {
    GoTo(found);
    return Place(stream_.Decode(found));
  }
  ++counters_->unmatched;
  notes_.Unexpected(shape, site);
  return {nullptr, bytes};
}

// Places a request that differs in its length from the expected one, whose turn it takes: where
// that one was to lie, if it is long enough.
Lane::Placed Lane::PlaceInstead(const Word& expected, const Request& request) {
  NoteDivergence(request);
  ++counters_->unmatched;
  const uint64_t bytes = ShapeUnits(request.shape) * 8;
  if (resync_.MissesTooMuch(cursor_, Resync::kOtherLength)) {
    wants_to_leave_ = true;
    return {nullptr, bytes};
  }
  resync_.Replaced(cursor_ + expected.length);
  const LiveKey planned = stream_.KeyAt(cursor_);
  if (request.shape <= planned.shape && ShapeStep(request.shape) == ShapeStep(planned.shape)) {
    resync_.Skipped({planned.shape, planned.site});
    return Place(expected);
  }
  notes_.Unexpected(request.shape, request.site);
  Pass(expected);
  Publish();
  return {nullptr, bytes};
}

bool Lane::Free(void* pointer) {
  if (FreeExpected(pointer)) return true;
  SettleBefore(pointer);
  if (FreeExpected(pointer)) return true;
  const uint64_t granule = GranuleOf(pointer);
  if (granule >= box_granules_) return false;
  BecomeMapped();
  if (LiveAt(granule).granules == 0) return false;
  // A free tells better than a length where in the stream the program is.
  const uint32_t* behind = resync_.BehindTheSameSites(cursor_);
  if (behind != nullptr && *behind == (granule | kFreeBit)) {
    resync_.Forgive();
    PassUntil(behind);
    resync_.Found();
  }
  NoteFreed(granule);
  RemoveLive(granule);
  PassFreed();
  return true;
}

void* Lane::ReallocateExpected(const void* pointer, uint64_t size, uint64_t site, bool may_move) {
  const uint32_t* at = cursor_;
  if (FreedBy(at[0]) != reinterpret_cast<uint64_t>(pointer)) return nullptr;
  const uint32_t* next = at[1] == kUsed ? at + 3 : at + 1;
  const Word word = stream_.Decode(next);
  if (word.kind != Word::kAllocation) return nullptr;
  if (!stream_.Matches(next, {PlainShape(size), site})) return nullptr;
  const uint64_t old = at[0] & ~kFreeBit;
  if (word.granule != old && !may_move) return nullptr;
  if (mapped_ != 0) {
    const MappedBlock block = LiveAt(old);
    const uint64_t planned = stream_.keys.Size(word.key);
    const uint64_t first = box_granule_ + word.granule;
    if (block.granules == 0) return nullptr;
    map_.Remove(box_granule_ + old, block.granules);
    if (map_.HasAny(first, first + (planned + 1) / 2)) {
      map_.Add(box_granule_ + old, block.granules, block.marked);
      return nullptr;
    }
    map_.Add(first, (planned + 1) / 2, planned % 2 == 0);
  }
  if (at[1] == kUsed) CountPages(at[2]);
  cursor_ = next + word.length;
  return At(word.granule);
}

bool Lane::FreeRemotely(void* pointer) {
  if (reinterpret_cast<uint64_t>(pointer) % kGranule != 0) return false;
  if (remote_.Push(pointer)) return true;
  const HeapLock lock(*around_.heap);
  return FreeInBox(GranuleOf(pointer));
}

void Lane::LeavePlan() {
  if (off_plan_) return;
  BecomeMapped();
  TakeInRemoteFrees(remote_.TakeAll());
  Publish();
  counters_->off_plan_at = 1 + Here();
  DropWords(stream_.end);
  const HeapLock lock(*around_.heap);
  Donate();
  cursor_ = stream_.end;
  off_plan_ = true;
  wants_to_leave_ = false;
  // Who finds the list closed has the lock of the heap next.
  for (void* block = remote_.Close(); block != nullptr;) {
    const uint64_t granule = GranuleOf(block);
    void* next = granule < box_granules_ && LiveAt(granule).granules != 0 ? RemoteFrees::Next(block)
                                                                          : nullptr;
    if (!FreeInBox(granule)) CountInvalidFree();
    block = next;
  }
}

void Lane::NoteDivergence(const Request& request) {
  if (counters_->diverged_at != 0) return;
  counters_->diverged_at = 1 + Here();
  counters_->seen_shape = request.shape;
  counters_->seen_site = request.site;
  const uint32_t* next = NextAllocation();
  if (next == nullptr) return;
  const LiveKey key = stream_.KeyAt(next);
  counters_->expected_shape = key.shape;
  counters_->expected_site = key.site;
}

}  // namespace reprise::replay
