// The private level of the arena: what one thread takes that its plan does not tell it.
//
// Blocks of up to 512 bytes lie in regions of 1 KiB that the thread owns and that come from the
// shared heap; a region goes back when nothing in it is taken. Longer blocks come from the shared
// heap. In front of both are stacks of ready blocks, one for each length up to 8 KiB: taken, but
// not live. A stack that overflows and then runs empty is too short, and becomes twice as long, as
// long as the thread's share of what the heap holds allows it.
//
// A block of a region is freed by its owner, or through the owner's list of remote frees. Once its
// thread has ended nobody owns it, and whoever frees a block does so with the lock of the heap. A
// long block may be freed by any thread.
//
// Thread-safety: every function is the owner's, unless it says otherwise. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_LOCAL_HEAP_H_
#define REPRISE_REPLAY_ARENA_LOCAL_HEAP_H_

#include <stdint.h>

#include "replay/arena/arena_tables.h"
#include "replay/arena/heap.h"
#include "replay/arena/regions.h"
#include "replay/arena/remote_frees.h"
#include "replay/plan/counters.h"

namespace reprise::replay {

class LocalHeap {
 public:
  static constexpr uint64_t kMostReady = 8 << 10;  // bytes of a block that may be ready

  // Once, before the first thread has it. `number` is this heap's among all, from 1 on.
  void Start(Heap* heap, ArenaTables* tables, uint64_t arena_bytes, uint32_t number);
  // A thread begins to own it, with the lock of the heap. What it allocates is counted there, and
  // with what others count what they freed that was no live block.
  void Open(HeapCounters* counters, uint64_t* invalid_frees);
  // Its thread ends, which has the lock of the heap. Blocks may live on.
  void Close();

  // The usual case: a block that is ready. Null: nothing has happened.
  //
  void* AllocateQuickly(uint64_t bytes) {
    if (__builtin_expect(bytes > kMostReady, 0)) return nullptr;
    const uint64_t length = LengthOf(bytes);
    Ready& ready = ready_[length];
    if (__builtin_expect(ready.top == ready.first, 0)) return nullptr;
    char* block = *--ready.top;
    const uint64_t offset = regions_.OffsetOf(block);
    const uint64_t small = live_.Get(offset) | LiveMarks::SmallAt(offset);
    live_.Set(offset, Choose(length <= kMostGranules, small, LongMark(length)));
    return Count(block);
  }
  // The same of a free. False: it is no live block, or not this heap's, or there is no room for it,
  // and nothing has happened.
  bool FreeQuickly(void* pointer) {
    const uint64_t offset = regions_.OffsetOf(pointer);
    if (__builtin_expect(offset >= bytes_, 0)) return false;
    const uint64_t mark = live_.Get(offset);
    uint64_t length, after = 0;
    if (LiveMarks::IsLong(mark)) {
      length = mark - LongMark(0);
      if (length <= kMostGranules || length >= kLengths || offset % kHeapUnit != 0) return false;
    } else {
      const Region& region = regions_.At(offset);
      after = mark & ~LiveMarks::SmallAt(offset);
      if (mark == after || offset % kGranule != 0 || !regions_.Owns(region)) return false;
      length = Regions::LengthAt(region, offset);
    }
    Ready& ready = ready_[length];
    char** const top = ready.top;
    if (__builtin_expect(top == ready.limit, 0)) return false;
    live_.Set(offset, after);
    *top = static_cast<char*>(pointer);
    ready.top = top + 1;
    return true;
  }

  // A block of so many bytes, aligned to `alignment` (a power of two). Null: the arena has no room.
  void* Allocate(uint64_t bytes, uint64_t alignment = 16);
  // Frees a live block of a region that this heap owns; false: it is none.
  bool FreeSmall(void* pointer);
  // Frees a live block of the shared heap; false: it is none.
  bool FreeLarge(void* pointer);
  // Makes such a block, small or long, as long as that where it is; false: nothing has happened.
  bool Resize(void* pointer, uint64_t bytes);
  // Frees a block of a region of this heap. By any other thread; false: it is no live block.
  bool FreeRemotely(void* pointer);
  // Bytes of the live block of a region that begins there, whoever owns it; 0: none does. By any
  // thread, if the block stays live meanwhile.
  uint64_t UsableSmall(const void* pointer) const { return regions_.UsableAt(pointer); }

  LocalHeap* next_closed = nullptr;  // in the arena's list; with the lock of the heap

 private:
  static constexpr uint64_t kMostGranules = kMostSmall / kGranule;
  // Of ready blocks: their granules, if they are small, else their units and kFromUnits more.
  static constexpr uint64_t kFromUnits = kMostGranules - kMostSmall / kHeapUnit;
  static constexpr uint64_t kLengths = kMostReady / kHeapUnit + kFromUnits + 1;
  static_assert(kMostReady / kHeapUnit < LiveMarks::kMany);
  static constexpr uint64_t kMostOfOne = 64;  // ready blocks of one length
  static constexpr uint64_t kMostLarge = 32;  // the same, if they are no small ones
  static constexpr uint16_t kOverflown = 16;
  static constexpr uint64_t kSlots = 8 << 10;  // for ready blocks of all lengths

  // Blocks of one length that are ready: a stack.
  struct Ready {
    char** top;
    char** first;  // a part of slots_
    char** limit;
    uint16_t batch;    // so many are made ready at a time
    uint16_t refills;  // since it became longer; kOverflown: that is to happen with the next one
    uint64_t count() const { return static_cast<uint64_t>(top - first); }
    uint64_t most() const { return static_cast<uint64_t>(limit - first); }
  };
  static uint64_t LengthOf(uint64_t bytes) {
    return Choose(bytes <= kMostSmall, (bytes + kGranule - 1) / kGranule,
                  (bytes + kHeapUnit - 1) / kHeapUnit + kFromUnits);
  }
  static uint64_t BytesOf(uint64_t length) {
    return length <= kMostGranules ? length * kGranule : (length - kFromUnits) * kHeapUnit;
  }
  void* Count(char* block) {
    ++counters_->allocations;
    counters_->addresses += reinterpret_cast<uint64_t>(block);
    return block;
  }
  // Of a ready block that is no small one.
  static constexpr uint64_t LongMark(uint64_t length) {
    return length - kFromUnits + LiveMarks::kSmall;
  }
  // One of two numbers, without a branch: of a program's blocks it is hard to guess whether the
  // next one is small.
  static uint64_t Choose(bool first, uint64_t one, uint64_t other) {
    const uint64_t mask = 0 - uint64_t{first};
    return (one & mask) | (other & ~mask);
  }
  void SetUpReady();
  void Grow(uint64_t length);
  void Refill(uint64_t length);
  void Put(char* block, uint64_t length);
  void Return(char** blocks, uint64_t count, uint64_t length);
  void GiveSpareRegions();
  uint64_t TakeUnits(uint64_t units, uint64_t step);
  void TakeInRemoteFrees(void* first);

  // Hot.
  HeapCounters* counters_;
  uint64_t bytes_;  // of the arena
  LiveMarks live_;
  Regions regions_;
  Ready ready_[kLengths];

  Heap* heap_;
  bool open_;             // with the lock of the heap
  uint64_t grown_bytes_;  // for which there is room on the stacks beside that of the beginning
  uint64_t used_slots_;
  uint64_t* invalid_frees_;  // atomic

  // Touched by other threads.
  alignas(64) RemoteFrees remote_;

  alignas(64) char* slots_[kSlots];
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_LOCAL_HEAP_H_
