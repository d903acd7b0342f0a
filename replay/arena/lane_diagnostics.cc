#include "replay/arena/lane.h"
#include "replay/arena/lane_notes.h"

namespace reprise::replay {
namespace {

uint64_t Mix(uint64_t word) {
  word *= 0x9e3779b97f4a7c15;
  return word ^ word >> 32;
}

// One of so many sets, without a division: a lane that misses often asks for each request.
uint64_t SetOf(uint64_t word, uint64_t sets) { return (Mix(word) >> 32) * sets >> 32; }

}  // namespace

SquatterNote* LaneNotes::SquatterSet(uint64_t number) const {
  const uint64_t place = SetOf(number, uint64_t{count_} * NotePage::kSquatterSets);
  return pages_[place / NotePage::kSquatterSets].squatters[place % NotePage::kSquatterSets];
}

SquatterNote* LaneNotes::LiveSquatter(uint64_t granule) const {
  SquatterNote* set = SquatterSet(granule);
  for (uint32_t way = 0; way < NotePage::kWays; ++way) {
    SquatterNote& note = set[way];
    if (note.word != 0 && note.granule == granule && note.freed_at == 0) return &note;
  }
  return nullptr;
}

void LaneNotes::Keep(SquatterNote* set, const SquatterNote& kept) {
  // An unused note is worth least, then one of a block that is gone.
  const auto worth = [](const SquatterNote& note) {
    return note.word == 0 ? 0 : 1 + 2 * uint64_t{note.blocked} + (note.freed_at == 0 ? 1 : 0);
  };
  SquatterNote* least = set;
  for (uint32_t way = 1; way < NotePage::kWays; ++way) {
    if (worth(set[way]) < worth(*least)) least = &set[way];
  }
  // What is new is live and yet to be counted.
  if (kept.freed_at == 0 || worth(*least) <= worth(kept)) *least = kept;
}

void LaneNotes::BecameLate(uint64_t granule, uint64_t word, uint64_t planned) {
  any_late_ = true;
  Keep(SquatterSet(granule), {static_cast<uint32_t>(1 + word), static_cast<uint32_t>(granule),
                              static_cast<uint32_t>(planned), 0, 0});
}

// A note of a block that is gone need no longer be found by where the block was. There the next one
// may come.
void LaneNotes::Freed(SquatterNote* note, uint64_t now) {
  SquatterNote gone = *note;
  gone.freed_at = static_cast<uint32_t>(now);
  *note = {};
  Keep(SquatterSet(~uint64_t{gone.word}), gone);
}

MissNote* LaneNotes::MissOf(uint64_t shape, uint64_t site) {
  const uint64_t place = SetOf(shape ^ Mix(site), uint64_t{count_} * NotePage::kMissSets);
  MissNote* set = pages_[place / NotePage::kMissSets].misses[place % NotePage::kMissSets];
  const auto misses = [](const MissNote& note) { return uint64_t{note.unexpected} + note.blocked; };
  MissNote* least = set;
  for (uint32_t way = 0; way < NotePage::kWays; ++way) {
    if (set[way].shape == shape && set[way].site == site) return &set[way];
    if (misses(set[way]) < misses(*least)) least = &set[way];
  }
  *least = {shape, site, 0, 0, 0, 0};
  return least;
}

void LaneNotes::Blocked(uint64_t shape, uint64_t site, uint64_t granule, bool follows,
                        uint32_t times) {
  MissNote& miss = *MissOf(shape, site);
  miss.blocked += times;
  const auto blocker = static_cast<uint32_t>(granule + 1);
  if (miss.votes == 0) miss.blocker = blocker;
  miss.votes += miss.blocker == blocker ? 1 : -1;
  SquatterNote* squatter = follows ? LiveSquatter(granule) : nullptr;
  if (squatter != nullptr) {
    squatter->blocked += times;
  } else {
    pages_->unnamed += times;
  }
}

void Lane::NoteDivergence(uint64_t shape, uint64_t site) {
  if (counters_->diverged_at != 0) return;
  counters_->diverged_at = 1 + (cursor_ - first_word_);
  counters_->seen_shape = shape;
  counters_->seen_site = site;
  const uint32_t* next = NextAllocation(cursor_, end_word_);
  if (next == nullptr) return;
  const LiveKey key = KeyAt(next);
  counters_->expected_shape = key.shape;
  counters_->expected_site = key.site;
}

// A late block is freed. One that lies elsewhere and is still planned to live taught nothing.
void Lane::NoteFreed(uint64_t granule) {
  if (!notes_.AnyLate()) return;
  SquatterNote* note = notes_.LiveSquatter(granule);
  if (note == nullptr) return;
  if (note->planned != granule && early_.Has(note->planned)) {
    *note = {};
  } else {
    notes_.Freed(note, static_cast<uint64_t>(cursor_ - first_word_));
  }
}

// Where the late block or the kept place begins that a granule is in: behind another one, or behind
// what is free. Looked for further and further down, because either may be far when the other is
// near.
uint64_t Lane::LateBegin(uint64_t granule) const {
  for (uint64_t reach = 64;; reach *= 4) {
    const uint64_t lowest = granule > reach ? granule - reach : 0;
    const uint64_t end = late_.LastEnd(granule, lowest);
    const uint64_t begin = late_.TakenBegin(granule, end);
    if (begin > lowest || lowest == 0) return begin;
  }
}

// The late block, or the kept place, that lies in [granule, end), where there is one.
void Lane::NoteBlocked(uint64_t shape, uint64_t site, uint64_t granule, uint64_t end,
                       uint32_t times) {
  const uint64_t taken = late_.NextIn(granule, end);
  notes_.Blocked(shape, site, LateBegin(taken), !running_free_, times);
}

// Places an allocation of the stream, born at word `birth`, whose place is taken. While the lane
// follows, all of the box is the plan's, so that takes annex although most of the box may be free.
// Where other threads hold the places, that is much at once; the lane leaves the stream, and has
// all of the box. What its own thread keeps longer is little at a time.
void* Lane::PlaceElsewhere(const Word& word, uint32_t birth) {
  const LiveKey key = KeyAt(first_word_ + birth);
  // Where there are many, one stands for those before it.
  const uint64_t number = ++counters_->blocked;
  const uint32_t times = number <= kAllNamed ? 1 : number % kNamed == 0 ? kNamed : 0;
  if (times != 0) {
    NoteBlocked(key.shape, key.site, word.granule, word.granule + live_keys_.Granules(word.key),
                times);
  }
  const uint64_t used = counters_->annex_bytes;
  // As long as planned: a program that asks how long it is goes another way when it is shorter.
  void* elsewhere = Improvise(LongerShape(key.shape, live_keys_.Granules(word.key)));
  if (elsewhere != nullptr && times != 0) {
    notes_.BecameLate(GranuleOf(elsewhere), birth, word.granule);
  }
  if (awaited_ > 0) awaited_bytes_ += counters_->annex_bytes - used;
  if (awaited_bytes_ > kMostAwaited && awaited_bytes_ > box_bytes_ / kMostAwaitedShare) RunFree();
  return elsewhere;
}

// A lane that runs free did not find a planned place. Of those that were taken the one that was
// looked at last stands for all. What is in its way is looked for only once in a while: that means
// to walk along it.
void Lane::NoteMiss(uint64_t shape, uint64_t site, const PlanRing* ring, const Slot& latest) {
  if (ring == nullptr) return notes_.Unexpected(shape, site);
  if (latest.granules == 0) return;  // none was looked at
  const uint64_t behind = uint64_t{latest.granule} + latest.granules;
  const uint64_t box = box_granules_;
  const uint64_t end = behind < box ? behind : box;
  // Where nothing is in the way, the place is too short for the length that its ring has.
  if (!late_.HasAny(latest.granule, end)) return;
  if (misses_++ % kNamed == 0) {
    NoteBlocked(shape, site, latest.granule, end, 1);
  } else {
    notes_.Blocked(shape, site);
  }
}

}  // namespace reprise::replay
