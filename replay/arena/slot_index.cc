#include "replay/arena/slot_index.h"

#include <string.h>

#include "replay/arena/drop_behind.h"
#include "replay/arena/lane.h"

namespace reprise::replay {
namespace {

uint64_t TableSize(uint64_t rings) {
  uint64_t size = 16;
  while (size < 2 * rings) size *= 2;
  return size;
}

}  // namespace

uint64_t SlotIndex::MemoryFor(uint64_t rings) {
  return rings * sizeof(Batch) + TableSize(rings) * sizeof(uint32_t);
}

void SlotIndex::Start(const PlanRing* rings, uint64_t count, const uint32_t* slots,
                      const LiveKey* keys, void* memory) {
  rings_ = rings;
  ring_count_ = count;
  slots_ = slots;
  keys_ = keys;
  batches_ = static_cast<Batch*>(memory);
  table_ = reinterpret_cast<uint32_t*>(batches_ + count);
  table_mask_ = TableSize(count) - 1;
  memset(table_, 0, (table_mask_ + 1) * sizeof(uint32_t));
  for (uint64_t i = 0; i < count; ++i) {
    const LiveKey& key = keys[rings[i].key];
    if (key.site != 0) *EntryFor(key.shape, key.site) = static_cast<uint32_t>(i + 1);
  }
}

void SlotIndex::Refill(const PlanRing& ring, Batch& batch) {
  constexpr uint32_t kMost = sizeof(batch.granule) / sizeof(batch.granule[0]);
  if (batch.next >= ring.count) batch.next = 0;
  const uint32_t left = ring.count - batch.next;
  const uint32_t count = left < kMost ? left : kMost;
  for (uint32_t i = 0; i < count; ++i) {
    batch.granule[count - 1 - i] = slots_[ring.first_slot + batch.next + i];
  }
  batch.next += count;
  batch.left = count;
  if (++refills_ % kRefillsPerDrop != 0) return;
  const PlanRing& last = rings_[ring_count_ - 1];
  const uint64_t slots = last.first_slot + last.count - rings_[0].first_slot;
  if (slots * sizeof(uint32_t) > kKeptBytes) {
    DropPages(slots_ + rings_[0].first_slot, slots * sizeof(uint32_t));
  }
}

// The entry of this kind of request, or the unused one where it belongs.
uint32_t* SlotIndex::EntryFor(uint64_t shape, uint64_t site) const {
  for (uint64_t at = Hash(shape, site);; ++at) {
    uint32_t* entry = &table_[at & table_mask_];
    if (*entry == 0) return entry;
    const LiveKey& key = keys_[rings_[*entry - 1].key];
    if (key.shape == shape && key.site == site) return entry;
  }
}

}  // namespace reprise::replay
