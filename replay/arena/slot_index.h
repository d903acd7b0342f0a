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

  // Whether the ring is worth a look: not for a while when looks into it have failed, longer each
  // time, unless a place was given back.
  bool WorthALook(const PlanRing* ring) {
    Batch& batch = batches_[ring - rings_];
    if (batch.rest == 0) return true;
    --batch.rest;
    return false;
  }
  void Failed(const PlanRing* ring) {
    Batch& batch = batches_[ring - rings_];
    batch.failures += batch.failures < kMostFailures ? 1 : 0;
    batch.rest = static_cast<uint16_t>(1u << batch.failures);
  }

  // The ring's place that is to be tried next: the latest that was given back, or the next slot.
  uint32_t Next(const PlanRing* ring) {
    Batch& batch = batches_[ring - rings_];
    if (batch.left == 0) Refill(*ring, batch);
    return batch.granule[--batch.left];
  }

  // A number for the ring, from 1 on, if it is one of the first 255, which are the most frequent;
  // else 0.
  uint32_t KindOf(const PlanRing* ring) const {
    const auto number = static_cast<uint64_t>(ring - rings_) + 1;
    return number < 256 ? static_cast<uint32_t>(number) : 0;
  }

  // A place that was taken from the ring of this number, not 0, is free again. False: nobody will
  // be told.
  bool GiveBack(uint32_t kind, uint32_t granule) {
    Batch& batch = batches_[kind - 1];
    if (batch.left == kBatch) return false;
    batch.granule[batch.left++] = granule;
    batch.failures = batch.rest = 0;
    return true;
  }

 private:
  static uint64_t Hash(uint64_t shape, uint64_t site) {
    const uint64_t mixed = (site ^ shape * 0xff51afd7ed558ccd) * 0x9e3779b97f4a7c15;
    return mixed >> 32;
  }

  // The next places of a ring, the last one first: taken from the file together, because each look
  // into it leaves pages behind.
  static constexpr uint32_t kBatch = 13;
  static constexpr uint16_t kMostFailures = 6;
  struct Batch {
    uint32_t next;  // the number of the slot that comes after them
    uint32_t left;
    uint16_t failures;  // in a row
    uint16_t rest;      // requests for which the ring is not looked at
    uint32_t granule[kBatch];
  };
  static constexpr uint64_t kSlotsToKeep = 1 << 18;  // 1 MiB: not worth the faults
  static constexpr uint32_t kRefillsPerDrop = 256;

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
