#include "replay/arena/local_heap.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kRegionUnits = kRegionBytes / kHeapUnit;

uint64_t Log2(uint64_t number) { return 63 - static_cast<uint64_t>(__builtin_clzll(number)); }

}  // namespace

void LocalHeap::Start(Heap* heap, ArenaTables* tables, uint64_t arena_bytes, uint32_t number) {
  heap_ = heap;
  tables_ = tables;
  base_ = heap->AddressOf(0);
  bytes_ = arena_bytes;
  map_ = &tables->blocks();
  regions_ = tables->regions();
  number_ = number;
  uint16_t first = 0;
  for (uint64_t granules = 1; granules <= kMostGranules; ++granules) {
    const auto most = static_cast<uint16_t>(MostReady(granules));
    small_[granules] = {0, most, first, 1};
    first = static_cast<uint16_t>(first + most);
  }
}

void LocalHeap::Open(HeapCounters* counters) {
  counters_ = counters;
  open_ = true;
  remote_.Open();
}

void LocalHeap::Close() {
  open_ = false;  // from now on nothing here takes the lock, which is held already
  TakeInRemoteFrees(remote_.Close());
  for (uint64_t granules = 1; granules <= kMostGranules; ++granules) {
    Ready& ready = small_[granules];
    while (ready.count > 0) FreeInRegion(blocks_[ready.first + --ready.count], granules);
    ready.batch = 1;
  }
  ReleaseEmptyRegions();
  for (uint64_t units = 1; units <= kMostUnits; ++units) {
    while (large_counts_[units] > 0) heap_->Return(large_[units][--large_counts_[units]]);
  }
  large_bytes_ = 0;
}

void* LocalHeap::Allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes > bytes_ || alignment > bytes_) return nullptr;
  if (bytes <= kMostSmall && alignment <= kGranule) {
    return AllocateSmall(bytes != 0 ? (bytes + kGranule - 1) / kGranule : 1);
  }
  const uint64_t units = bytes != 0 ? (bytes + kHeapUnit - 1) / kHeapUnit : 1;
  return AllocateLarge(units, alignment > kHeapUnit ? alignment / kHeapUnit : 1);
}

void* LocalHeap::AllocateSmall(uint64_t granules) {
  Ready& ready = small_[granules];
  if (ready.count == 0) Refill(granules);
  if (ready.count == 0) return nullptr;
  char* block = blocks_[ready.first + --ready.count];
  map_->Mark(GranuleOf(block), granules);
  return Count(block);
}

// Of what is made ready the lowest address comes first.
void LocalHeap::Refill(uint64_t granules) {
  Ready& ready = small_[granules];
  if (remote_.Any()) TakeInRemoteFrees(remote_.TakeAll());
  if (ready.count != 0) return;
  const uint64_t wanted = ready.batch;
  if (ready.batch < ready.most / 2) ready.batch = static_cast<uint16_t>(2 * ready.batch);
  char** const blocks = &blocks_[ready.first];
  uint64_t count = 0;
  while (count < wanted) {
    uint32_t region = FindRegion(granules);
    if (region == 0 && count == 0) region = OpenRegions();
    if (region == 0) break;
    count += CutBlocks(region, granules, wanted - count, blocks + count);
  }
  for (uint64_t i = 0; i < count / 2; ++i) {
    char* const other = blocks[count - 1 - i];
    blocks[count - 1 - i] = blocks[i];
    blocks[i] = other;
  }
  ready.count = static_cast<uint16_t>(count);
}

// A region that has room; 0: none is known. Those with little room come first.
uint32_t LocalHeap::FindRegion(uint64_t granules) const {
  constexpr int kTries = 8;
  const uint64_t least = Log2(granules);
  uint32_t region = lists_[least];
  for (int tries = 0; region != 0 && tries < kTries; ++tries, region = regions_[region].next) {
    if (BlockMap::Runs(FreeIn(region), granules) != 0) return region;
  }
  for (uint64_t bin = least + 1; bin < kBins; ++bin) {
    if (lists_[bin] != 0) return lists_[bin];
  }
  return 0;
}

