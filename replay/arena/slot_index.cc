#include "replay/arena/slot_index.h"

#include <string.h>

#include "replay/arena/lane.h"
#include "replay/arena/stream.h"

namespace reprise::replay {
namespace {

// At least twice as many rings as there can be kinds of requests.
uint64_t RingCount(uint64_t placements) {
  uint64_t count = 16;
  while (count < 2 * placements) count *= 2;
  return count;
}

}  // namespace

uint64_t SlotIndex::MemoryFor(uint64_t placements) {
  return RingCount(placements) * sizeof(SlotRing) + (placements + 1) * sizeof(Slot);
}

void SlotIndex::Build(const uint32_t* words, const PlanLane& lane, const PlanKey* plan_keys,
                      const LiveKey* keys, void* memory) {
  const uint64_t rings = RingCount(lane.placements);
  rings_ = static_cast<SlotRing*>(memory);
  slots_ = reinterpret_cast<Slot*>(rings_ + rings);
  ring_mask_ = rings - 1;
  memset(static_cast<void*>(rings_), 0, rings * sizeof(SlotRing));
  // Twice over the stream: count the slots of every ring, then lay them down one ring after
  // another.
  uint32_t laid = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (const uint32_t* at = words; *at != kEnd;) {
      const Word word = DecodeWord(at, lane.offset_bits);
      at += word.length;
      if (word.kind != Word::kAllocation || keys[word.key].site == 0) continue;
      const LiveKey& key = keys[word.key];
      uint64_t place = Hash(key.shape, key.site);
      while (rings_[place & ring_mask_].shape != 0 &&
             (rings_[place & ring_mask_].shape != key.shape ||
              rings_[place & ring_mask_].site != key.site)) {
        ++place;
      }
      SlotRing& ring = rings_[place & ring_mask_];
      if (pass == 0) {
        ring.shape = key.shape;
        ring.site = key.site;
        ++ring.count;
        continue;
      }
      if (ring.next == 0) {
        ring.first = laid;
        laid += ring.count;
      }
      slots_[ring.first + ring.next++] = {
          word.granule, static_cast<uint32_t>(BlockGranules(plan_keys[word.key]))};
    }
  }
}

}  // namespace reprise::replay
