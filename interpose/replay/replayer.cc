#include "interpose/replay/replayer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/system_call.h"
#include "interpose/process/address_map.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/side_heap.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"
#include "interpose/process/unwind.h"
#include "interpose/replay/replay_setup.h"

namespace reprise::interpose {

using replay::Lane;
using replay::LaneCounters;
using replay::LocalHeap;
using replay::Shape;

namespace {

constexpr uint64_t kPage = base::kPageBytes;
// Blocks of at least this many bytes are zeroed by giving their pages back, so that a large calloc
// that is used sparsely stays sparse.
constexpr uint64_t kZeroByPages = 128 << 10;

// What the arena did not serve.
void* CountFallback(void* pointer) {
  if (pointer == nullptr) return nullptr;
  LaneCounters* counters = replay_arena.other_counters();
  __atomic_fetch_add(&counters->fallback, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters->fallback_addresses, reinterpret_cast<uint64_t>(pointer),
                     __ATOMIC_RELAXED);
  return pointer;
}

void CountInvalidFree() {
  __atomic_fetch_add(&replay_arena.other_counters()->invalid_frees, 1, __ATOMIC_RELAXED);
}

void CountRealloc(bool in_place) {
  if (this_thread.lane == nullptr) return;
  ++this_thread.lane->counters()->reallocs;
  this_thread.lane->counters()->reallocs_in_place += in_place ? 1 : 0;
}

// The thread's first request: its lane, if the plan has one.
void TakeLane(uint64_t first_shape, uint64_t first_site) {
  if (this_thread.lane_tried != 0 || this_thread.ended != 0) return;
  this_thread.lane_tried = 1;
  if (this_thread.path == 0) NameUnknownThread(replay::AddressOfSite(first_site));
  const SignalBlock block;
  this_thread.lane = replay_arena.TakeLane(this_thread.path, first_shape, first_site);
  if (this_thread.lane != nullptr) this_thread.lane->SetStackBase(this_thread.stack_base);
}

// The thread's local heap; null: it has none, or ends. Busy.
LocalHeap* TakeHeap() {
  if (this_thread.heap == nullptr && this_thread.ended == 0)
    this_thread.heap = replay_arena.TakeHeap(this_thread.lane);
  return this_thread.heap;
}

// Whether the hook that keeps the thread busy will never end: a signal handler that interrupted it
// was left by a jump (siglongjmp) to somewhere above it.
__attribute__((noinline, cold)) bool HookIsGone() {
  LoadedModule ours;
  return FindModule(reinterpret_cast<uint64_t>(&HookIsGone), &ours) &&
         !MayReturnInto(ours.begin, ours.end);
}

// What such a hook was changing may be half done: nothing of it is touched again.
__attribute__((noinline, cold)) void LeaveBehind() {
  const SignalBlock block;
  replay_arena.LeaveBehind();
  this_thread.lane = nullptr;
  this_thread.quiet = this_thread.plain = nullptr;
  this_thread.heap = this_thread.off_plan = nullptr;
  this_thread.busy = 0;
}

void ZeroBlock(void* pointer, size_t bytes) {
  if (bytes < kZeroByPages) {
    memset(pointer, 0, bytes);
    return;
  }
  const uint64_t begin = reinterpret_cast<uint64_t>(pointer);
  const uint64_t first = (begin + kPage - 1) & ~(kPage - 1);
  const uint64_t last = (begin + bytes) & ~(kPage - 1);
  memset(pointer, 0, first - begin);
  // The program may have mapped something else over pages of a block: what is shared, or a file's,
  // does not become zero that way, and is refused the second time.
  auto* const pages = reinterpret_cast<void*>(first);
  if (Advise(pages, last - first, MADV_DONTNEED) != 0 ||
      Advise(pages, last - first, MADV_FREE) != 0) {
    memset(pages, 0, last - first);
  }
  memset(reinterpret_cast<void*>(last), 0, begin + bytes - last);
}

// A request. `kept` bytes or more are to be usable.
struct Wanted {
  size_t size;
  size_t alignment = 16;
  bool zero = false;
};

void* Zeroed(void* pointer, const Wanted& wanted) {
  if (pointer != nullptr && wanted.zero) ZeroBlock(pointer, wanted.size);
  return pointer;
}

// From the program's own allocator, which fails as it would without us.
__attribute__((noinline, cold)) void* AllocateReal(const Wanted& wanted) {
  if (wanted.zero) return CountFallback(real.calloc(1, wanted.size));
  return CountFallback(wanted.alignment <= 16 ? real.malloc(wanted.size)
                                              : real.memalign(wanted.alignment, wanted.size));
}

// What the plan has no place for; so many bytes, at least. Busy.
void* AllocateElsewhere(const Wanted& wanted, size_t bytes) {
  if (replay_arena.IsAnyLeft()) replay_arena.FreeWhatWasLeft(this_thread.heap, this_thread.lane);
  LocalHeap* heap = TakeHeap();
  void* pointer = heap != nullptr ? heap->Allocate(bytes, wanted.alignment)
                                  : replay_arena.AllocateShared(bytes, wanted.alignment);
  return pointer != nullptr ? Zeroed(pointer, wanted) : AllocateReal(wanted);
}

// Busy.
void* AllocateAnywhere(const Wanted& wanted, uint64_t site) {
  if (__builtin_expect(wanted.size > kArena.bytes, 0)) return AllocateReal(wanted);
  const auto log2_alignment = static_cast<unsigned>(63 - __builtin_clzll(wanted.alignment | 1));
  const uint64_t shape = Shape(wanted.size, log2_alignment);
  TakeLane(shape, site);
  Lane* lane = this_thread.lane;
  size_t bytes = wanted.size;
  if (lane != nullptr && !lane->is_off_plan()) {
    const Lane::Placed placed = lane->Allocate(shape, site);
    if (lane->wants_to_leave()) lane->LeavePlan();
    if (placed.block != nullptr) return Zeroed(placed.block, wanted);
    if (placed.bytes > bytes) bytes = placed.bytes;
  }
  return AllocateElsewhere(wanted, bytes);
}

// What is not the expected request of a lane that follows.
__attribute__((noinline)) void* AllocateApart(const Wanted& wanted, uint64_t site) {
  if (IsBusy() && HookIsGone()) LeaveBehind();
  if (__builtin_expect(IsBusy(), 0)) {
    void* pointer = CountFallback(SideAllocate(wanted.size, wanted.alignment));
    if (pointer == nullptr) errno = ENOMEM;
    return pointer;
  }
  const Busy busy;
  return AllocateAnywhere(wanted, site);
}

// So few bytes are copied whether they were the old block's or are its neighbour's: the new block
// has undefined ones there, and to look up how long the old one was takes longer.
constexpr size_t kShortCopy = 4096;

// The plan lets the new block overlap the old one: its bytes are moved, not copied, and nothing may
// be placed over them until then, by a signal handler neither: the lane is taken, or busy. Null:
// the stream does not expect that, and nothing has happened.
inline void* ReallocateAsExpected(Lane* lane, void* pointer, size_t size, uint64_t site) {
  void* planned = lane->ReallocateExpected(pointer, size, site, size <= kShortCopy);
  if (planned == nullptr) return nullptr;
  ++lane->counters()->reallocs;
  if (planned == pointer) {
    ++lane->counters()->reallocs_in_place;
  } else {
    const uint64_t most = lane->BytesBehind(pointer);
    memmove(planned, pointer, size < most ? size : most);
  }
  return planned;
}

// A block of the thread's own lane, which follows: the plan may have the new block where the old
// one is. So that one is freed first, and the lane leaves its plan, if it must, when its bytes have
// been moved. What is no live block has no bytes; glibc would abort, here the program gets a fresh
// block and the free is counted.
void* ReallocateInLane(Lane* lane, void* pointer, size_t size, uint64_t site) {
  const Busy busy;
  lane->SettleBefore(pointer);
  if (void* planned = ReallocateAsExpected(lane, pointer, size, site)) return planned;
  lane->set_keeps_pages(true);
  const size_t usable = lane->Usable(pointer);
  const bool freed = usable != 0 && lane->Free(pointer);
  if (!freed) CountInvalidFree();
  const size_t before = freed ? usable : 0;
  const Lane::Placed placed = lane->Allocate(Shape(size, 4), site);
  void* fresh = placed.block;
  if (fresh == nullptr) {
    fresh = AllocateElsewhere({size}, size > placed.bytes ? size : placed.bytes);
  }
  if (fresh == nullptr) {
    if (before != 0) lane->Revive(pointer, before);
  } else if (fresh != pointer) {
    memmove(fresh, pointer, before < size ? before : size);
  }
  CountRealloc(fresh == pointer);
  lane->set_keeps_pages(false);
  if (lane->wants_to_leave()) lane->LeavePlan();
  return fresh;
}

__attribute__((noinline)) void FreeApart(void* pointer) {
  if (pointer == nullptr) return;
  if (replay_arena.Contains(pointer)) {
    if (IsBusy()) return replay_arena.FreeLater(pointer);
    const Busy busy;
    if (!replay_arena.Free(pointer, this_thread.heap, this_thread.lane)) CountInvalidFree();
  } else if (IsSide(pointer)) {
    SideFree(pointer);
  } else if (!IsOurs(pointer)) {
    real.free(pointer);
  }
}

// Off plan.
bool ResizeInPlace(void* pointer, size_t size) {
  if (this_thread.heap == nullptr || !replay_arena.Contains(pointer)) return false;
  return this_thread.heap->Resize(pointer, size);
}

}  // namespace

void PublishReplay() { replay_arena.Publish(); }

void StopReplayAfterFork() {
  this_thread.lane = nullptr;
  this_thread.heap = nullptr;
  NoteWay();
  this_thread.busy = 0;
}

size_t InheritedUsable(const void* pointer) {
  return replay_arena.Contains(pointer) ? replay_arena.Usable(pointer) : 0;
}

void EndReplayThread() {
  if (process.mode < Mode::kReplay) return;
  const SignalBlock block;
  replay_arena.Leave(this_thread.lane, this_thread.heap);
  this_thread.lane = nullptr;
  this_thread.heap = nullptr;
  this_thread.lane_tried = 1;
  NoteWay();
}

// One comparison tells that there is a heap, and that no hook is active.
void* ReplayMallocSlowly(size_t size, Caller caller) {
  LocalHeap* heap = this_thread.off_plan;
  if (__builtin_expect(reinterpret_cast<uint64_t>(heap) > this_thread.busy, 1)) {
    BeginBusy();
    void* pointer = heap->AllocateQuickly(size);
    EndBusy();
    if (__builtin_expect(pointer != nullptr, 1)) return pointer;
  }
  return AllocateApart({size}, LiveSite(caller));
}

// A block in its place or its length makes it more than a look at the map.
__attribute__((noinline)) void* ReplayMallocBlocked(Lane* lane, size_t size) {
  const Busy busy;
  const Lane::Placed placed = lane->PlaceAsExpected();
  if (lane->wants_to_leave()) lane->LeavePlan();
  if (placed.block != nullptr) return placed.block;
  return AllocateElsewhere({size}, size > placed.bytes ? size : placed.bytes);
}

void* ReplayMallocGuarded(size_t size, Lane* lane) {
  void* pointer = lane->PlaceGuarded();
  if (__builtin_expect(pointer == nullptr, 0)) return ReplayMallocBlocked(lane, size);
  GiveBack(lane);
  return pointer;
}

void* ReplayCalloc(size_t bytes, Caller caller) {
  void* pointer = nullptr;
  if (Lane* lane = TakeQuiet()) {
    const uint32_t* next = lane->Next();
    const uint64_t differs = lane->Differs(next, bytes, caller);
    if (differs == 0) pointer = lane->PlaceUnguarded(next);
    if (differs == Lane::kGuarded) pointer = lane->PlaceGuarded();
    GiveBack();
  }
  if (pointer == nullptr) return AllocateApart({bytes, 16, /*zero=*/true}, LiveSite(caller));
  ZeroBlock(pointer, bytes);
  return pointer;
}

void* ReplayAllocate(size_t size, size_t alignment, uint64_t site) {
  return AllocateApart({size, alignment}, site);
}

void ReplayFreeSlowly(void* pointer) {
  LocalHeap* heap = this_thread.off_plan;
  if (__builtin_expect(reinterpret_cast<uint64_t>(heap) > this_thread.busy, 1)) {
    BeginBusy();
    const bool freed = heap->FreeQuickly(pointer);
    EndBusy();
    if (__builtin_expect(freed, 1)) return;
  }
  FreeApart(pointer);
}

void ReplayFreeGuarded(void* pointer, Lane* lane) {
  if (__builtin_expect(lane->FreeGuarded(), 1)) return GiveBack(lane);
  GiveBack();
  ReplayFreeSlowly(pointer);
}

void* ReplayMalloc(size_t size, Caller caller) {
  return ReplayMallocOr<ReplayMallocSlowly>(size, caller);
}

void ReplayFree(void* pointer) { ReplayFreeOr<ReplayFreeSlowly>(pointer); }

void* ReplayRealloc(void* pointer, size_t size, Caller caller) {
  if (size == 0) {
    ReplayFree(pointer);
    return nullptr;
  }
  if (!IsOurs(pointer)) return CountFallback(real.realloc(pointer, size));
  Lane* lane = this_thread.lane;
  if (lane != nullptr && !IsBusy() && lane->Contains(pointer) && !lane->is_off_plan() &&
      size <= kArena.bytes) {
    return ReallocateInLane(lane, pointer, size, LiveSite(caller));
  }
  if (!IsBusy()) {
    const Busy busy;
    if (ResizeInPlace(pointer, size)) return CountRealloc(true), pointer;
  }
  const size_t before = ReplayUsable(pointer);
  void* fresh = ReplayMalloc(size, caller);
  if (fresh == nullptr) return nullptr;
  CountRealloc(false);
  memcpy(fresh, pointer, before < size ? before : size);
  FreeApart(pointer);  // counted, if it was no live block
  return fresh;
}

void* ReplayReallocQuickly(void* pointer, size_t size, Caller caller) {
  if (size == 0 || size > kArena.bytes) return nullptr;
  if (Lane* quiet = TakeQuiet()) {
    void* planned = ReallocateAsExpected(quiet, pointer, size, LiveSite(caller));
    GiveBack();
    return planned;
  }
  if (reinterpret_cast<uint64_t>(this_thread.off_plan) <= this_thread.busy) return nullptr;
  BeginBusy();
  const bool in_place = ResizeInPlace(pointer, size);
  if (in_place) CountRealloc(true);
  EndBusy();
  return in_place ? pointer : nullptr;
}

size_t ReplayUsable(void* pointer) {
  if (replay_arena.Contains(pointer)) return replay_arena.Usable(pointer);
  if (IsSide(pointer)) return SideUsable(pointer);
  return IsOurs(pointer) ? 0 : real.malloc_usable_size(pointer);
}

}  // namespace reprise::interpose
