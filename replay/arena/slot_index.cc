#include "replay/arena/slot_index.h"

#include <string.h>

#include <optional>

#include "replay/arena/drop_behind.h"

namespace reprise::replay {
namespace {

uint64_t TableSize(uint64_t rings) {
  uint64_t size = 16;
  while (size < 2 * rings) size *= 2;
  return size;
}

}  // namespace

uint64_t SlotIndex::MemoryFor(uint64_t rings) {
  return alignof(Batch) + rings * (sizeof(Batch) + sizeof(uint32_t)) +
         TableSize(rings) * sizeof(Entry);
}

void SlotIndex::Start(const PlanRing* rings, uint64_t count, const uint32_t* slots,
                      const LiveKeys& keys, void* memory) {
  rings_ = rings;
  ring_count_ = count;
  slots_ = slots;
  keys_ = keys;
  const uint64_t aligned =
      (reinterpret_cast<uint64_t>(memory) + alignof(Batch) - 1) & ~uint64_t{alignof(Batch) - 1};
  batches_ = reinterpret_cast<Batch*>(aligned);
  table_ = reinterpret_cast<Entry*>(batches_ + count);
  batch_of_ = reinterpret_cast<uint32_t*>(table_ + TableSize(count));
  table_mask_ = TableSize(count) - 1;
  memset(table_, 0, (table_mask_ + 1) * sizeof(Entry));
  const uint32_t keys_end = count > 0 ? rings[count - 1].key + 1 : 0;
  std::optional<DropBehind> told;
  for (uint64_t ring = 0; ring < count; ++ring) {
    const uint32_t index = rings[ring].key;
    if (!keys.IsInMemory(index)) {
      if (!told) told.emplace(&keys.plan_keys[index], (keys_end - index) * sizeof(PlanKey));
      told->At(&keys.plan_keys[index]);
    }
    const LiveKey key = keys.Of(index);
    if (key.site == 0) continue;
    const uint64_t hash = Hash(key.shape, key.site);
    uint64_t at = hash;
    while (table_[at & table_mask_].ring != 0) ++at;
    table_[at & table_mask_] = {static_cast<uint32_t>(ring + 1), Tag(hash)};
  }
}

SlotIndex::Batch& SlotIndex::Introduce(uint64_t ring) {
  const uint32_t key = rings_[ring].key;
  Batch& batch = batches_[batch_count_];
  batch_of_[ring] = ++batch_count_;
  batch.granules = static_cast<uint32_t>(keys_.Granules(key));
  batch.shape = keys_.Of(key).shape;
  return batch;
}

void SlotIndex::Refill(const PlanRing& ring, Batch& batch) {
  if (batch.next >= ring.count) batch.next = 0;
  const uint32_t left = ring.count - batch.next;
  const uint32_t count = left < kBatch ? left : kBatch;
  for (uint32_t i = 0; i < count; ++i) {
    batch.granule[count - 1 - i] = slots_[ring.first_slot + batch.next + i];
  }
  batch.next += count;
  batch.left = static_cast<uint16_t>(count);
  const PlanRing& last = rings_[ring_count_ - 1];
  const uint64_t slots = last.first_slot + last.count - rings_[0].first_slot;
  if (slots > kSlotsToKeep && ++refills_ % kRefillsPerDrop == 0) {
    DropPages(slots_ + rings_[0].first_slot, slots * sizeof(uint32_t));
  }
}

}  // namespace reprise::replay
