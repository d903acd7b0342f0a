#include "replay/arena/local_heap.h"

namespace reprise::replay {

void LocalHeap::Start(Heap* heap, ArenaTables* tables, uint64_t arena_bytes, uint32_t number) {
  heap_ = heap;
  bytes_ = arena_bytes;
  live_ = tables->live();
  regions_.Start(heap, tables, arena_bytes, number);
}

void LocalHeap::Open(HeapCounters* counters, uint64_t* invalid_frees) {
  counters_ = counters;
  invalid_frees_ = invalid_frees;
  SetUpReady();
  heap_->AddUser(1);
  open_ = true;
  remote_.Open();
}

void LocalHeap::Close() {
  open_ = false;  // from now on nothing here takes the lock, which is held already
  TakeInRemoteFrees(remote_.Close());
  for (uint64_t length = 1; length < kLengths; ++length) {
    Return(ready_[length].first, ready_[length].count(), length);
  }
  regions_.ReleaseEmpty();
  heap_->AddUser(-1);
}

// In the beginning there is room for a few small blocks of each length.
void LocalHeap::SetUpReady() {
  constexpr uint64_t kBytes = 2 << 10;
  used_slots_ = grown_bytes_ = 0;
  for (uint64_t length = 0; length < kLengths; ++length) {
    uint64_t most = 0;
    if (length > 0 && length <= kMostGranules) most = kBytes / BytesOf(length);
    if (most > kMostOfOne) most = kMostOfOne;
    char** const first = slots_ + used_slots_;
    ready_[length] = {first, first, first + most, 1, 0};
    used_slots_ += most;
  }
}

// Makes room for twice as many ready blocks of a length.
void LocalHeap::Grow(uint64_t length) {
  Ready& ready = ready_[length];
  const uint64_t most = ready.most() != 0 ? 2 * ready.most() : 2;
  const uint64_t bytes = (most - ready.most()) * BytesOf(length);
  const bool is_small = length <= kMostGranules;
  if (is_small ? most > kMostOfOne || most * BytesOf(length) > kMostReady : most > kMostLarge)
    return;
  if (!open_ || used_slots_ + most > kSlots) return;
  {
    const HeapLock lock(*heap_);
    if (grown_bytes_ + bytes > heap_->ReadyBytes()) return;
  }
  char** const first = slots_ + used_slots_;
  const uint64_t count = ready.count();
  for (uint64_t i = 0; i < count; ++i) first[i] = ready.first[i];
  ready.first = first;
  ready.top = first + count;
  ready.limit = first + most;
  used_slots_ += most;
  grown_bytes_ += bytes;
}

void* LocalHeap::Allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes > bytes_ || alignment > bytes_) return nullptr;
  if (bytes == 0) bytes = 1;
  if (bytes <= kMostReady && alignment <= kGranule) {
    const uint64_t length = LengthOf(bytes);
    if (ready_[length].most() == 0) Grow(length);
    if (ready_[length].count() == 0 && ready_[length].most() != 0) Refill(length);
    if (void* block = AllocateQuickly(bytes)) return block;
  }
  const uint64_t units = (bytes + kHeapUnit - 1) / kHeapUnit;
  const uint64_t unit = TakeUnits(units, alignment > kHeapUnit ? alignment / kHeapUnit : 1);
  if (unit == Heap::kNone) return nullptr;
  live_.Set(unit * kHeapUnit, LiveMarks::Long(units));
  return Count(heap_->AddressOf(unit));
}

// Of what is made ready the lowest address comes first.
void LocalHeap::Refill(uint64_t length) {
  Ready& ready = ready_[length];
  if (remote_.Any()) TakeInRemoteFrees(remote_.TakeAll());
  if (ready.count() != 0) return;
  if (++ready.refills > kOverflown) {
    ready.refills = 0;
    Grow(length);
  }
  const uint64_t wanted = ready.batch;
  if (ready.batch < ready.most() / 4) ready.batch = static_cast<uint16_t>(2 * ready.batch);
  uint64_t count = 0;
  if (length <= kMostGranules) {
    count = regions_.Take(length, wanted, ready.first);
  } else {
    const HeapLock lock(*heap_);
    for (; count < wanted; ++count) {
      const uint64_t unit = heap_->Take(BytesOf(length) / kHeapUnit, 1);
      if (unit == Heap::kNone) break;
      ready.first[count] = heap_->AddressOf(unit);
    }
  }
  for (uint64_t i = 0; i < count / 2; ++i) {
    char* const other = ready.first[count - 1 - i];
    ready.first[count - 1 - i] = ready.first[i];
    ready.first[i] = other;
  }
  ready.top = ready.first + count;
}

