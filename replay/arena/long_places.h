// Places of long blocks that a lane that runs free freed a moment ago: what it gives out first
// for a long block. A program that asks for one often has just freed one that was about as long
// (the buffer of a block of a table, the memory to compress it in), and to look for the best gap
// each time was a fifth of replay's own time in LevelDB. The caller sees to it that nobody else
// gets these places.
//
// Hook-safe. Belongs to one thread.
#ifndef REPRISE_REPLAY_ARENA_LONG_PLACES_H_
#define REPRISE_REPLAY_ARENA_LONG_PLACES_H_

#include <stdint.h>

namespace reprise::replay {

class LongPlaces {
 public:
  struct Place {
    uint32_t granule;
    uint32_t granules;  // 0: no place
  };

  // So many places, and granules of each: more keep memory from others.
  static constexpr uint64_t kMost = 4;
  static constexpr uint64_t kLongest = 2048;

  void Clear() { count_ = 0; }
  uint64_t Count() const { return count_; }

  // Keeps a place in front of the others. The one that is kept no longer for that, if any.
  Place Put(Place place) {
    Place last{};
    if (count_ == kMost) {
      last = places_[kMost - 1];
    } else {
      ++count_;
    }
    for (uint64_t at = count_ - 1; at > 0; --at) places_[at] = places_[at - 1];
    places_[0] = place;
    return last;
  }

  // The latest place of that length; false: there is none. One that is a little longer would do,
  // but what it leaves, or wastes, adds up: LevelDB's arena was 4 to 10 % larger.
  bool Take(uint64_t granules, Place* place) {
    for (uint64_t at = 0; at < count_; ++at) {
      if (places_[at].granules != granules) continue;
      *place = places_[at];
      Drop(at);
      return true;
    }
    return false;
  }

  // The latest one, whatever its length; false: there is none.
  bool TakeAny(Place* place) {
    if (count_ == 0) return false;
    *place = places_[0];
    Drop(0);
    return true;
  }

  // No longer keeps the place that begins there; false: it did not.
  bool Remove(uint32_t granule) {
    for (uint64_t at = 0; at < count_; ++at) {
      if (places_[at].granule != granule) continue;
      Drop(at);
      return true;
    }
    return false;
  }

 private:
  void Drop(uint64_t at) {
    --count_;
    for (; at < count_; ++at) places_[at] = places_[at + 1];
  }

  Place places_[kMost];  // the latest one first
  uint64_t count_;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LONG_PLACES_H_
