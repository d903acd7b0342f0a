// The places that a lane's plan has for each kind of request, by address: what a lane goes by once
// its thread no longer follows the stream (lane.h). The places stand in the plan file; this finds
// them, and remembers which comes next.
//
// Hook-safe. Belongs to one thread. Memory is the caller's.
#ifndef REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
#define REPRISE_REPLAY_ARENA_SLOT_INDEX_H_

#include <stdint.h>

#include "replay/arena/live_keys.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {

class SlotIndex {
 public:
  // Bytes of zeroed memory for so many rings.
  static uint64_t MemoryFor(uint64_t rings);

  // `rings` are the lane's, the others the plan's. May be called again, when more keys have
  // addresses.
  void Start(const PlanRing* rings, uint64_t count, const uint32_t* slots, const LiveKeys& keys,
             void* memory);

  // The ring for this kind of request; null when the plan has no such request. Call sites are told
  // apart by a hash of 32 bits: where two are taken for one, they share their places.
  const PlanRing* Find(uint64_t shape, uint64_t site) {
    const uint64_t hash = Hash(shape, site);
    for (uint64_t at = hash;; ++at) {
      const Entry entry = table_[at & table_mask_];
      if (entry.ring == 0) return nullptr;
      if (entry.tag != Tag(hash)) continue;
      if (BatchOf(entry.ring - 1).shape == shape) return &rings_[entry.ring - 1];
    }
  }

  // The length of the ring's places, at least what the shape that it was found for needs.
  uint32_t GranulesOf(const PlanRing* ring) { return BatchOf(ring).granules; }

  // Whether the ring is worth a look: not for a while when looks into it have failed, longer each
  // time.
  bool WorthALook(const PlanRing* ring) {
    Batch& batch = BatchOf(ring);
    if (batch.rest == 0) return true;
    --batch.rest;
    return false;
  }
  void LookAgain(const PlanRing* ring) { BatchOf(ring).rest = 0; }
  void Failed(const PlanRing* ring) {
    Batch& batch = BatchOf(ring);
    batch.failures += batch.failures < kMostFailures ? 1 : 0;
    batch.rest = static_cast<uint8_t>(1u << batch.failures);
  }

  // Whether the next place is known without a look into the file.
  bool HasNext(const PlanRing* ring) { return BatchOf(ring).left != 0; }

  // The ring's place that is to be tried next.
  uint32_t Next(const PlanRing* ring) {
    Batch& batch = BatchOf(ring);
    if (batch.left == 0) Refill(*ring, batch);
    return batch.granule[--batch.left];
  }

 private:
  // The depth is in the upper bits of a site, and a product has nothing of them in its lower half.
  static uint64_t Hash(uint64_t shape, uint64_t site) {
    const uint64_t product = (site ^ shape * 0xff51afd7ed558ccd) * 0x9e3779b97f4a7c15;
    return product ^ product >> 47;
  }
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  // Open addressing, by the hash's lower half.
  struct Entry {
    uint32_t ring;  // its number, from 1 on; 0: unused
    uint32_t tag;
  };

  // The next places of a ring, the last one first: taken from the file together, because each look
  // into it leaves pages behind.
  static constexpr uint32_t kBatch = 11;
  static constexpr uint8_t kMostFailures = 6;
  struct alignas(64) Batch {
    uint64_t shape;
    uint32_t granules;  // of each place
    uint32_t next;      // the number of the slot that comes after them
    uint16_t left;
    uint8_t failures;  // in a row
    uint8_t rest;      // requests for which the ring is not looked at
    uint32_t granule[kBatch];
  };
  static constexpr uint64_t kSlotsToKeep = 1 << 18;  // 1 MiB: not worth the faults
  static constexpr uint32_t kRefillsPerDrop = 256;

  // Most rings are never looked for: those that are have their batches side by side.
  Batch& BatchOf(uint64_t ring) {
    const uint32_t number = batch_of_[ring];
    return number != 0 ? batches_[number - 1] : Introduce(ring);
  }
  Batch& BatchOf(const PlanRing* ring) { return BatchOf(static_cast<uint64_t>(ring - rings_)); }
  Batch& Introduce(uint64_t ring);
  void Refill(const PlanRing& ring, Batch& batch);

  const PlanRing* rings_ = nullptr;
  LiveKeys keys_{};
  uint64_t ring_count_ = 0;
  const uint32_t* slots_ = nullptr;
  Batch* batches_ = nullptr;
  uint32_t batch_count_ = 0;
  uint32_t* batch_of_ = nullptr;  // per ring its batch's number, from 1 on; 0: it has none yet
  Entry* table_ = nullptr;
  uint64_t table_mask_ = 0;
  uint32_t refills_ = 0;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_SLOT_INDEX_H_
