#include "replay/arena/arena.h"

namespace reprise::replay {
namespace {

uint64_t Pages(uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

uint64_t LaneBytes(const PlanHeader& plan) { return Pages(plan.lanes.count * sizeof(Lane)); }
uint64_t OwnerBytes(const PlanHeader& plan) {
  return Pages(plan.arena_bytes / kBoxAlignment * sizeof(uint32_t));
}
uint64_t HeapsBytes(uint64_t heaps) { return Pages(heaps * sizeof(LocalHeap)); }

// Of heap and boxes.
uint64_t BlockBytes(const PlanHeader& plan, uint64_t heap_bytes) {
  constexpr uint64_t kMiB = 1 << 20;
  return (heap_bytes + plan.arena_bytes + kMiB - 1) & ~(kMiB - 1);
}

// No two blocks of boxes of that length are as far apart as a lane's last words say.
constexpr uint64_t kRoomy = kMostLaneGranules * kGranule - kPage;

}  // namespace

uint64_t Arena::StateBytes(const PlanHeader& plan, uint64_t heap_bytes) {
  const uint64_t blocks = BlockBytes(plan, heap_bytes);
  return LaneBytes(plan) + OwnerBytes(plan) + HeapsBytes(kMostHeaps) +
         Pages(ArenaTables::BytesFor(blocks)) + Heap::StateBytes(blocks);
}

bool Arena::Start(const PlanHeader* plan, const LiveKeys& keys, const ArenaMemory& memory) {
  plan_ = plan;
  plan_lanes_ =
      reinterpret_cast<const PlanLane*>(reinterpret_cast<const char*>(plan) + plan->lanes.offset);
  memory_ = memory;
  bytes_ = BlockBytes(*plan, memory.heap_bytes);
  char* state = memory.state;
  lanes_ = reinterpret_cast<Lane*>(state);
  state += LaneBytes(*plan);
  owner_ = reinterpret_cast<uint32_t*>(state);
  state += OwnerBytes(*plan);
  heaps_ = reinterpret_cast<LocalHeap*>(state);
  state += HeapsBytes(kMostHeaps);
  char* tables = state;
  state += Pages(ArenaTables::BytesFor(bytes_));
  held_.Start(&other_counters()->most_held);
  heap_.Start(memory.blocks, memory.heap_bytes, &tables_, state, &held_);
  around_ = {plan, keys, &tables_, &heap_, &held_, memory.releases, plan->arena_bytes > kRoomy};
  return MakeWritable(lanes_, LaneBytes(*plan) + OwnerBytes(*plan)) &&
         tables_.Attach(tables, bytes_) && tables_.Cover(memory.heap_bytes, bytes_);
}

void Arena::StopGrowing(bool alone) {
  if (!alone) heap_.Lock();
  const uint64_t limit = heap_.StopGrowing(plan_->arena_bytes);
  GiveAddresses(memory_.blocks + limit, memory_.blocks + memory_.heap_bytes);
  tables_.Uncover(limit, memory_.heap_bytes);
  constexpr uint32_t kMoreHeaps = 16;
  if (heaps_made_ + kMoreHeaps < most_heaps_) most_heaps_ = heaps_made_ + kMoreHeaps;
  GiveAddresses(reinterpret_cast<const char*>(heaps_ + most_heaps_),
                reinterpret_cast<const char*>(heaps_ + kMostHeaps));
  if (!alone) heap_.Unlock();
}

// Whether a lane is still to be had and begins with this request.
bool Arena::BeginsWith(uint64_t index, uint64_t shape, uint64_t site) const {
  if (lanes_[index].state != kUnused) return false;
  const PlanLane& lane = plan_lanes_[index];
  const auto* words =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(plan_) + plan_->words.offset);
  const uint32_t* first = words + lane.first_word;
  while (DecodeWord(first, lane.offset_bits).kind == Word::kUsedPages) first += 2;
  if (DecodeWord(first, lane.offset_bits).kind != Word::kAllocation) return false;
  const LiveKey key = around_.keys.At(first, lane.offset_bits);
  return key.shape == shape && key.site == site;
}

// The index of the thread's own lane; the number of lanes when there is none.
uint64_t Arena::LaneNamed(uint64_t path) const {
  uint64_t named = 0;
  while (named < plan_->lanes.count && plan_lanes_[named].path != path) ++named;
  return named;
}

// The index of the lane for a thread; the number of lanes when there is none. Under the lock.
uint64_t Arena::FindLane(uint64_t path, uint64_t first_shape, uint64_t first_site) const {
  const uint64_t count = plan_->lanes.count;
  uint64_t named = LaneNamed(path);
  if (named < count && BeginsWith(named, first_shape, first_site)) return named;
  for (uint64_t index = 0; index < count; ++index) {
    if (BeginsWith(index, first_shape, first_site)) return index;
  }
  // Threads that begin alike may have taken each other's, in a circle or in a row.
  for (uint64_t step = 0; step < count && named < count; ++step) {
    const Lane& lane = lanes_[named];
    if (lane.state == kUnused || lane.taker == plan_lanes_[named].path) break;
    named = LaneNamed(lane.taker);
  }
  return named;
}

Lane* Arena::TakeLane(uint64_t path, uint64_t first_shape, uint64_t first_site) {
  lane_lock_.Lock();
  const uint64_t index = FindLane(path, first_shape, first_site);
  Lane* lane = index < plan_->lanes.count ? &lanes_[index] : nullptr;
  if (lane != nullptr && lane->state != kUnused) lane = nullptr;
  char* box = memory_.blocks + memory_.heap_bytes;
  if (lane != nullptr) box += plan_lanes_[index].box_offset;
  if (lane != nullptr && !MakeWritable(box, plan_lanes_[index].box_bytes)) lane = nullptr;
  if (lane != nullptr) StartLane(index, path);
  lane_lock_.Unlock();
  return lane;
}

void Arena::StartLane(uint64_t index, uint64_t path) {
  const PlanLane& plan_lane = plan_lanes_[index];
  LaneNotes notes;
  const uint32_t pages = CountersLayout::Of(*plan_).pages;
  notes.Attach(memory_.notes + index * pages, pages);
  Lane& lane = lanes_[index];
  lane.Start(around_, &plan_lane, memory_.blocks + memory_.heap_bytes + plan_lane.box_offset,
             &memory_.counters[index], notes);
  lane.taker = path;
  __atomic_store_n(&lane.state, int32_t{kHeld}, __ATOMIC_RELEASE);
  uint32_t* owner = &owner_[plan_lane.box_offset / kBoxAlignment];
  for (uint64_t page = 0; page < plan_lane.box_bytes / kBoxAlignment; ++page) {
    __atomic_store_n(&owner[page], static_cast<uint32_t>(index + 1), __ATOMIC_RELEASE);
  }
}

LocalHeap* Arena::TakeHeap(const Lane* lane) {
  const HeapLock lock(heap_);
  LocalHeap* heap = closed_;
  if (heap != nullptr) {
    closed_ = heap->next_closed;
  } else {
    if (heaps_made_ == most_heaps_ || !MakeWritable(&heaps_[heaps_made_], sizeof(LocalHeap))) {
      return nullptr;
    }
    heap = &heaps_[heaps_made_++];
    heap->Start(&heap_, &tables_, bytes_, heaps_made_);
  }
  LaneCounters* own = other_counters() + (heap - heaps_) + 1;
  heap->Open(lane != nullptr ? &lane->counters()->heap : &own->heap,
             &other_counters()->invalid_frees);
  return heap;
}

void Arena::Leave(Lane* lane, LocalHeap* heap) {
  if (lane != nullptr) {
    lane->LeavePlan();
    lane_lock_.Lock();
    lane->state = kLeft;
    lane_lock_.Unlock();
  }
  if (heap == nullptr) return;
  const HeapLock lock(heap_);
  heap->Close();
  heap->next_closed = closed_;
  closed_ = heap;
}

void* Arena::AllocateShared(uint64_t bytes, uint64_t alignment) {
  if (bytes > bytes_ || alignment > bytes_) return nullptr;
  const uint64_t units = bytes != 0 ? (bytes + kHeapUnit - 1) / kHeapUnit : 1;
  const HeapLock lock(heap_);
  const uint64_t unit = heap_.Take(units, alignment > kHeapUnit ? alignment / kHeapUnit : 1);
  if (unit == Heap::kNone) return nullptr;
  tables_.live().Set(unit * kHeapUnit, LiveMarks::Long(units));
  HeapCounters& counters = other_counters()->heap;
  ++counters.allocations;
  counters.addresses += reinterpret_cast<uint64_t>(heap_.AddressOf(unit));
  return heap_.AddressOf(unit);
}

bool Arena::Free(void* pointer, LocalHeap* heap, Lane* lane) {
  if (const uint32_t owner = RegionOwner(pointer); owner != 0) {
    if (heap != nullptr && heap == &heaps_[owner - 1]) return heap->FreeSmall(pointer);
    return heaps_[owner - 1].FreeRemotely(pointer);
  }
  const uint64_t offset = OffsetOf(pointer);
  if (tables_.live().UnitsAt(offset) != 0) {
    if (heap != nullptr) return heap->FreeLarge(pointer);
    tables_.live().Set(offset, 0);
    const HeapLock lock(heap_);
    heap_.Return(offset / kHeapUnit);
    return true;
  }
  Lane* owner = LaneOf(pointer);
  if (owner == nullptr) return false;
  if (owner == lane && !lane->is_off_plan()) return lane->Free(pointer);
  return owner->FreeRemotely(pointer);
}

void Arena::FreeWhatWasLeft(LocalHeap* heap, Lane* lane) {
  for (void* block = later_.TakeAll(); block != nullptr;) {
    if (!Contains(block)) return;  // it was written over
    void* next = RemoteFrees::Next(block);
    if (!Free(block, heap, lane)) {
      __atomic_fetch_add(&other_counters()->invalid_frees, 1, __ATOMIC_RELAXED);
    }
    block = next;
  }
}

uint64_t Arena::Usable(const void* pointer) {
  if (const uint32_t owner = RegionOwner(pointer); owner != 0) {
    return heaps_[owner - 1].UsableSmall(pointer);
  }
  const uint64_t units = heap_.LiveAt(OffsetOf(pointer));
  if (units != 0) return units * kHeapUnit;
  Lane* lane = LaneOf(pointer);
  return lane != nullptr ? lane->Usable(pointer) : 0;
}

void Arena::Publish() const {
  for (uint64_t index = 0; index < plan_->lanes.count; ++index) {
    if (__atomic_load_n(&lanes_[index].state, __ATOMIC_ACQUIRE) == kHeld) lanes_[index].Publish();
  }
}

}  // namespace reprise::replay
