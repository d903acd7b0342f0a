#include "replay/arena/slot_index.h"

#include <string.h>

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
  return (rings + TableSize(rings)) * sizeof(uint32_t);
}

void SlotIndex::Start(const PlanRing* rings, uint64_t count, const LiveKey* keys, void* memory) {
  rings_ = rings;
  keys_ = keys;
  next_ = static_cast<uint32_t*>(memory);
  table_ = next_ + count;
  table_mask_ = TableSize(count) - 1;
  memset(table_, 0, (table_mask_ + 1) * sizeof(uint32_t));
  for (uint64_t i = 0; i < count; ++i) {
    const LiveKey& key = keys[rings[i].key];
    if (key.site != 0) *EntryFor(key.shape, key.site) = static_cast<uint32_t>(i + 1);
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
