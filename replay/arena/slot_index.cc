#include "replay/arena/slot_index.h"

#include <string.h>

#include "replay/arena/drop_behind.h"
#include "replay/arena/lane.h"
#include "replay/arena/stream.h"

namespace reprise::replay {
namespace {

// At least twice as many rings as there can be kinds of requests.
uint64_t RingCount(uint64_t placements, uint64_t keys) {
  const uint64_t kinds = placements < keys ? placements : keys;
  uint64_t count = 16;
  while (count < 2 * kinds) count *= 2;
  return count;
}

}  // namespace

uint64_t SlotIndex::MemoryFor(uint64_t placements, uint64_t keys) {
  return RingCount(placements, keys) * sizeof(SlotRing) + (placements + 1) * sizeof(Slot) +
         keys * sizeof(uint32_t);
}

void SlotIndex::Build(const PlanBlock* blocks, uint64_t count, const PlanKey* plan_keys,
                      uint64_t key_count, const LiveKey* keys, void* memory) {
  const uint64_t rings = RingCount(count, key_count);
  rings_ = static_cast<SlotRing*>(memory);
  slots_ = reinterpret_cast<Slot*>(rings_ + rings);
  ring_mask_ = rings - 1;
  memset(static_cast<void*>(rings_), 0, rings * sizeof(SlotRing));
  // 1 + the ring of each key, once it is known: millions of blocks have some hundred keys.
  auto* ring_of = reinterpret_cast<uint32_t*>(slots_ + count + 1);
  memset(ring_of, 0, key_count * sizeof(uint32_t));
  // Twice over the blocks: count the places of every ring, then lay them down one ring after
  // another. The blocks come by address, so a place that is used many times comes many times in a
  // row.
  uint32_t laid = 0;
  for (int pass = 0; pass < 2; ++pass) {
    const DropBehind drop(blocks, count * sizeof(PlanBlock));
    for (uint64_t i = 0; i < count; ++i) {
      drop.At(&blocks[i]);
      uint32_t& known = ring_of[blocks[i].key];
      if (known == 0) {
        const LiveKey& key = keys[blocks[i].key];
        if (key.site == 0) continue;
        SlotRing& found = RingFor(key.shape, key.site);
        found.shape = key.shape;
        found.site = key.site;
        known = static_cast<uint32_t>(&found - rings_) + 1;
      }
      SlotRing& ring = rings_[known - 1];
      if (ring.latest == blocks[i].offset + 1) continue;
      ring.latest = blocks[i].offset + 1;
      if (pass == 0) {
        ++ring.count;
        continue;
      }
      if (ring.next == 0) {
        ring.first = laid;
        laid += ring.count;
      }
      slots_[ring.first + ring.next++] = {
          blocks[i].offset, static_cast<uint32_t>(BlockGranules(plan_keys[blocks[i].key]))};
    }
    for (uint64_t i = 0; i < rings; ++i) rings_[i].latest = 0;
  }
}

// The ring of this kind of request, or the unused one where it belongs.
SlotRing& SlotIndex::RingFor(uint64_t shape, uint64_t site) {
  uint64_t at = Hash(shape, site);
  while (rings_[at & ring_mask_].shape != 0 &&
         (rings_[at & ring_mask_].shape != shape || rings_[at & ring_mask_].site != site)) {
    ++at;
  }
  return rings_[at & ring_mask_];
}

}  // namespace reprise::replay
