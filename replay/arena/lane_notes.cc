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

void LaneNotes::BecameLate(uint64_t granule, uint64_t word) {
  any_late_ = true;
  Keep(SquatterSet(granule),
       {static_cast<uint32_t>(1 + word), static_cast<uint32_t>(granule), 0, 0});
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

void LaneNotes::Blocked(uint64_t shape, uint64_t site, uint64_t granule, uint32_t times) {
  MissNote& miss = *MissOf(shape, site);
  miss.blocked += times;
  const auto blocker = static_cast<uint32_t>(granule + 1);
  if (miss.votes == 0) miss.blocker = blocker;
  miss.votes += miss.blocker == blocker ? 1 : -1;
  if (SquatterNote* squatter = LiveSquatter(granule)) {
    squatter->blocked += times;
  } else {
    pages_->unnamed += times;
  }
}

}  // namespace reprise::replay