// Takes regions from the shared heap: more at a time where there are many. One of them; 0: there is
// no room.
uint32_t LocalHeap::OpenRegions() {
  constexpr uint32_t kFew = 16;
  const uint32_t count = opened_ < kFew ? 1 : 4;
  const uint64_t unit = TakeUnits(count * kRegionUnits, kRegionUnits);
  if (unit == Heap::kNone) return 0;
  const auto first = static_cast<uint32_t>(unit / kRegionUnits);
  for (uint32_t region = first + count; region-- > first;) {
    __atomic_store_n(&regions_[region].owner, number_, __ATOMIC_RELAXED);
    ++opened_;
    Link(region);
  }
  return first;
}

uint64_t LocalHeap::CutBlocks(uint32_t region, uint64_t granules, uint64_t most, char** blocks) {
  const uint64_t first = uint64_t{region} * BlockMap::kUnit;
  uint64_t count = 0;
  while (count < most) {
    const uint64_t runs = BlockMap::Runs(FreeIn(region), granules);
    if (runs == 0) break;
    const uint64_t granule = first + static_cast<uint64_t>(__builtin_ctzll(runs));
    map_->Add(granule, granules, /*marked=*/false);
    blocks[count++] = base_ + granule * kGranule;
  }
  Unlink(region);
  Link(region);
  return count;
}

// A region stands in the list of the longest run in it, unless it is full.
void LocalHeap::Link(uint32_t region) {
  const uint64_t longest = BlockMap::LongestRun(FreeIn(region));
  Region& entry = regions_[region];
  entry.bin = longest != 0 ? static_cast<uint32_t>(Log2(longest)) : kBins;
  if (longest == 0) return;
  uint32_t& head = lists_[entry.bin];
  entry.next = head;
  entry.prev = 0;
  if (head != 0) regions_[head].prev = region;
  head = region;
}

void LocalHeap::Unlink(uint32_t region) {
  const Region& entry = regions_[region];
  if (entry.bin == kBins) return;
  if (entry.next != 0) regions_[entry.next].prev = entry.prev;
  (entry.prev != 0 ? regions_[entry.prev].next : lists_[entry.bin]) = entry.next;
}

// A block that is not live is no longer taken either.
void LocalHeap::FreeInRegion(char* block, uint64_t granules) {
  const uint64_t granule = GranuleOf(block);
  const auto region = static_cast<uint32_t>(granule / BlockMap::kUnit);
  Unlink(region);
  map_->Remove(granule, granules);
  if (FreeIn(region) != ~uint64_t{0}) return Link(region);
  regions_[region].next = empty_;
  empty_ = region;
}

void LocalHeap::GiveEmptyRegions() {
  if (empty_ == 0) return;
  const HeapLock lock(*heap_);
  ReleaseEmptyRegions();
}

void LocalHeap::ReleaseEmptyRegions() {
  for (uint32_t region = empty_; region != 0; region = regions_[region].next) {
    __atomic_store_n(&regions_[region].owner, 0, __ATOMIC_RELAXED);
    heap_->Release(region * kRegionUnits, kRegionUnits);
    --opened_;
  }
  empty_ = 0;
}

// Makes a block ready that was live. Where too many are, half of them are freed.
void LocalHeap::PutSmall(char* block, uint64_t granules) {
  Ready& ready = small_[granules];
  map_->Unmark(GranuleOf(block), granules);
  if (ready.count == ready.most) {
    const auto half = static_cast<uint16_t>(ready.most / 2);
    char** const blocks = &blocks_[ready.first];
    for (uint16_t i = 0; i < half; ++i) FreeInRegion(blocks[i], granules);
    for (uint16_t i = half; i < ready.count; ++i) blocks[i - half] = blocks[i];
    ready.count = static_cast<uint16_t>(ready.count - half);
  }
  blocks_[ready.first + ready.count++] = block;
}

bool LocalHeap::FreeSmall(void* pointer) {
  const uint64_t granules = SmallAt(OffsetOf(pointer));
  if (granules == 0) return false;
  PutSmall(static_cast<char*>(pointer), granules);
  GiveEmptyRegions();
  return true;
}