// Makes a block ready that was live. Where too many are, a quarter of them is given back.
void LocalHeap::Put(char* block, uint64_t length) {
  Ready& ready = ready_[length];
  if (ready.most() == 0) Grow(length);
  if (ready.most() == 0) return Return(&block, 1, length);
  if (ready.top == ready.limit) {
    const uint64_t part = (ready.most() + 3) / 4;
    Return(ready.first, part, length);
    for (char** at = ready.first; at + part < ready.top; ++at) *at = at[part];
    ready.top -= part;
    ready.refills = kOverflown;
  }
  *ready.top++ = block;
}

// With the lock of the heap, or open.
void LocalHeap::Return(char** blocks, uint64_t count, uint64_t length) {
  if (length <= kMostGranules) {
    for (uint64_t i = 0; i < count; ++i) regions_.Return(blocks[i], length);
    return;
  }
  if (open_) heap_->Lock();
  for (uint64_t i = 0; i < count; ++i) heap_->Return(heap_->UnitOf(blocks[i]));
  if (open_) heap_->Unlock();
}

bool LocalHeap::FreeSmall(void* pointer) {
  const uint64_t granules = regions_.LiveAt(pointer);
  if (granules == 0) return false;
  regions_.Unmark(pointer);
  Put(static_cast<char*>(pointer), granules);
  GiveSpareRegions();
  return true;
}

void LocalHeap::GiveSpareRegions() {
  if (!open_ || !regions_.HasSpare()) return;
  const HeapLock lock(*heap_);
  regions_.ReleaseSpare();
}

void LocalHeap::TakeInRemoteFrees(void* first) {
  for (void* block = first; block != nullptr;) {
    const uint64_t granules = regions_.LiveAt(block);
    if (granules == 0) {  // what it leads to may be anything
      __atomic_fetch_add(invalid_frees_, 1, __ATOMIC_RELAXED);
      return;
    }
    void* next = RemoteFrees::Next(block);
    regions_.Unmark(block);
    Put(static_cast<char*>(block), granules);
    block = next;
  }
  GiveSpareRegions();
}

bool LocalHeap::FreeRemotely(void* pointer) {
  if (regions_.UsableAt(pointer) == 0) return false;
  while (!remote_.Push(pointer)) {
    const HeapLock lock(*heap_);
    if (open_) continue;  // another thread has it by now
    const uint64_t granules = regions_.LiveAt(pointer);
    if (granules == 0) return false;
    regions_.Unmark(pointer);
    regions_.Return(static_cast<char*>(pointer), granules);
    regions_.ReleaseEmpty();
    return true;
  }
  return true;
}

// What is ready gives way to what there is no room for.
uint64_t LocalHeap::TakeUnits(uint64_t units, uint64_t step) {
  const HeapLock lock(*heap_);
  const uint64_t unit = heap_->Take(units, step);
  if (unit != Heap::kNone) return unit;
  open_ = false;  // the lock is held
  for (uint64_t length = kMostGranules + 1; length < kLengths; ++length) {
    Ready& ready = ready_[length];
    Return(ready.first, ready.count(), length);
    ready.top = ready.first;
  }
  open_ = true;
  return heap_->Take(units, step);
}

bool LocalHeap::FreeLarge(void* pointer) {
  const uint64_t offset = regions_.OffsetOf(pointer);
  const uint64_t bytes = heap_->LiveAt(offset) * kHeapUnit;
  if (bytes == 0) return false;
  live_.Set(offset, 0);
  if (bytes > kMostSmall && bytes <= kMostReady) {
    Put(static_cast<char*>(pointer), LengthOf(bytes));
  } else {
    const HeapLock lock(*heap_);
    heap_->Return(offset / kHeapUnit);
  }
  return true;
}

bool LocalHeap::Resize(void* pointer, uint64_t bytes) {
  if (bytes > bytes_) return false;
  if (const uint64_t usable = regions_.LiveAt(pointer) * kGranule; usable != 0) {
    if (bytes > usable || bytes <= usable / 2) return false;
    Count(static_cast<char*>(pointer));
    return true;
  }
  const uint64_t offset = regions_.OffsetOf(pointer);
  const uint64_t before = heap_->LiveAt(offset);
  if (before == 0 || bytes <= kMostSmall) return false;
  const uint64_t unit = offset / kHeapUnit;
  const uint64_t units = (bytes + kHeapUnit - 1) / kHeapUnit;
  const HeapLock lock(*heap_);
  if (units > before && !heap_->Extend(unit, units)) return false;
  if (units < before) heap_->Release(unit + units, before - units);
  live_.Set(offset, LiveMarks::Long(units));
  Count(static_cast<char*>(pointer));
  return true;
}

}  // namespace reprise::replay
