#include "replay/arena/lane.h"

#include "base/give_back.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kPageGranules = kPage / kGranule;
}  // namespace

void Lane::Start(const LaneSurroundings& around, const PlanLane* lane, char* box,
                 LaneCounters* counters, LaneNotes notes) {
  const char* file = reinterpret_cast<const char*>(around.plan);
  const auto* words = reinterpret_cast<const uint32_t*>(file + around.plan->words.offset);
  around_ = around;
  lane_ = lane;
  loops_ = reinterpret_cast<const PlanLoop*>(file + around.plan->loops.offset) + lane->first_loop;
  stream_ = {words + lane->first_word, words + lane->first_word + lane->words - 1,
             lane->offset_bits, around.keys};
  cursor_ = walked_ = next_allocation_ = stream_.first;
  keys_ = around.keys.keys;
  key_sizes_ = around.keys.sizes;
  box_ = box;
  box_granules_ = lane->box_bytes / kGranule;
  box_granule_ = static_cast<uint64_t>(box - around.heap->AddressOf(0)) / kGranule;
  freed_base_ = around.crowded ? kNowhere : reinterpret_cast<uint64_t>(box) + kFreedBase;
  offset_bits_ = lane->offset_bits;
  offset_mask_ = (uint32_t{1} << lane->offset_bits) - 1;
  map_ = around.tables->blocks();
  SetMapped(false);
  counters_ = counters;
  counters_->first_word = counters_->passed = reinterpret_cast<uint64_t>(stream_.first);
  counters_->box = reinterpret_cast<uint64_t>(box);
  notes_ = notes;
  resync_.Start(&stream_, around.plan->lanes.count == 1);
  wants_to_leave_ = keeps_pages_ = false;
  off_plan_ = lane->box_bytes == 0;
}

// The map learns what the stream does up to `until`. What was walked over is not needed soon.
void Lane::Walk(const uint32_t* until) {
  constexpr uint64_t kPiece = 128 << 10;
  constexpr uint64_t kLeast = 64 << 10;
  const uint32_t* dropped = walked_;
  while (walked_ < until) {
    const Word word = stream_.Decode(walked_);
    if (word.kind == Word::kAllocation) {
      const uint64_t size = stream_.keys.Size(word.key);
      map_.Add(box_granule_ + word.granule, (size + 1) / 2, size % 2 == 0);
    } else if (word.kind == Word::kFree || word.kind == Word::kRemoteFree) {
      RemoveLive(word.granule);
    }
    walked_ += word.length;
    const uint64_t walked = static_cast<uint64_t>(walked_ - dropped) * sizeof(uint32_t);
    if (walked < (walked_ < until ? kPiece : kLeast)) continue;
    const uint64_t first = (reinterpret_cast<uint64_t>(dropped) + kPage - 1) & ~(kPage - 1);
    GiveBack(reinterpret_cast<const void*>(first),
             (reinterpret_cast<uint64_t>(walked_) & ~(kPage - 1)) - first);
    dropped = walked_;
  }
}

// From now on the map tells what lives. By the owner.
void Lane::BecomeMapped() {
  if (mapped_ != 0) return;
  walk_lock_.Lock();
  Walk(cursor_);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  SetMapped(true);
  walk_lock_.Unlock();
}

// Without the map, which somebody is changing: twice its usable bytes / 16.
uint64_t Lane::SizeByWalking(uint64_t granule) const {
  uint64_t size = 0;
  const uint32_t* const here = cursor_.Seen();
  for (const uint32_t* at = stream_.first; at < here;) {
    const Word word = stream_.Decode(at);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation && word.granule == granule) {
      size = stream_.keys.Size(word.key);
    }
    at += word.length;
  }
  return size;
}

uint64_t Lane::Usable(const void* pointer) {
  const uint64_t granule = GranuleOf(pointer);
  if (granule >= box_granules_) return 0;
  if (__atomic_load_n(&mapped_, __ATOMIC_ACQUIRE) == 0) {
    if (!walk_lock_.TryLock()) return SizeByWalking(granule) * kGranule / 2;
    if (__atomic_load_n(&mapped_, __ATOMIC_RELAXED) == 0) Walk(cursor_.Seen());
    walk_lock_.Unlock();
  }
  const MappedBlock block = LiveAt(granule);
  return block.granules == 0 ? 0 : block.granules * kGranule - (block.marked ? 0 : kGranule / 2);
}

// The words behind are not read again soon: they go in pieces of at least a twentieth of the box,
// since the system asks a few microseconds each time. A loop that is shorter than that stays.
void Lane::PassCheckpoint() {
  constexpr uint64_t kBoxShare = 20;
  constexpr uint64_t kMostAtOnce = 16;
  Publish();
  ++cursor_;
  const uint64_t share = box_granules_ * kGranule / kBoxShare / (kTurnWords * sizeof(uint32_t));
  const uint64_t at_once = share < kMostAtOnce ? share + 1 : kMostAtOnce;
  const PlanLoop* loop = LoopAt(cursor_);
  if (++checkpoints_ % at_once != 0) return;
  if (loop != nullptr && loop->words < at_once * kTurnWords) return;
  const uint64_t here = reinterpret_cast<uint64_t>(cursor_.Seen()) & ~(kPage - 1);
  const uint64_t first = (reinterpret_cast<uint64_t>(stream_.first) + kPage - 1) & ~(kPage - 1);
  if (here > first) GiveBack(reinterpret_cast<const void*>(first), here - first);
}

