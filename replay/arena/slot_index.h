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

  // `rings` are the lane's, `slots` and `keys` the plan's. May be called again, when more keys have
  // addresses.
  void Start(const PlanRing* rings, uint64_t count, const uint32_t* slots, const LiveKey* keys,
             void* memory);

  // The ring for this kind of request; null when the plan has no such request.
  const PlanRing* Find(uint64_t shape, uint64_t site) const {
    const uint32_t found = *EntryFor(shape, site);
    return found != 0 ? &rings_[found - 1] : nullptr;
  }

  // The ring's place that is to be tried next.
  uint32_t Next(const PlanRing* ring) {
    Batch& batch = batches_[ring - rings_];
    if (batch.left == 0) Refill(*ring, batch);
    return batch.granule[--batch.left];
  }

 private:
  static uint64_t Hash(uint64_t shape, uint64_t site) {
    const uint64_t mixed = (site ^ shape * 0xff51afd7ed558ccd) * 0x9e3779b97f4a7c15;
    return mixed >> 32;
  }

  // The next places of a ring, the last one first: taken from the file together, because each look
  // into it leaves pages behind.
  struct Batch {
    uint32_t next;  // the number of the slot that comes after them
    uint32_t left;
    uint32_t granule[14];
  };
  static constexpr uint32_t kRefillsPerDrop = 32;
  // As much as so many looks map at most, 64 KiB each: of a table that is no longer nothing is
  // given back. Threads that share a process pay for that with each other's time.
  static constexpr uint64_t kKeptBytes = kRefillsPerDrop * (64 << 10);

  void Refill(const PlanRing& ring, Batch& batch);
  uint32_t* EntryFor(uint64_t shape, uint64_t site) const;

  const PlanRing* rings_ = nullptr;
  const LiveKey* keys_ = nullptr;
  uint64_t ring_count_ = 0;
  const uint32_t* slots_ = nullptr;
  Batch* batches_ = nullptr;   // per ring
  uint32_t* table_ = nullptr;  // open addressing: 1 + ring; 0: unused
  uint64_t table_mask_ = 0;
  uint32_t refills_ = 0;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