void LocalHeap::TakeInRemoteFrees(void* first) {
  for (void* block = first; block != nullptr;) {
    const uint64_t offset = OffsetOf(block);
    const uint64_t granules = offset < bytes_ && OwnerOf(offset) == number_ ? SmallAt(offset) : 0;
    if (granules == 0) {  // what it leads to may be anything
      ++invalid_frees_;
      return;
    }
    void* next = RemoteFrees::Next(block);
    PutSmall(static_cast<char*>(block), granules);
    block = next;
  }
  if (open_) GiveEmptyRegions();
}

bool LocalHeap::FreeRemotely(void* pointer) {
  if (SmallAtShared(OffsetOf(pointer)) == 0) return false;
  while (!remote_.Push(pointer)) {
    const HeapLock lock(*heap_);
    if (open_) continue;  // another thread has it by now
    const uint64_t granules = SmallAt(OffsetOf(pointer));
    if (granules == 0) return false;
    FreeInRegion(static_cast<char*>(pointer), granules);
    ReleaseEmptyRegions();
    return true;
  }
  return true;
}

// What is ready gives way to what there is no room for.
uint64_t LocalHeap::TakeUnits(uint64_t units, uint64_t step) {
  uint64_t unit;
  {
    const HeapLock lock(*heap_);
    unit = heap_->Take(units, step);
  }
  if (unit != Heap::kNone || large_bytes_ == 0) return unit;
  FlushLarge();
  const HeapLock lock(*heap_);
  return heap_->Take(units, step);
}

void* LocalHeap::AllocateLarge(uint64_t units, uint64_t step) {
  uint64_t unit;
  if (step == 1 && units <= kMostUnits && large_counts_[units] > 0) {
    unit = large_[units][--large_counts_[units]];
    large_bytes_ -= units * kHeapUnit;
  } else {
    unit = TakeUnits(units, step);
    if (unit == Heap::kNone) return nullptr;
  }
  heap_->MarkLive(unit);
  return Count(heap_->AddressOf(unit));
}

bool LocalHeap::FreeLarge(void* pointer) {
  const uint64_t unit = heap_->UnitOf(pointer);
  if (OffsetOf(pointer) % kHeapUnit != 0 || !heap_->UnmarkLive(unit)) return false;
  const uint64_t units = heap_->Length(unit);
  if (units <= kMostUnits && large_counts_[units] < kReadyOfLarge) {
    large_[units][large_counts_[units]++] = static_cast<uint32_t>(unit);
    large_bytes_ += units * kHeapUnit;
    if (large_bytes_ > kReadyLargeBytes) FlushLarge();
    return true;
  }
  const HeapLock lock(*heap_);
  heap_->Return(unit);
  return true;
}

void LocalHeap::FlushLarge() {
  const HeapLock lock(*heap_);
  for (uint64_t units = 1; units <= kMostUnits; ++units) {
    while (large_counts_[units] > 0) heap_->Return(large_[units][--large_counts_[units]]);
  }
  large_bytes_ = 0;
}

bool LocalHeap::Resize(void* pointer, uint64_t bytes) {
  const uint64_t offset = OffsetOf(pointer);
  if (bytes > bytes_) return false;
  if (OwnerOf(offset) == number_) {
    const uint64_t usable = SmallAt(offset) * kGranule;
    if (bytes > usable || bytes <= usable / 2) return false;
    Count(static_cast<char*>(pointer));
    return true;
  }
  const uint64_t unit = heap_->UnitOf(pointer);
  if (offset % kHeapUnit != 0 || !heap_->IsLive(unit) || bytes <= kMostSmall) return false;
  const uint64_t before = heap_->Length(unit);
  const uint64_t units = (bytes + kHeapUnit - 1) / kHeapUnit;
  if (units > before) {
    const HeapLock lock(*heap_);
    if (!heap_->Extend(unit, units)) return false;
  }
  if (units < before) {
    const HeapLock lock(*heap_);
    heap_->Release(unit + units, before - units);
  }
  Count(static_cast<char*>(pointer));
  return true;
}

}  // namespace reprise::replay
