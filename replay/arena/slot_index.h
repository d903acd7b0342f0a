// The places that a lane's plan has for each kind of request, by address: what a lane goes by once
// its thread no longer follows the stream (lane.h).
//
// Hook-safe. Belongs to one thread. Memory is the caller's.
#ifndef REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
#define REPRISE_REPLAY_ARENA_SLOT_INDEX_H_

#include <stdint.h>

#include "replay/plan_format.h"

namespace reprise::replay {

struct LiveKey;

struct Slot {
  uint32_t granule;   // where the block begins, relative to the box, / 16
  uint32_t granules;  // its length
};

// The slots of one shape and call site.
struct SlotRing {
  uint64_t shape;
  uint64_t site;
  uint32_t first;  // index into the slots
  uint32_t count;
  uint32_t next;    // the slot to try first, relative to `first`
  uint32_t latest;  // while building: 1 + the place that was met last
};

class SlotIndex {
 public:
  // Bytes of memory for a lane of so many placements, of a plan of so many keys.
  static uint64_t MemoryFor(uint64_t placements, uint64_t keys);

  // Builds the index from the lane's blocks. May be called again, when more keys have addresses.
  void Build(const PlanBlock* blocks, uint64_t count, const PlanKey* plan_keys, uint64_t key_count,
             const LiveKey* keys, void* memory);

  // Null when the plan has no such request.
  SlotRing* Find(uint64_t shape, uint64_t site) {
    SlotRing& ring = RingFor(shape, site);
    return ring.shape != 0 ? &ring : nullptr;
  }

  const Slot& At(const SlotRing& ring, uint32_t number) const {
    return slots_[ring.first + number];
  }

 private:
  static uint64_t Hash(uint64_t shape, uint64_t site) {
    const uint64_t mixed = (site ^ shape * 0xff51afd7ed558ccd) * 0x9e3779b97f4a7c15;
    return mixed >> 32;
  }

  SlotRing& RingFor(uint64_t shape, uint64_t site);

  SlotRing* rings_ = nullptr;  // open addressing; shape 0: unused
  uint64_t ring_mask_ = 0;
  Slot* slots_ = nullptr;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
