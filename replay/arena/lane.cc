#include "replay/arena/lane.h"

#include <string.h>

#include "base/give_back.h"
#include "base/page.h"
#include "replay/arena/drop_behind.h"

namespace reprise::replay {
namespace {

// The memory that a lane's samples take, in whole cache lines.
uint64_t SampleBytes(const PlanLane& lane) {
  return (Samples(lane) * sizeof(PlanSample) + 63) & ~uint64_t{63};
}

}  // namespace

uint64_t Lane::StateBytes(const PlanHeader& plan, const PlanLane& lane) {
  return LongGaps::MemoryFor() +
         GranuleSet::MemoryFor((lane.box_bytes + AnnexBytes(plan, lane)) / kGranule) +
         GranuleSet::MemoryFor(lane.box_bytes / kGranule / kNear) +
         GranuleSet::MemoryFor((lane.box_bytes + AnnexBytes(plan, lane)) / kBoxAlignment) +
         BlockSet::MemoryFor((lane.box_bytes + AnnexBytes(plan, lane)) / kGranule) +
         BlockSet::MemoryFor(lane.box_bytes / kGranule) +
         KeptPlaces::MemoryFor((lane.box_bytes + AnnexBytes(plan, lane)) / kGranule) +
         SlotIndex::MemoryFor(lane.rings) +
         BlockNotes::MemoryFor(lane.box_bytes / kGranule, plan.keys.count) + SampleBytes(lane);
}

void Lane::Start(const PlanHeader* plan, const PlanLane* lane, const LiveKeys& keys,
                 const Room& room, void* lane_state, LaneCounters* counters, LaneNotes notes) {
  plan_ = plan;
  lane_ = lane;
  const char* file = reinterpret_cast<const char*>(plan);
  cursor_ = first_word_ =
      reinterpret_cast<const uint32_t*>(file + plan->words.offset) + lane->first_word;
  end_word_ = first_word_ + lane->words - 1;
  placements_ =
      reinterpret_cast<const PlanBlock*>(file + plan->placements.offset) + lane->first_placement;
  rings_ = reinterpret_cast<const PlanRing*>(file + plan->rings.offset) + lane->first_ring;
  all_slots_ = reinterpret_cast<const uint32_t*>(file + plan->slots.offset);
  live_keys_ = keys;
  keys_ = keys.keys;
  key_granules_ = keys.granules;
  box_ = box_here_ = room.box;
  freed_base_ = room.crowded ? kNowhere : reinterpret_cast<uint64_t>(box_) + kFreedBase;
  annex_ = room.annex != nullptr ? room.annex : room.box + lane->box_bytes;
  annex_granules_ = room.annex_bytes / kGranule;
  releases_ = room.releases;
  dear_pages_ = room.dear_pages;
  keeps_pages_ = false;
  box_bytes_ = lane->box_bytes;
  box_granules_ = box_bytes_ / kGranule;
  open_granules_ = box_granules_ - lane->reserved;
  to_annex_ = static_cast<uint64_t>(annex_ - box_) - box_bytes_;
  to_all_ = Granules() - open_granules_;
  counters_ = counters;
  counters_->first_word = counters_->passed = reinterpret_cast<uint64_t>(first_word_);
  counters_->box = reinterpret_cast<uint64_t>(box_);
  notes_ = notes;
  offset_bits_ = lane->offset_bits;
  offset_mask_ = (uint32_t{1} << lane->offset_bits) - 1;
  late_count_ = late_changes_ = noting_ = 0;
  SetEarlyCount(0);
  fetched_ = lane->fetched;
  calm_ = fetched_ != 0 ? 1 : 0;
  SetCare(calm_);
  const uint64_t granules = (box_bytes_ + AnnexBytes(*plan, *lane)) / kGranule;
  const auto* samples = reinterpret_cast<const PlanSample*>(file + plan->samples.offset) +
                        (lane->first_placement + kSampled - 1) / kSampled;
  memcpy(lane_state, samples, Samples(*lane) * sizeof(PlanSample));
  DropAround(samples, samples + Samples(*lane), samples);
  samples_ = static_cast<const PlanSample*>(lane_state);
  char* memory = static_cast<char*>(lane_state) + SampleBytes(*lane);
  late_.Attach(memory);
  memory += BlockSet::MemoryFor(granules);
  planned_memory_ = memory;
  memory += BlockSet::MemoryFor(box_granules_);
  early_.Attach(memory);
  memory += GranuleSet::MemoryFor(granules);
  late_near_.Attach(memory);
  memory += GranuleSet::MemoryFor(box_granules_ / kNear);
  given_.Attach(memory);
  slot_memory_ = memory + GranuleSet::MemoryFor(granules / kPageGranules);
  held_ = room.held;
  answered_ = held_->Asks();
  taken_ = most_taken_ = 0;
  given_pages_ = 0;
  until_idle_ = kLookForIdle;
  running_free_ = false;
  effort_ = kFirstEffort;
  earned_ = 0;
  window_ = spent_ = failed_ = misses_ = 0;
  rest_ = rests_ = 0;
  missed_at_ = first_word_;
  missed_ = awaited_ = awaited_bytes_ = 0;
  look_ = kLeastLook;
  LookIn(look_);
  gap_search_ = annex_search_ = 0;
  annex_lacks_ = UINT64_MAX;
  long_gaps_.Attach(slot_memory_, &late_);
  char* kept = static_cast<char*>(slot_memory_) + LongGaps::MemoryFor();
  kept_.Attach(kept, granules);
  last_.Clear();
  slot_memory_ = kept + KeptPlaces::MemoryFor(granules);
  notes_of_blocks_.Attach(static_cast<char*>(slot_memory_) + SlotIndex::MemoryFor(lane->rings),
                          plan->keys.count);
  asked_ = far_frees_ = 0;
  turns_ = 0;
  looked_at_ = kNoSample;
  FoundAgain();
  behind_replaced_ = nullptr;
  rare_until_ = nullptr;
  for (Request& request : skipped_) request = {};
  skips_ = 0;
  remote_ = nullptr;
  for (void*& recent : recent_) recent = nullptr;
  recents_ = 0;
}

void Lane::AddEarly(uint64_t granule) {
  early_.Add(granule);
  SetEarlyCount(early_count_ + 1);
}

// A block that is planned to live is freed.
void Lane::FreeEarly(uint64_t granule) {
  if (noting_ != 0) notes_of_blocks_.Forget(granule);
  AddEarly(granule);
}

bool Lane::RemoveEarly(uint64_t granule) {
  if (!IsEarly(granule)) return false;
  early_.Remove(granule);
  SetEarlyCount(early_count_ - 1);
  return true;
}

// Other threads that ask for the size of a neighbouring block look again (UsableRemotely).
void Lane::AddLate(uint64_t granule, uint64_t granules) {
  BeginLateChange();
  late_.Add(granule, granules);
  ++late_count_;
  Taken(granules);
  if (granule < box_granules_) {
    SetCare(care_ + 1);
    NoteNear(granule, granules);
  }
  EndLateChange();
  if (given_pages_ != 0) TakeAgain(granule, granules);
}

// Of a block that has become late or is so no longer. Where the lane runs free nobody asks.
void Lane::NoteNear(uint64_t granule, uint64_t granules) {
  if (running_free_) return;
  constexpr uint64_t kBefore = BlockSet::kFew - 1;  // a short block reaches so far
  const uint64_t first = (granule > kBefore ? granule - kBefore : 0) / kNear;
  for (uint64_t at = first; at * kNear < granule + granules; ++at) {
    const bool any = late_.HasAny(at * kNear, (at + 1) * kNear + kBefore);
    if (any) {
      late_near_.Add(at);
    } else {
      late_near_.Remove(at);
    }
  }
}

void Lane::RemoveLate(uint64_t granule, uint64_t granules) {
  if (!running_free_) NoteFreed(granule);
  BeginLateChange();
  late_.Remove(granule, granules);
  --late_count_;
  taken_ -= granules;
  if (granule < box_granules_) {
    SetCare(care_ - 1);
    NoteNear(granule, granules);
  } else {
    annex_lacks_ = UINT64_MAX;
  }
  EndLateChange();
}

void Lane::BeginLateChange() {
  __atomic_store_n(&late_changes_, late_changes_ + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

void Lane::EndLateChange() {
  __atomic_store_n(&late_changes_, late_changes_ + 1, __ATOMIC_RELEASE);
}

void Lane::PassTurn() {
  Publish();
  // The words behind are not read again. A long stream takes several turns at once, and so does one
  // to whose box they are little, because the system asks a few microseconds each time, a hundred
  // where other threads run on a virtual machine. What a look at the placements has brought is kept
  // for some turns, since the next look is often close.
  constexpr uint32_t kTurnsKept = 16;
  constexpr uint64_t kBoxShare = 20;
  constexpr uint64_t kMostTurns = 16;
  constexpr uint64_t kPage = base::kPageBytes;
  constexpr uint64_t kHugeWords = kPlanHugePiece / sizeof(uint32_t);
  const uint64_t piece = lane_->words < kManyWords ? kPage : kPlanHugePiece;
  uint64_t at_once = box_bytes_ / kBoxShare / (kTurnWords * sizeof(uint32_t));
  if (at_once < 1 + (lane_->words >> 22)) at_once = 1 + (lane_->words >> 22);
  if (at_once > kMostTurns) at_once = kMostTurns;
  if (lane_->words >= kManyWords) at_once = kHugeWords / kTurnWords;
  if (turns_ % kTurnsKept == 0 && LookedAt() != kNoSample) LookElsewhere(kNoSample);
  if (turns_++ % at_once == 0) {
    const uint64_t here = reinterpret_cast<uint64_t>(cursor_.Seen()) & ~(piece - 1);
    const uint64_t first = (reinterpret_cast<uint64_t>(first_word_) + kPage - 1) & ~(kPage - 1);
    if (here > first) GiveBack(reinterpret_cast<const void*>(first), here - first);
  }
  ++cursor_;
}

// Gives pages back in which no block is planned for long, if none is late there.
void Lane::Release(const Word& idle) {
  const uint64_t begin = idle.granule * kPageGranules;
  const uint64_t end = begin + idle.key * kPageGranules;
  if (!releases_ || keeps_pages_ || (care_ != calm_ && late_.HasAny(begin, end))) return;
  GiveBack(box_ + begin * kGranule, (end - begin) * kGranule);
}

// Passes a step of the stream that the program did not take.
void Lane::Pass(const Word& word) {
  switch (word.kind) {
    case Word::kAllocation:
      AddEarly(word.granule);
      CountSkipped(cursor_, word.granule);
      RememberSkipped(cursor_);
      break;
    case Word::kFree:
    case Word::kDrained:
      if (!RemoveEarly(word.granule)) {
        const bool told = word.kind == Word::kDrained && word.key != 0;
        AddLate(word.granule, told ? word.key : PlannedGranules(word.granule));
        notes_.BecameLate(word.granule, static_cast<uint64_t>(cursor_ - first_word_), word.granule);
        awaited_ += word.kind == Word::kDrained ? 1 : 0;
      }
      return PassFree(word.granule, cursor_ + word.length);
    case Word::kTurned:
      PassTurn();
      return;
    case Word::kIdling:
      Release(word);
      break;
    case Word::kEnded:
      return;
  }
  cursor_ += word.length;
}

void Lane::PassUntil(const uint32_t* target) {
  while (cursor_ < target) Pass(Decode(cursor_));
  Publish();
}

// Passes what the cursor need not wait at: planned frees of blocks that are not live, turns, and
// frees by other threads, which may come at any time.
void Lane::Settle() {
  for (;;) {
    const Word word = Decode(cursor_);
    if (word.kind == Word::kFree) {
      if (!RemoveEarly(word.granule)) return;
      PassFree(word.granule, cursor_ + 1);
    } else if (word.kind == Word::kDrained) {
      const uint32_t* before = cursor_;
      if (__atomic_load_n(&remote_, __ATOMIC_RELAXED) != nullptr) Drain();
      if (cursor_ == before) Pass(word);
    } else if (word.kind == Word::kTurned || word.kind == Word::kIdling) {
      Pass(word);
    } else {
      return;
    }
  }
}

const uint32_t* Lane::NextAllocation(const uint32_t* from, const uint32_t* limit) const {
  while (from < limit) {
    const Word word = Decode(from);
    if (word.kind == Word::kAllocation) return from;
    if (word.kind == Word::kEnded) return nullptr;
    from += word.length;
  }
  return nullptr;
}

LiveKey Lane::KeyAt(const uint32_t* allocation) const {
  return live_keys_.At(allocation, offset_bits_);
}

bool Lane::Matches(const uint32_t* allocation, const Request& request) const {
  const LiveKey key = KeyAt(allocation);
  return key.shape == request.shape && key.site == request.site;
}

// Behind the next `count` allocations of the stream, if they are what the program asked for the
// last `count` times but for the lengths; null if they are not.
const uint32_t* Lane::BehindTheSameSites(uint64_t count) const {
  const uint64_t left = static_cast<uint64_t>(end_word_ - cursor_);
  const uint32_t* limit = cursor_ + (left < kLookAhead ? left : kLookAhead);
  const uint32_t* at = cursor_;
  for (uint64_t number = 1; number <= count; ++number) {
    at = NextAllocation(at, limit);
    if (at == nullptr) return nullptr;
    if (KeyAt(at).site != history_[number % kConfirm].site) return nullptr;
    at += Decode(at).length;
  }
  return at;
}

// The program's unmatched requests took the place of as many planned ones. That is not much of a
// miss, unless one of them was planned a little earlier: then this is another order.
void Lane::Replaced(const uint32_t* behind) {
  if (!reordered_) {
    const uint64_t refund = unmatched_ * (kMiss - 1);
    missed_ -= missed_ < refund ? missed_ : refund;
  }
  PassUntil(behind);
  FoundAgain();
}

bool Lane::WasSkipped(const Request& request) const {
  for (const Request& skipped : skipped_) {
    if (skipped.shape == request.shape && skipped.site == request.site) return true;
  }
  return false;
}

// Where the latest requests, which the stream did not expect, stand in a row further on; the last
// of them. Null: nowhere near.
const uint32_t* Lane::FindAgain() const {
  uint64_t window = kLookAhead;
  if (unmatched_ >= 64 && (unmatched_ & (unmatched_ - 1)) == 0) window = unmatched_ * 64;
  if (window > kMostLookAhead) window = kMostLookAhead;
  const uint64_t left = end_word_ - cursor_;
  const uint32_t* limit = cursor_ + (window < left ? window : left);
  const auto request = [this](uint64_t age) -> const Request& {
    return history_[(unmatched_ - age) % kConfirm];
  };
  for (const uint32_t* start = NextAllocation(cursor_, limit); start != nullptr;) {
    const uint32_t* at = start;
    if (Matches(start, request(kConfirm - 1))) {
      uint64_t age = kConfirm - 1;
      while (age > 0) {
        at = NextAllocation(at + Decode(at).length, limit);
        if (at == nullptr) return nullptr;
        if (!Matches(at, request(age - 1))) break;
        --age;
      }
      if (age == 0) return at;
    }
    start = NextAllocation(start + Decode(start).length, limit);
  }
  return nullptr;
}

// The keys that have no code are the rare ones: of a recording with many of them each look at one
// would be a miss of all caches. One of their allocations is seldom the only one.
void Lane::FetchRareKeys() {
  const uint32_t far = (kFreeBit - 1) >> offset_bits_ << offset_bits_;
  const uint32_t* at = rare_until_ > cursor_.Seen() ? rare_until_ : cursor_.Seen();
  const int64_t left = end_word_ - cursor_;
  rare_until_ = cursor_ + (left < kRareAhead ? left : kRareAhead);
  for (; at < rare_until_; ++at) {
    // Which words are far is anybody's guess: no branch.
    const uint32_t key = at[1] & -static_cast<uint32_t>(*at == far);
    __builtin_prefetch(&keys_[key]);
    notes_of_blocks_.LookAhead(key);
  }
}

// Places the allocation that the cursor stands at, unless a late block lies there.
void* Lane::Place(const Word& word) {
  const uint32_t* at = cursor_;
  const auto birth = static_cast<uint32_t>(cursor_ - first_word_);
  cursor_ += word.length;
  Publish();
  FoundAgain();
  if (word.length > 1) FetchRareKeys();
  if (care_ == calm_ || !IsTaken(word)) return PlaceThere(word);
  // Perhaps another thread has freed what is in the way. Until that is known the block is not live.
  AddEarly(word.granule);
  if (__atomic_load_n(&remote_, __ATOMIC_RELAXED) != nullptr) {
    Drain();
    if (!IsTaken(word) && RemoveEarly(word.granule)) return PlaceThere(word);
  }
  CountSkipped(at, word.granule);
  return PlaceElsewhere(word, birth);
}

void* Lane::Allocate(uint64_t shape, uint64_t site) {
  if (running_free_) return AllocateFreely(shape, site);
  const Request request = {shape, site};
  Settle();
  const Word expected = Decode(cursor_);
  if (expected.kind == Word::kAllocation) {
    if (Matches(cursor_, request)) return Place(expected);
    if (KeyAt(cursor_).site == site && unmatched_ == 0 && cursor_ != behind_replaced_ &&
        !WasSkipped(request)) {
      return PlaceInstead(expected, request);
    }
  }
  const uint64_t left = end_word_ - cursor_;
  // Behind a block that is kept, frees that came early stand in the way of the next allocation.
  const uint64_t ahead = kLookAhead + early_count_;
  const uint32_t* next = NextAllocation(cursor_, cursor_ + (left < ahead ? left : ahead));
  if (next != nullptr) {
    const LiveKey key = KeyAt(next);
    const bool learned = key.site == 0 && key.shape == shape && live_keys_.learn(site);
    if (learned ? Matches(next, request) : key.shape == shape && key.site == site) {
      PassUntil(next);
      return Place(Decode(next));
    }
  }
  NoteDivergence(shape, site);
  // Perhaps the ones before differed in length only.
  if (unmatched_ > 0 && unmatched_ < kConfirm) {
    const uint32_t* behind = BehindTheSameSites(unmatched_);
    const uint32_t* here = behind != nullptr ? NextAllocation(behind, end_word_) : nullptr;
    if (here != nullptr && Matches(here, request)) {
      Replaced(here);
      return Place(Decode(here));
    }
  }
  reordered_ = reordered_ || WasSkipped(request);
  if (MissesTooMuch(kMiss)) {
    RunFree();
    return AllocateFreely(shape, site);
  }
  ++counters_->unmatched;
  notes_.Unexpected(shape, site);
  history_[++unmatched_ % kConfirm] = request;
  if (unmatched_ < next_look_ || left == 0) return Improvise(shape);
  next_look_ = unmatched_ + (unmatched_ < 64 ? 1 : 16);
  const uint32_t* found = FindAgain();
  if (found == nullptr) return Improvise(shape);
  PassUntil(found);
  --counters_->unmatched;
  return Place(Decode(found));
}

// Places a request that differs in its length from the expected one, whose turn it takes: where
// that one was to lie, if it is long enough.
void* Lane::PlaceInstead(const Word& expected, const Request& request) {
  NoteDivergence(request.shape, request.site);
  if (MissesTooMuch(1)) {
    RunFree();
    return AllocateFreely(request.shape, request.site);
  }
  ++counters_->unmatched;
  behind_replaced_ = cursor_ + expected.length;
  const uint64_t planned = KeyAt(cursor_).shape;
  if (request.shape <= planned && ShapeStep(request.shape) == ShapeStep(planned)) {
    RememberSkipped(cursor_);
    return Place(expected);
  }
  notes_.Unexpected(request.shape, request.site);
  Pass(expected);
  Publish();
  return Improvise(request.shape);
}

// What the lane follows for a while makes up for what it missed.
bool Lane::MissesTooMuch(uint64_t words) {
  const auto passed = static_cast<uint64_t>(cursor_ - missed_at_);
  missed_at_ = cursor_;
  if (passed > kAWhile) missed_ -= missed_ < passed ? missed_ : passed;
  missed_ += words;
  return missed_ > kMostMissed;
}

bool Lane::FreeInAnnex(void* pointer) {
  if (!IsAGranule(pointer) || !FreeLate(GranuleOf(pointer))) {
    CountInvalidFree();
    return false;
  }
  // The block was here instead of one whose free the stream expects about now.
  while (*cursor_ - kFreeBit < kSpecial - kFreeBit && RemoveEarly(*cursor_ & ~kFreeBit)) {
    PassFree(*cursor_ & ~kFreeBit, cursor_ + 1);
  }
  return true;
}

bool Lane::FreeSlowly(uint64_t granule) {
  const bool freed =
      granule < box_granules_ && (running_free_ ? FreeLate(granule) : FreeBesideTheStream(granule));
  if (!freed) CountInvalidFree();
  return freed;
}

// Of a lane that runs free, or in the annex.
bool Lane::FreeLate(uint64_t granule) {
  const uint64_t granules = LateLength(granule);
  if (granules == 0) return false;
  FreePlace(granule, granules);
  return true;
}

bool Lane::FreeBesideTheStream(uint64_t granule) {
  if (*cursor_ != (granule | kFreeBit) || IsEarly(granule)) {
    Settle();
    // A free tells better than a length where in the stream the program is.
    if (unmatched_ > 0 && unmatched_ < kConfirm && !IsEarly(granule) && !IsLate(granule)) {
      const uint32_t* behind = BehindTheSameSites(unmatched_);
      if (behind != nullptr && *behind == (granule | kFreeBit)) Replaced(behind);
    }
    // A late block is looked for first: then what is planned live at its place is early.
    if (IsLate(granule)) {
      RemoveLate(granule, LateLength(granule));
      return true;
    }
  }
  if (IsEarly(granule)) return false;
  if (*cursor_ == (granule | kFreeBit)) {
    PassFree(granule, cursor_ + 1);
    return true;
  }
  if (IsDrain(*cursor_) && cursor_[1] == granule) {
    PassFree(granule, cursor_ + 2);
    return true;
  }
  if (!IsPlannedLive(granule)) return false;
  FreeEarly(granule);
  return true;
}

void* Lane::ReallocateExpected(const void* pointer, uint64_t size, uint64_t site, bool may_move) {
  const uint32_t* at = cursor_;
  if (FreedBy(at[0]) != reinterpret_cast<uint64_t>(pointer) || unmatched_ != 0) return nullptr;
  const Word word = Decode(at + 1);
  if (word.kind != Word::kAllocation) return nullptr;
  const LiveKey key = KeyAt(at + 1);
  if (key.shape != PlainShape(size) || key.site != site) return nullptr;
  const uint64_t old = at[0] & ~kFreeBit;
  if (IsEarly(old)) return nullptr;
  if (word.granule != old && !may_move) return nullptr;
  if (care_ != calm_ && IsTaken(word)) return nullptr;
  if (noting_ != 0) {
    notes_of_blocks_.Forget(old);
    notes_of_blocks_.Note(word.granule, word.key);
  }
  LookAhead();
  cursor_ = at + 1 + word.length;
  if (word.length > 1) FetchRareKeys();
  return box_ + word.granule * kGranule;
}

// What is early at this place may be another block by now: the cursor has moved on.
void Lane::Revive(void* pointer, uint64_t bytes) {
  const uint64_t granule = GranuleOf(pointer);
  const uint64_t granules = (bytes + kGranule - 1) / kGranule;
  if ((running_free_ || !Contains(pointer)) && late_.Has(granule)) {
    kept_.Remove(static_cast<uint32_t>(granule), granules);
    late_.Reuse(granule, granules);
  } else {
    AddLate(granule, granules);
  }
}

bool Lane::Empty() {
  Drain();
  const uint64_t late = late_count_ - kept_.Count() - (last_.IsFree() ? 1 : 0);
  if (running_free_) return late == 0;
  uint64_t live = 0;
  const uint64_t now = cursor_ - first_word_;
  for (uint64_t i = 0; i < lane_->placements; ++i) {
    live += placements_[i].birth < now && placements_[i].death >= now ? 1 : 0;
  }
  return live + late == early_count_;
}

}  // namespace reprise::replay