// Gives pages back in which no block is planned for long, if none lives there.
void Lane::ReleaseIdle(const Word& idle) const {
  const uint64_t begin = uint64_t{idle.granule} * kPageGranules;
  const uint64_t end = begin + uint64_t{idle.key} * kPageGranules;
  if (!around_.releases || keeps_pages_) return;
  if (mapped_ != 0 && map_.HasAny(box_granule_ + begin, box_granule_ + end)) return;
  GiveBack(At(begin), (end - begin) * kGranule);
}

// Passes a step of the stream that the program did not take.
void Lane::Pass(const Word& word) {
  switch (word.kind) {
    case Word::kAllocation: {
      BecomeMapped();
      ++counters_->skipped;
      counters_->skipped_hash += MixAddress(Here(), reinterpret_cast<uint64_t>(At(word.granule)));
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
      return LeaveLoop(*LoopAt(cursor_));
    case Word::kEnded:
      return;
  }
  cursor_ += word.length;
}

// The stream tells that no more pages of the box have been used than so many. What the program did
// not ask for did not use any.
void Lane::CountPages(uint64_t told) {
  uint64_t pages = told;
  if (mapped_ != 0) {
    const uint64_t first = box_granule_ / kPageGranules;
    const uint64_t resident =
        around_.heap->CountResident(first, first + box_granules_ / kPageGranules);
    const uint64_t more = resident + told - told_pages_;
    if (more < pages) pages = more;
  }
  told_pages_ = told;
  around_.held->Add(static_cast<int64_t>(pages) - static_cast<int64_t>(used_pages_));
  used_pages_ = pages;
}

void Lane::PassUntil(const uint32_t* target) {
  while (cursor_ < target) Pass(stream_.Decode(cursor_));
  Publish();
}

// Passes the planned frees of blocks that are not live.
void Lane::PassFreed() {
  if (mapped_ == 0) return;
  while (*cursor_ - kFreeBit < kSpecial - kFreeBit && LiveAt(*cursor_ & ~kFreeBit).granules == 0) {
    cursor_ = cursor_ + 1;
  }
}

// Passes what the cursor need not wait at: planned frees of blocks that are not live, what tells of
// pages, and frees by other threads, which may come at any time.
void Lane::Settle() {
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
  ++counters_->skipped;
  counters_->skipped_hash +=
      MixAddress(stream_.IndexOf(at), reinterpret_cast<uint64_t>(At(word.granule)));
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

// The block that a granule is in, by its beginning.
uint64_t Lane::BlockBegin(uint64_t granule) const {
  while (granule > 0 && LiveAt(granule).granules == 0) --granule;
  return granule;
}

// The next allocation word from the cursor on, and null behind the last.
const uint32_t* Lane::NextAllocation() {
  if (next_allocation_ == nullptr) return nullptr;
  if (next_allocation_ < cursor_ || stream_.Decode(next_allocation_).kind != Word::kAllocation) {
    next_allocation_ = stream_.NextAllocation(cursor_, stream_.end);
  }
  return next_allocation_;
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
  if (const PlanLoop* loop = LoopAt(cursor_)) {
    places = {LoopFirst(*loop), LoopEnd(*loop) + 1};
    if (IsNextInBody(*loop, request)) {
      PassUntil(LoopEnd(*loop));
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

// The blocks are other threads' to free; what is no live block is counted.
void Lane::TakeInRemoteFrees(void* first) {
  for (void* block = first; block != nullptr;) {
    const uint64_t granule = GranuleOf(block);
    const bool next_in_stream = *cursor_ == kDrain && cursor_[1] == granule;
    if (granule >= box_granules_) {  // what it leads to may be anything
      __atomic_fetch_add(&counters_->invalid_frees, 1, __ATOMIC_RELAXED);
      return;
    }
    if (!next_in_stream || mapped_ != 0) {
      BecomeMapped();
      if (LiveAt(granule).granules == 0) {
        __atomic_fetch_add(&counters_->invalid_frees, 1, __ATOMIC_RELAXED);
        return;
      }
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

void Lane::Revive(void* pointer, uint64_t bytes) {
  BecomeMapped();
  const uint64_t size = (bytes + 7) / 8;
  map_.Add(box_granule_ + GranuleOf(pointer), (size + 1) / 2, size % 2 == 0);
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

// A block is freed that may have been in the way.
void Lane::NoteFreed(uint64_t granule) {
  if (!notes_.AnyLate()) return;
  if (SquatterNote* note = notes_.LiveSquatter(granule)) notes_.Freed(note, Here());
}

}  // namespace reprise::replay
