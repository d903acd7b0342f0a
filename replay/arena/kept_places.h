// Places of short blocks that were freed a moment ago, by length: what a lane gives out first when
// it does not follow its stream (lane.h). The caller sees to it that nobody else gets them.
//
// Hook-safe. Belongs to one thread. Memory is the caller's, zeroed: little of it is touched, unless
// many blocks of one length are freed in a row. So is the object.
#ifndef REPRISE_REPLAY_ARENA_KEPT_PLACES_H_
#define REPRISE_REPLAY_ARENA_KEPT_PLACES_H_

#include <stdint.h>

#include "replay/arena/drop_behind.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

class KeptPlaces {
 public:
  // Granules of a place: a longer one that is kept costs the long gaps more than it saves.
  static constexpr uint64_t kLongest = 192;
  static constexpr uint64_t kLongestShape = 2 * kLongest;
  static constexpr uint64_t kFirstBatch = 8;  // of places, made when there are none of a length

  // Bytes of zeroed memory for places among so many granules, beside the object itself.
  static constexpr uint64_t MemoryFor(uint64_t granules) {
    return (kFew + DeepFor(granules)) * sizeof(uint32_t);
  }

  void Attach(void* zeroed_memory, uint64_t granules) {
    places_ = static_cast<uint32_t*>(zeroed_memory);
    ForgetAll();
    as_needed_ = kLongestShape;
    deep_left_ = static_cast<uint32_t>(DeepFor(granules)) / kSegment;
    end_ = kFew + deep_left_ * kSegment;
    most_ = MostFor(granules);
  }

  // Keeps a place of so many granules; false: it is too long, or there are enough.
  bool Put(uint32_t granule, uint64_t granules) {
    if (granules >= kRows) return false;
    if (PutQuickly(granule, granules)) return true;
    const uint32_t full = rows_[granules].latest + 1 - kSegment;
    if (full != kNobodys && (full_[granules] == most_ || deep_left_ == 0)) return false;
    const uint32_t segment = SegmentAbove(full);
    if (segment == kNobodys) return false;
    if (full != kNobodys) {
      --deep_left_;
      ++full_[granules];
      full_granules_ += kPlaces * granules;
    }
    rows_[granules].latest = segment + kMark;
    return PutQuickly(granule, granules);
  }

  // The latest place of that length, at most kLongest; false: there is none.
  bool Take(uint32_t granules, uint32_t* granule) {
    if (TakeQuickly(granules, granule)) return true;
    if (full_[granules] == 0) return false;
    const uint32_t segment = rows_[granules].latest - kMark;
    const uint32_t below = places_[segment];
    places_[segment] = spare_;
    spare_ = segment;
    ++deep_left_;
    --full_[granules];
    full_granules_ -= kPlaces * uint64_t{granules};
    rows_[granules].MoveTo(below + kSegment - 1, places_);
    return TakeQuickly(granules, granule);
  }

  // The same for at most kLongest granules, where it takes few instructions. False: Put and Take
  // may know better.
  bool PutQuickly(uint32_t granule, uint64_t granules) {
    const uint32_t at = rows_[granules].latest + 1;
    if (at % kSegment == 0) return false;
    places_[at] = granule;
    rows_[granules] = {at, granule};
    return true;
  }
  bool TakeQuickly(uint32_t granules, uint32_t* granule) {
    const Row row = rows_[granules];
    if (row.place == kNone) return false;
    *granule = row.place;
    rows_[granules].MoveTo(row.latest - 1, places_);
    return true;
  }

  // The granules of the places for blocks of this shape; 0, and no place has that: none is kept for
  // them. Where blocks have been seen to have more than their shapes need, because the recorded
  // program was told of more usable bytes than it had asked for, all of them have what was seen.
  uint32_t LengthOf(uint64_t shape) const {
    if (__builtin_expect(shape <= as_needed_, 1)) return static_cast<uint32_t>((shape + 1) / 2);
    return shape <= kLongestShape ? length_of_[shape] : 0;
  }
  void NoteLength(uint64_t shape, uint64_t granules) {
    if (shape > kLongestShape || granules > kLongest) return;
    length_of_[shape] = static_cast<uint16_t>(granules);
    if (granules != ShapeGranules(shape)) as_needed_ = 0;
  }

  // How many places to make when there are none of a length: more each time, as long as that is not
  // much in all.
  uint64_t NextBatch(uint64_t granules) {
    uint8_t& times = batches_[granules];
    const uint64_t batch = kFirstBatch << times;
    if (times < kMostDoublings && 2 * batch * granules <= kBatchGranules) ++times;
    return batch;
  }

  // No longer keeps a place, which it does.
  void Remove(uint32_t granule, uint64_t granules) {
    uint32_t latest = 0;
    Take(static_cast<uint32_t>(granules), &latest);
    if (latest == granule) return;
    uint32_t at = rows_[granules].latest;
    while (places_[at] != granule) {
      at = at % kSegment == kMark ? places_[at - kMark] + kSegment - 1 : at - 1;
    }
    places_[at] = latest;
    rows_[granules].MoveTo(rows_[granules].latest, places_);
  }

