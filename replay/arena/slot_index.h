// The places that a lane's plan has for each kind of request, by address: what a lane goes by once
// its thread no longer follows the stream (lane.h). The places stand in the plan file; this finds
// them, and remembers which comes next.
//
// Hook-safe. Belongs to one thread. Memory is the caller's.
#ifndef REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
#define REPRISE_REPLAY_ARENA_SLOT_INDEX_H_

#include <stdint.h>

#include "replay/plan_format.h"

namespace reprise::replay {

struct LiveKey;

class SlotIndex {
 public:
  // Bytes of zeroed memory for so many rings.
  static uint64_t MemoryFor(uint64_t rings);

  // `rings` are the lane's, `keys` the plan's in this process. May be called again, when more keys
  // have addresses.
  void Start(const PlanRing* rings, uint64_t count, const LiveKey* keys, void* memory);

  // The ring for this kind of request; null when the plan has no such request.
  const PlanRing* Find(uint64_t shape, uint64_t site) const {
    const uint32_t found = *EntryFor(shape, site);
    return found != 0 ? &rings_[found - 1] : nullptr;
  }

  // The number of the ring's slot that is to be tried next.
  uint32_t Next(const PlanRing* ring) {
    uint32_t& next = next_[ring - rings_];
    if (next >= ring->count) next = 0;
    return next++;
  }

 private:
  static uint64_t Hash(uint64_t shape, uint64_t site) {
    const uint64_t mixed = (site ^ shape * 0xff51afd7ed558ccd) * 0x9e3779b97f4a7c15;
    return mixed >> 32;
  }

  uint32_t* EntryFor(uint64_t shape, uint64_t site) const;

  const PlanRing* rings_ = nullptr;
  const LiveKey* keys_ = nullptr;
  uint32_t* next_ = nullptr;   // per ring
  uint32_t* table_ = nullptr;  // open addressing: 1 + ring; 0: unused
  uint64_t table_mask_ = 0;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
