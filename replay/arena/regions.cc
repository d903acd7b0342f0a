#include "replay/arena/regions.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kRegionUnits = kRegionBytes / kHeapUnit;

}  // namespace

uint64_t Regions::Take(uint64_t granules, uint64_t most, char** blocks) {
  uint64_t count = 0;
  while (count < most) {
    uint32_t region = Find(granules);
    if (region == 0 && count == 0) region = Open();
    if (region == 0) break;
    count += Cut(region, granules, most - count, blocks + count);
  }
  return count;
}

// The region with the shortest run that is long enough; 0: there is none.
uint32_t Regions::Find(uint64_t granules) const {
  const uint64_t fitting = filled_ >> (granules - 1);
  return fitting != 0 ? lists_[granules + static_cast<uint64_t>(__builtin_ctzll(fitting))] : 0;
}

// Takes regions from the shared heap: more at a time where there are many. One of them; 0: there is
// no room.
uint32_t Regions::Open() {
  constexpr uint32_t kMost = 4;
  const uint32_t kept = opened_ / kKeptShare;
  const uint32_t count = 1 + (kept < kMost ? kept : kMost - 1);
  const HeapLock lock(*heap_);
  const uint64_t unit = heap_->Take(count * kRegionUnits, kRegionUnits);
  if (unit == Heap::kNone) return 0;
  const auto first = static_cast<uint32_t>(unit / kRegionUnits);
  for (uint32_t region = first + count; region-- > first;) {
    __atomic_store_n(&regions_[region].owner, number_, __ATOMIC_RELAXED);
    regions_[region].list = 0;
    Relink(region);
  }
  opened_ += count;
  return first;
}

uint64_t Regions::Cut(uint32_t number, uint64_t granules, uint64_t most, char** blocks) {
  Region& region = regions_[number];
  char* const begin = base_ + number * kRegionBytes;
  uint64_t count = 0;
  while (count < most) {
    const uint64_t runs = BlockMap::Runs(~region.blocks.taken(), granules);
    if (runs == 0) break;
    const auto at = static_cast<uint64_t>(__builtin_ctzll(runs));
    region.blocks.Add(at, granules);
    blocks[count++] = begin + at * kGranule;
  }
  Relink(number);
  return count;
}

// A region stands in the list of the longest run in it, unless it is full.
void Regions::Relink(uint32_t region) {
  Region& entry = regions_[region];
  const auto list = static_cast<uint32_t>(BlockMap::LongestRun(~entry.blocks.taken()));
  if (list == entry.list) return;
  if (entry.list != 0) {
    if (entry.next != 0) regions_[entry.next].prev = entry.prev;
    (entry.prev != 0 ? regions_[entry.prev].next : lists_[entry.list]) = entry.next;
    if (lists_[entry.list] == 0) filled_ &= ~BlockMap::Bit(entry.list - 1);
  }
  empty_ += list == kEmpty ? 1 : 0;
  empty_ -= entry.list == kEmpty ? 1 : 0;
  entry.list = list;
  if (list == 0) return;
  entry.next = lists_[list];
  entry.prev = 0;
  if (entry.next != 0) regions_[entry.next].prev = region;
  lists_[list] = region;
  filled_ |= BlockMap::Bit(list - 1);
}

void Regions::Return(char* block, uint64_t granules) {
  const uint64_t offset = OffsetOf(block);
  At(offset).blocks.Remove(offset / kGranule % BlockMap::kUnit, granules);
  Relink(static_cast<uint32_t>(offset / kRegionBytes));
}

void Regions::ReleaseEmpty(uint32_t kept) {
  uint32_t& first = lists_[kEmpty];
  for (; empty_ > kept; --empty_, --opened_) {
    const uint32_t region = first;
    first = regions_[region].next;
    __atomic_store_n(&regions_[region].owner, 0, __ATOMIC_RELAXED);
    heap_->Release(region * kRegionUnits, kRegionUnits);
  }
  if (first != 0) {
    regions_[first].prev = 0;
  } else {
    filled_ &= ~BlockMap::Bit(kEmpty - 1);
  }
}

}  // namespace reprise::replay