  // Forgets all places, and calls visit(granule, granules) for each of them, and a little before
  // look_ahead(granule).
  template <typename LookAhead, typename Visit>
  void Clear(LookAhead look_ahead, Visit visit) {
    for (uint32_t row = 0; row < kRows; ++row) {
      batches_[row] = 0;
      for (uint32_t granule; Take(row, &granule);) {
        const uint32_t count = Uppermost(row);
        const uint32_t* others = &places_[rows_[row].latest - count + 1];
        for (uint32_t i = 0; i < count; ++i) look_ahead(others[i]);
        visit(granule, row);
        for (uint32_t i = 0; i < count; ++i) visit(others[i], row);
        rows_[row].MoveTo(rows_[row].latest - count, places_);
      }
    }
    if (unused_ > kFew) DropPages(places_ + kFew, (unused_ - kFew) * sizeof(uint32_t));
    ForgetAll();
  }

  // Of all places. Hardly kept up to date: they are asked for when nothing else helps.
  uint64_t Granules() const {
    uint64_t sum = full_granules_;
    for (uint32_t row = 0; row < kRows; ++row) sum += uint64_t{Uppermost(row)} * row;
    return sum;
  }
  uint64_t Count() const {
    uint64_t sum = 0;
    for (uint32_t row = 0; row < kRows; ++row) sum += CountIn(row);
    return sum;
  }

 private:
  static constexpr uint32_t kRows = kLongest + 1;  // one per length, in granules
  static constexpr uint32_t kSegment = 32;
  static constexpr uint32_t kMark = 1;  // where in a segment no place is: before the first one
  static constexpr uint32_t kPlaces = kSegment - 1 - kMark;  // in a segment
  static constexpr uint32_t kNone = UINT32_MAX;              // the mark: no place
  static constexpr uint32_t kNobodys = 0;                    // the segment that is none
  static constexpr uint32_t kFew = (1 + kRows) * kSegment;   // enough for one segment a row
  static constexpr uint64_t kDeepShare = 4;                  // granules per place
  static constexpr uint64_t kMostDeep = 1 << 24;
  static constexpr uint64_t kGranulesPerPlace = 64;  // of one length
  static constexpr uint64_t kMostSegments = 1024;
  static constexpr uint8_t kMostDoublings = 4;
  static constexpr uint64_t kBatchGranules = 128;  // a batch of more than the first one

  static constexpr uint64_t DeepFor(uint64_t granules) {
    const uint64_t places = granules / kDeepShare / kSegment * kSegment;
    return places < kMostDeep ? places : kMostDeep;
  }
  // Full segments of one length: where blocks of some length are freed only, or asked for aligned,
  // their places are to become parts of others.
  static constexpr uint32_t MostFor(uint64_t granules) {
    const uint64_t segments = granules / kGranulesPerPlace / kPlaces;
    return static_cast<uint32_t>(segments < kMostSegments ? segments : kMostSegments);
  }

  // No row has a segment: each is as if a full one of nobody's were its uppermost.
  void ForgetAll() {
    for (Row& row : rows_) row = {kNobodys + kSegment - 1, kNone};
    spare_ = kNobodys;
    unused_ = kSegment;
  }

  // A segment for what comes on top of a full one; kNobodys: there is none left.
  uint32_t SegmentAbove(uint32_t full) {
    uint32_t segment = spare_;
    if (segment != kNobodys) {
      spare_ = places_[segment];
    } else if (unused_ < end_) {
      segment = unused_;
      unused_ += kSegment;
    } else {
      return kNobodys;
    }
    places_[segment] = full;
    places_[segment + kMark] = kNone;
    return segment;
  }

  uint64_t CountIn(uint32_t row) const { return Uppermost(row) + uint64_t{full_[row]} * kPlaces; }
  // Places in the row's uppermost segment.
  uint32_t Uppermost(uint32_t row) const {
    return rows_[row].place == kNone ? 0 : rows_[row].latest % kSegment - kMark;
  }

  // A stack is a list of segments: a link to the one below, kNobodys for none, the mark, and then
  // places. One is all that most rows ever need.
  struct alignas(8) Row {
    uint32_t latest;  // where the latest place stands; at a mark: there is none above it
    uint32_t place;   // what stands there: who takes it need not wait for that line, too

    void MoveTo(uint32_t at, const uint32_t* places) { *this = {at, places[at]}; }
  };
  uint32_t* places_;
  uint64_t as_needed_;  // up to this shape blocks have the granules that they need
  Row rows_[kRows];
  uint16_t length_of_[kLongestShape + 1];  // in granules; 0: not known, and no place has that
  uint16_t full_[kRows];                   // segments below the uppermost one
  uint8_t batches_[kRows];  // made of each length since all were forgotten; at most a few
  uint32_t most_;           // such segments of a length
  uint64_t full_granules_;  // of the places below the uppermost segments
  uint32_t spare_;          // segments that were used, linked; kNobodys: none
  uint32_t unused_;         // segments from here up to end_ never were
  uint32_t end_;
  uint32_t deep_left_;  // segments that may still be a row's second or later one: each gets a first
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_KEPT_PLACES_H_
