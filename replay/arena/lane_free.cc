// The places of a lane that the stream does not tell: for single requests that it does not expect,
// and for all of them once the lane runs free.
#include "replay/arena/drop_behind.h"
#include "replay/arena/lane.h"

namespace reprise::replay {

// Places a request that has no place in the stream outside the box, where the plan has nothing.
void* Lane::Improvise(uint64_t shape) {
  if (IsLookDue()) LookIn(look_);  // not here
  if (void* again = AllocateKept(shape)) return again;
  Slot slot;
  if (effort_ < kMostEffort) effort_ += kEffort;
  if (!TakeFromAnnex(shape, &slot)) {
    // Perhaps kept places are in the way.
    if (kept_.Granules() == 0) return nullptr;
    ReleaseKept();
    if (!TakeFromAnnex(shape, &slot)) return nullptr;
  }
  ++counters_->improvised;
  return Occupy(shape, slot);
}

// The block of a request that got this place.
void* Lane::Occupy(uint64_t shape, const Slot& slot) {
  kept_.NoteLength(shape, slot.granules);
  AddLate(slot.granule, slot.granules);
  void* pointer = AddressOf(slot.granule);
  CountApart(pointer);
  return pointer;
}

// Leaves the stream for good: what is live becomes late, and the cursor stands at the end. What is
// planned live is told by the words so far: where a thread does something else from its beginning,
// they are few, and the placements many.
void Lane::RunFree() {
  Drain();
  Publish();
  BlockSet planned;
  planned.Attach(planned_memory_);
  const DropBehind drop(first_word_, lane_->words * sizeof(uint32_t));  // not followed any more
  const uint32_t* const here = cursor_;
  for (const uint32_t* at = first_word_; at < here;) {
    drop.At(at);
    const Word word = Decode(at);
    if (word.kind == Word::kAllocation) {
      planned.Add(word.granule, live_keys_.Granules(word.key));
    } else if (word.kind == Word::kFree || word.kind == Word::kDrained) {
      const uint64_t granules = planned.LengthAt(word.granule, box_granules_);
      if (granules != 0) planned.Remove(word.granule, granules);
    }
    at += word.length;
  }
  uint64_t granule = 0;
  while ((granule = planned.NextIn(granule, box_granules_)) < box_granules_) {
    const uint64_t granules = planned.LengthAt(granule, box_granules_);
    if (granules != 0 && !RemoveEarly(granule)) AddLate(granule, granules);
    granule += granules != 0 ? granules : 1;
  }
  DropPages(planned_memory_, BlockSet::MemoryFor(box_granules_));
  DropPages(early_.memory(), GranuleSet::MemoryFor(box_granules_));  // none is left
  LookElsewhere(kNoSample);
  notes_.RunsFree(static_cast<uint64_t>(cursor_ - first_word_));
  StartSlots();
  running_free_ = true;
  NoteLongGaps();
  const bool noted = noting_ != 0;
  SetCare(care_ - calm_);
  calm_ = 0;
  SetNoting(false);  // before they go: a signal handler may ask
  if (noted) notes_of_blocks_.Clear(box_granules_);
  cursor_ = end_word_;
}

void Lane::StartSlots() {
  slots_.Start(rings_, lane_->rings, all_slots_, live_keys_, slot_memory_);
}

// A window of requests has passed, or enough of them have failed. A plan that fits the run badly is
// left alone for a while, four times as long each time, and then gets a shorter window.
void Lane::Judge() {
  const uint32_t window = rests_ == 0 ? kWindow : kWindow / kLessAgain;
  const bool bad = spent_ > window / 16 || failed_ > window / 2;
  if (!bad && ++window_ < window) return;
  if (bad) {
    rest_ = uint64_t{kWindow} << 2 * rests_;
    rests_ += rests_ < kMostRests ? 1 : 0;
  }
  window_ = spent_ = failed_ = 0;
}

// Adds to the budget the shares of this request and of those since the last one that came here:
// they found what was kept. False when there is none left.
bool Lane::Earn() {
  Judge();
  const uint64_t others = counters_->Apart() - earned_;
  earned_ = counters_->Apart();
  effort_ +=
      kEffort + kEffortOfKept * static_cast<int32_t>(others < kMostAtOnce ? others : kMostAtOnce);
  if (effort_ > kMostEffort) effort_ = kMostEffort;
  if (effort_ <= 0) ++spent_;
  if (IsToGiveBack()) LookForIdle();
  --until_idle_;
  return effort_ > 0;
}

void* Lane::AllocateFreely(uint64_t shape, uint64_t site) {
  if (__atomic_load_n(&remote_, __ATOMIC_RELAXED) != nullptr) Drain();
  if (rest_ == 0 && CanBeKept(shape)) {
    if (void* again = AllocateKept(shape)) return again;
  }
  if (Rests()) return nullptr;
  if (!Earn()) return PlaceUnlooked(shape);
  return IsLong(shape) ? PlaceLong(shape) : PlaceShort({shape, site});
}

// No budget is left for looking. Memory that was not used yet is no more than what the fallback
// would take.
void* Lane::PlaceUnlooked(uint64_t shape) {
  Slot slot;
  if (!TakeFresh(shape, &slot)) {
    ++counters_->unmatched;
    return nullptr;
  }
  ++counters_->improvised;
  return Occupy(shape, slot);
}

// No place of the plan: long blocks that come in another order leave too little of each other's.
void* Lane::PlaceLong(uint64_t shape) {
  if (IsLookDue()) {  // it waits for a shorter block
    LookIn(1);
    void* again = AllocateKept(shape);
    LookIn(0);
    if (again != nullptr) return again;
  }
  Slot slot;
  if (!TakeFromAnnex(shape, &slot)) {
    ++failed_;
    ++counters_->unmatched;
    return nullptr;
  }
  ++counters_->improvised;
  return Occupy(shape, slot);
}

void* Lane::PlaceShort(const Request& request) {
  const uint64_t shape = request.shape;
  Slot slot;
  const PlanRing* ring = slots_.Find(shape, request.site);
  if (ring == nullptr && live_keys_.learn(request.site)) {
    StartSlots();
    ring = slots_.Find(shape, request.site);
  }
  bool planned;
  bool found = TakeFromBox(ring, request, &slot, &planned);
  look_ = found ? kLeastLook : look_ < kMostLook ? 2 * look_ : look_;
  LookIn(look_);
  if (!found) {
    if (void* again = AllocateKept(shape)) return again;
    found = IsSmall() && TakeFromAnnex(shape, &slot);
  }
  if (!found && kept_.Granules() > open_granules_ / kKeptShare) {
    ReleaseKept();
    if (ring != nullptr) slots_.LookAgain(ring);
    planned = ring != nullptr && TakeFromRing(ring, &slot);
    found = planned || TakeGap(shape, &slot);
  }
  if (!found && !TakeFromAnnex(shape, &slot)) {
    ++failed_;
    ++(ring != nullptr ? counters_->blocked : counters_->unmatched);
    return nullptr;
  }
  void* pointer = Occupy(shape, slot);
  if (planned) {
    KeepMore(ring, shape, slot.granules);
  } else {
    ++counters_->improvised;
    Carve(shape, slot);
  }
  return pointer;
}

// Keeps the next places of a ring that are free: where one is asked for, more will be.
void Lane::KeepMore(const PlanRing* ring, uint64_t shape, uint64_t granules) {
  if (granules > kMostCarved || ShapeLog2Alignment(shape) > 4) return;
  for (uint64_t tries = 1; tries < KeptPlaces::kFirstBatch && slots_.HasNext(ring); ++tries) {
    const uint64_t granule = slots_.Next(ring);
    if (granule + granules > open_granules_ || late_.HasAny(granule, granule + granules)) {
      continue;
    }
    if (KeepFree(granule, granules, 1) == 0) return;
  }
}

// Keeps what is free behind an improvised place as places of its length: where one is asked for,
// more will be. They count as improvised whether they are used or not.
void Lane::Carve(uint64_t shape, const Slot& slot) {
  const uint64_t granules = slot.granules;
  if (granules > kMostCarved || ShapeLog2Alignment(shape) > 4) return;
  const uint64_t box = box_granules_;
  const uint64_t limit = slot.granule < box ? open_granules_ : UsedEnd();
  uint64_t wanted = kept_.NextBatch(granules) - 1;
  uint64_t at = slot.granule + granules;
  int32_t few = kFewGaps;
  while (wanted > 0 && late_.FindGap(&at, limit, granules, 1, &few)) {
    const uint64_t most = at + wanted * granules;
    const uint64_t end = most < limit ? most : limit;
    const uint64_t next = late_.NextIn(at, end);  // perhaps behind `end`
    const uint64_t fit = ((next < end ? next : end) - at) / granules;
    const uint64_t kept = KeepFree(at, granules, fit);
    counters_->improvised += kept;
    if (kept < fit) return;
    wanted -= fit;
    at += fit * granules;
  }
}

// Keeps places of one length that are free, one behind the other: so many of the last ones as there
// is room for, the first of them to be taken first. How many that are.
uint64_t Lane::KeepFree(uint64_t granule, uint64_t granules, uint64_t count) {
  const uint64_t end = granule + count * granules;
  uint64_t begin = end;
  BeginLateChange();
  while (begin > granule && kept_.Put(static_cast<uint32_t>(begin - granules), granules)) {
    begin -= granules;
    late_.AddKept(begin, granules);
  }
  EndLateChange();
  if (begin == end) return 0;
  if (given_pages_ != 0) TakeAgain(begin, end - begin);
  const uint64_t kept = (end - begin) / granules;
  late_count_ += static_cast<uint32_t>(kept);
  Taken(end - begin);
  if (granule < box_granules_) SetCare(care_ + static_cast<uint32_t>(kept));
  return kept;
}

// Frees the places that are kept, so that they can become parts of others.
void Lane::ReleaseKept() {
  const uint64_t box = box_granules_;
  uint32_t in_box = 0;
  if (last_.IsFree()) {
    RemoveLate(last_.granule(), last_.granules());
    last_.Clear();
  }
  kept_.Clear([this](uint32_t granule) { late_.LookAhead(granule); },
              [this, box, &in_box](uint32_t granule, uint64_t granules) {
                BeginLateChange();  // each by itself: others wait meanwhile
                late_.Remove(granule, granules);
                EndLateChange();
                --late_count_;
                taken_ -= granules;
                in_box += granule < box ? 1 : 0;
              });
  SetCare(care_ - in_box);
  annex_lacks_ = UINT64_MAX;
  NoteLongGaps();
}

// Frees what is kept where that is worth it; false: it is not.
bool Lane::KeptGivesWay() {
  if (kept_.Granules() <= open_granules_ / kKeptShareForMore) return false;
  ReleaseKept();
  return true;
}

// Of the box or of what was used of the annex.
LongGaps::Range Lane::OpenPart(uint64_t granule) const {
  const uint64_t box = box_granules_;
  if (granule < box) return {0, open_granules_};
  return {box, UsedEnd()};
}

void Lane::NoteLongGaps() {
  long_gaps_.Clear();
  if (running_free_) long_gaps_.AddAll(OpenPart(0));
  long_gaps_.AddAll(OpenPart(box_granules_));
}

// A place where the plan has one for this kind of request, or else a gap; false: there is none. In
// a small lane whichever is lower: its few long blocks need what is free to stay together.
bool Lane::TakeFromBox(const PlanRing* ring, const Request& request, Slot* slot, bool* planned) {
  *planned = ring != nullptr && TakeFromRing(ring, slot);
  if (*planned && !IsSmall()) return true;
  if (!*planned) NoteMiss(request.shape, request.site, ring, *slot);
  Slot gap;
  if (!TakeGap(request.shape, &gap)) return *planned;
  if (*planned && slot->granule <= gap.granule) return true;
  *planned = false;
  *slot = gap;
  return true;
}

// The next of the plan's places for this kind of request that is free.
bool Lane::TakeFromRing(const PlanRing* ring, Slot* slot) {
  *slot = {};
  if (!slots_.WorthALook(ring)) return false;
  slot->granules = slots_.GranulesOf(ring);
  const uint64_t box = box_granules_;
  const uint32_t probes = ring->count < kProbes ? ring->count : kProbes;
  for (uint32_t probe = 0; probe < probes; ++probe) {
    slot->granule = slots_.Next(ring);
    --effort_;
    const uint64_t end = uint64_t{slot->granule} + slot->granules;
    if (end <= box && !late_.HasAny(slot->granule, end)) return true;
  }
  slots_.Failed(ring);
  return false;
}

// Any place that is free, of the box or of what was used of the annex; false: it is not known of
// any.
bool Lane::TakeLong(uint64_t shape, Slot* slot) {
  if (TakeLongGap(shape, slot)) return true;
  return running_free_ && KeptGivesWay() && TakeLongGap(shape, slot);
}

bool Lane::TakeLongGap(uint64_t shape, Slot* slot) {
  const uint64_t granules = ShapeGranules(shape);
  const uint64_t step = ShapeStep(shape);
  uint64_t granule;
  const auto align = [this, step](uint64_t from) {
    return from + ((0 - reinterpret_cast<uint64_t>(AddressOf(from)) / kGranule) & (step - 1));
  };
  if (granules > Granules() || !long_gaps_.Take(granules, align, &granule)) return false;
  *slot = {static_cast<uint32_t>(granule), static_cast<uint32_t>(granules)};
  return true;
}

void Lane::NoteAnnexUse(uint64_t end) {
  const uint64_t used = end * kGranule - box_bytes_;
  if (used <= counters_->annex_bytes) return;
  held_->Take(used - counters_->annex_bytes);
  counters_->annex_bytes = used;
}

// One of the next few gaps of the box, if it is long enough. In a small lane the first few: what is
// free stays together, and there is not much of it to look at.
bool Lane::TakeGap(uint64_t shape, Slot* slot) {
  if (!HasAlignment(box_, shape)) return false;  // then no multiple of the step has it
  const uint64_t granules = ShapeGranules(shape);
  int32_t few = kFewGaps;
  if (IsSmall()) gap_search_ = 0;
  const bool any = late_.FindGap(&gap_search_, open_granules_, granules, ShapeStep(shape), &few);
  effort_ -= kFewGaps - few;
  if (any) *slot = {static_cast<uint32_t>(gap_search_), static_cast<uint32_t>(granules)};
  gap_search_ = any ? gap_search_ + granules : few > 0 ? 0 : gap_search_;
  return any;
}

// Any gap of the box or of what was used of the annex. In a small lane that may cost as much as it
// costs to use more memory, which the system clears: there are not many gaps.
bool Lane::TakeAnyGap(uint64_t shape, Slot* slot) {
  const uint64_t granules = ShapeGranules(shape);
  const uint64_t box = box_granules_;
  const uint64_t used_end = UsedEnd();
  const auto most = static_cast<int32_t>(granules) * kLooks;
  int32_t looks = most;
  uint64_t found = gap_search_;
  bool any = false;
  if (HasAlignment(box_, shape)) {
    any = late_.FindGap(&found, open_granules_, granules, ShapeStep(shape), &looks);
    if (!any && looks > 0) {
      found = 0;
      any = late_.FindGap(&found, gap_search_, granules, ShapeStep(shape), &looks);
    }
    gap_search_ = any ? found + granules : found < open_granules_ ? found : 0;
  }
  if (!any) {
    found = box;
    any = late_.FindGap(&found, used_end, granules, ShapeStep(shape), &looks);
  }
  if (!IsSmall() || used_end + granules > Granules()) effort_ -= most - looks;
  if (any) *slot = {static_cast<uint32_t>(found), static_cast<uint32_t>(granules)};
  return any;
}

// A place for a short block in what was used of the annex: one of the next few gaps, because to
// look for the first one each time would mean to look past all that is live. A lane that runs free
// looks everywhere before it uses more of the annex.
bool Lane::TakeFromUsedAnnex(uint64_t shape, Slot* slot) {
  const uint64_t granules = ShapeGranules(shape);
  const uint64_t box = box_granules_;
  const uint64_t used_end = UsedEnd();
  uint64_t found = annex_search_ >= box && !IsSmall() ? annex_search_ : box;
  int32_t few = kFewGaps;
  const bool any = late_.FindGap(&found, used_end, granules, ShapeStep(shape), &few);
  effort_ -= kFewGaps - few;
  annex_search_ = any ? found + granules : few > 0 ? box : found;
  if (any) {
    *slot = {static_cast<uint32_t>(found), static_cast<uint32_t>(granules)};
    return true;
  }
  if (!running_free_) return false;
  if (TakeAnyGap(shape, slot)) return true;
  return !IsSmall() && KeptGivesWay() && TakeAnyGap(shape, slot);
}

// A place in the annex, or for a long block of a lane that runs free in the box: in what was used
// of the annex, or at the end of that, or in any gap.
bool Lane::TakeFromAnnex(uint64_t shape, Slot* slot) {
  const uint64_t granules = ShapeGranules(shape);
  const uint64_t step = ShapeStep(shape);
  if (IsLong(shape) && TakeLong(shape, slot)) return true;
  if (step > kBoxAlignment / kGranule) return false;  // the annex is aligned to pages only
  if (granules >= annex_lacks_) return false;
  if (!IsLong(shape) && TakeFromUsedAnnex(shape, slot)) return true;
  if (TakeFresh(shape, slot)) return true;
  uint64_t found = box_granules_;
  const bool any = late_.FindGap(&found, Granules(), granules, step, &effort_);
  if (any) {
    TakeOfAnnex(found, granules, slot);
  } else if (effort_ > 0 && step == 1) {
    annex_lacks_ = granules;
  }
  return any;
}

// A place that ends behind what was used of the annex; what is free at the end of that is a part of
// it.
bool Lane::TakeFresh(uint64_t shape, Slot* slot) {
  const uint64_t granules = ShapeGranules(shape);
  const uint64_t step = ShapeStep(shape);
  if (step > kBoxAlignment / kGranule) return false;  // the annex is aligned to pages only
  const uint64_t free = late_.GapBegin(UsedEnd() - 1, box_granules_);
  const uint64_t begin = (free + step - 1) / step * step;
  if (begin + granules > Granules()) return false;
  TakeOfAnnex(begin, granules, slot);
  return true;
}

void Lane::TakeOfAnnex(uint64_t granule, uint64_t granules, Slot* slot) {
  long_gaps_.Forget({granule, UsedEnd()});
  NoteAnnexUse(granule + granules);
  *slot = {static_cast<uint32_t>(granule), static_cast<uint32_t>(granules)};
}

bool Lane::FreeFreely(void* pointer) {
  uint64_t granule;
  if (!IsOpen(pointer, &granule)) return false;
  uint64_t granules = late_.LengthAt(granule, Granules());
  if (granules <= KeptPlaces::kLongest) {  // it may be the place that was freed last
    SettleLast();
    granules = late_.LengthAt(granule, granule + KeptPlaces::kLongest);
  }
  if (granules == 0) return false;
  FreePlace(granule, granules);
  return true;
}

// The place that was freed last becomes one among the others. If a block has it, that may be freed
// otherwise from now on, and is nobody's to remember.
void Lane::SettleLast() {
  if (!last_.IsFree()) return last_.Clear();
  const uint32_t granule = last_.granule();
  const uint32_t granules = last_.granules();
  last_.Clear();
  FreePlace(granule, granules);
}

// Frees a block of a lane that runs free, or of the annex.
void Lane::FreePlace(uint64_t granule, uint64_t granules) {
  last_.Forget(granule);
  if (Keep(granule, granules)) return;
  RemoveLate(granule, granules);
  long_gaps_.Freed({granule, granule + granules}, OpenPart(granule));
  if (running_free_ && HasFallen()) GiveFallen();
}

}  // namespace reprise::replay
