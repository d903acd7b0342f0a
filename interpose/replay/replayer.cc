#include "interpose/replay/replayer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/system_call.h"
#include "interpose/process/address_map.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/shared_page.h"
#include "interpose/process/side_heap.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"
#include "interpose/process/unwind.h"
#include "interpose/replay/fallback.h"
#include "interpose/replay/replay_setup.h"

namespace reprise::interpose {

using replay::Lane;
using replay::LaneCounters;
using replay::Shape;

namespace {

// Blocks of at least this many bytes are zeroed by giving their pages back, so that a large calloc
// that is used sparsely stays sparse.
constexpr uint64_t kZeroByPages = 128 << 10;

// Those that nobody else changes; null: the thread has none.
inline LaneCounters* OwnCounters() {
  return this_thread.lane != nullptr ? this_thread.lane->counters() : this_thread.own_counters;
}

inline void CountIn(LaneCounters* counters, void* pointer) {
  ++counters->fallback;
  counters->fallback_addresses += reinterpret_cast<uint64_t>(pointer);
}

void CountFallback(void* pointer) {
  LaneCounters* counters = OwnCounters();
  if (counters != nullptr && !IsBusy()) return CountIn(counters, pointer);
  // Several threads share these.
  counters = replay_arena.other_counters();
  __atomic_fetch_add(&counters->fallback, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters->fallback_addresses, reinterpret_cast<uint64_t>(pointer),
                     __ATOMIC_RELAXED);
}

}  // namespace

// Ours last: this is a part of it that stays. mimalloc's symbols the loader has looked through for
// each of the program's functions.
void DropCodeOfStart() {
  DropFallbackCode();
  DropCleanPages(reinterpret_cast<const void*>(&ReplayRealloc));
}

// The C library's, too, which to load the program and to start mimalloc has brought: as much as
// replay's own pages. In a short run it would cost more than it is worth.
void DropPagesOfStart() {
  if (HasLongPlan()) DropCleanPages(reinterpret_cast<const void*>(&madvise));
  DropCodeOfStart();
}

namespace {

[[gnu::hot]] void TakeLane(uint64_t first_shape, uint64_t first_site) {
  if (this_thread.lane_tried != 0 || this_thread.ended != 0) return;
  this_thread.lane_tried = 1;
  if (this_thread.path == 0) NameUnknownThread(replay::AddressOfSite(first_site));
  const SignalBlock block;
  this_thread.lane = replay_arena.Take(this_thread.path, first_shape, first_site);
  if (this_thread.lane != nullptr) {
    this_thread.lane->SetStackBase(this_thread.stack_base);
  } else {
    this_thread.own_counters = replay_arena.TakeCounters();
  }
  NoteWay();
  // To take the first lane is a part of the start.
  if (this_thread.id == 0) DropPagesOfStart();
}

// Where mimalloc is refused pages (mmap and mprotect, by a seccomp filter) the program's own
// allocator may still get some (brk).
__attribute__((noinline, cold)) void* AllocateLast(size_t size, size_t alignment, bool zero) {
  if (zero) return real.calloc(1, size);
  return alignment <= 16 ? real.malloc(size) : real.memalign(alignment, size);
}

// What does not come from the lane. The caller is not interrupting a hook, and is busy. A thread's
// exit hook stands in one row with mimalloc's, which takes the thread's heap away.
void* AllocateAside(size_t size, size_t alignment, bool zero) {
  if (this_thread.leaving == 0 && this_thread.exit_rounds == 0) {
    void* pointer = FallbackAllocate(size, alignment, zero);
    return pointer != nullptr ? pointer : AllocateLast(size, alignment, zero);
  }
  void* pointer = SideAllocate(size, alignment);
  if (pointer == nullptr) errno = ENOMEM;
  return pointer;
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
  this_thread.lane = nullptr;
  this_thread.quiet = this_thread.plain = this_thread.roaming = nullptr;
  this_thread.resting = nullptr;
  this_thread.heap = this_thread.aligned_heap = nullptr;
  this_thread.cache = nullptr;
  if (this_thread.own_counters == nullptr) this_thread.own_counters = replay_arena.TakeCounters();
  this_thread.busy = 0;
}

__attribute__((noinline)) void* AllocateElsewhere(size_t size, size_t alignment, bool zero) {
  void* pointer;
  if (IsBusy() && HookIsGone()) LeaveBehind();
  if (IsBusy()) {
    pointer = SideAllocate(size, alignment);
    if (pointer == nullptr) errno = ENOMEM;
  } else {
    const Busy busy;
    pointer = AllocateAside(size, alignment, zero);
  }
  if (pointer != nullptr) CountFallback(pointer);
  return pointer;
}

// In the thread's lane. When the first one leaves its stream, what that takes, and what it took to
// start threads, is hardly needed again.
inline void* AllocateInLane(uint64_t shape, uint64_t site) {
  void* pointer = this_thread.lane->Allocate(shape, site);
  const bool followed = this_thread.quiet != nullptr;  // as NoteWay left it
  if (__builtin_expect(followed && this_thread.lane->running_free(), 0)) {
    REPRISE_SHARED_PAGE static bool dropped = false;
    if (!__atomic_exchange_n(&dropped, true, __ATOMIC_RELAXED)) DropPagesOfStart();
  }
  return pointer;
}

// The planned place for a request, or null.
inline void* AllocatePlanned(size_t size, unsigned log2_alignment, uint64_t site) {
  if (__builtin_expect(size > kArena.bytes, 0)) return nullptr;  // would not fit a shape
  if (__builtin_expect(this_thread.lane == nullptr, 0)) {
    if (IsBusy()) return nullptr;
    TakeLane(Shape(size, log2_alignment), site);
    if (this_thread.lane == nullptr) return nullptr;
  }
  if (__builtin_expect(IsBusy(), 0)) return nullptr;
  const Busy busy;
  return AllocateInLane(Shape(size, log2_alignment), site);
}

void ZeroBlock(void* pointer, size_t bytes) {
  if (bytes < kZeroByPages) {
    memset(pointer, 0, bytes);
    return;
  }
  const uint64_t begin = reinterpret_cast<uint64_t>(pointer);
  const uint64_t first = (begin + 4095) & ~uint64_t{4095};
  const uint64_t last = (begin + bytes) & ~uint64_t{4095};
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

// A block that is not in the calling thread's lane, or while a hook is active.
__attribute__((noinline, hot)) void FreeElsewhere(void* pointer) {
  if (replay_arena.Contains(pointer)) {
    Lane* lane = replay_arena.LaneOf(pointer);
    if (lane != nullptr && lane == this_thread.lane && !IsBusy()) {
      const Busy busy;
      lane->Free(pointer);
    } else if (lane != nullptr) {
      lane->FreeRemotely(pointer);
    } else {
      __atomic_fetch_add(&replay_arena.other_counters()->invalid_frees, 1, __ATOMIC_RELAXED);
    }
  } else if (IsFallback(pointer)) {
    if (IsBusy()) return FallbackFreeLater(pointer);
    const Busy busy;
    FallbackFree(pointer);
  } else if (IsSide(pointer)) {
    SideFree(pointer);
  } else if (!IsOurs(pointer)) {
    real.free(pointer);
  }
}

size_t UsableAnywhere(void* pointer) {
  if (replay_arena.Contains(pointer)) {
    Lane* lane = replay_arena.LaneOf(pointer);
    if (lane == nullptr) return 0;
    if (lane != this_thread.lane) return lane->UsableRemotely(pointer);
    if (IsBusy()) return lane->UsableIfQuiet(pointer);
    const Busy busy;
    return lane->Usable(pointer);
  }
  if (IsFallback(pointer)) return FallbackUsable(pointer);
  if (IsSide(pointer)) return SideUsable(pointer);
  return IsOurs(pointer) ? 0 : real.malloc_usable_size(pointer);
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

// Whether the block stays, in a lane that runs free; busy.
inline bool ReallocateInPlace(Lane* lane, void* pointer, size_t size) {
  if (!lane->ReallocateFreely(pointer, size)) return false;
  ++lane->counters()->reallocs;
  ++lane->counters()->reallocs_in_place;
  return true;
}

// What is no live block has no bytes; glibc would abort, here the program gets a fresh block and
// the free is counted.
[[gnu::hot]] void* ReallocateInLane(void* pointer, size_t size, uint64_t site) {
  const Busy busy;
  if (size <= kArena.bytes) {
    if (void* planned = ReallocateAsExpected(this_thread.lane, pointer, size, site)) return planned;
    if (ReallocateInPlace(this_thread.lane, pointer, size)) return pointer;
  }
  ++this_thread.lane->counters()->reallocs;
  this_thread.lane->set_keeps_pages(true);
  const size_t bytes = this_thread.lane->BytesToCopy(pointer);
  const size_t before = this_thread.lane->Free(pointer) ? bytes : 0;
  void* fresh = size <= kArena.bytes ? AllocateInLane(Shape(size, 4), site) : nullptr;
  if (fresh == nullptr) {
    fresh = AllocateAside(size, 16, /*zero=*/false);
    if (fresh != nullptr) CountFallback(fresh);
  }
  if (fresh == nullptr) {
    if (before != 0) this_thread.lane->Revive(pointer, before);
    this_thread.lane->set_keeps_pages(false);
    return nullptr;
  }
  if (fresh == pointer) {
    ++this_thread.lane->counters()->reallocs_in_place;
  } else {
    memmove(fresh, pointer, before < size ? before : size);
  }
  this_thread.lane->set_keeps_pages(false);
  return fresh;
}

__attribute__((noinline, hot)) void* ReplayMallocUnexpected(size_t size, Caller caller) {
  if (this_thread.lane != nullptr && !IsBusy() && size <= kArena.bytes) {
    const Busy busy;
    void* planned = AllocateInLane(Shape(size, 4), LiveSite(caller));
    if (__builtin_expect(planned != nullptr, 1)) return planned;
    void* aside = AllocateAside(size, 16, /*zero=*/false);
    if (aside != nullptr) CountIn(this_thread.lane->counters(), aside);
    return aside;
  }
  void* pointer = AllocatePlanned(size, 4, LiveSite(caller));
  if (__builtin_expect(pointer != nullptr, 1)) return pointer;
  return AllocateElsewhere(size, 16, /*zero=*/false);
}

// The thread's heap has nothing; busy.
__attribute__((noinline, cold)) void* RestingMallocFailed(size_t size) {
  ++OwnCounters()->unused;
  void* pointer = AllocateAside(size, 16, /*zero=*/false);
  if (pointer != nullptr) CountIn(OwnCounters(), pointer);
  EndBusy();
  return pointer;
}

__attribute__((noinline)) void* RestingMallocUncached(size_t size, LaneCounters* counters) {
  void* pointer = FallbackAllocateQuickly(this_thread.heap, size);
  if (__builtin_expect(pointer == nullptr, 0)) return RestingMallocFailed(size);
  counters->fallback_addresses += reinterpret_cast<uint64_t>(pointer);
  EndBusy();
  return pointer;
}

// Whether a request is mimalloc's without being looked at: the thread has no lane, or one that
// rests.
bool Rests() {
  if (this_thread.lane == nullptr) return this_thread.own_counters != nullptr;
  return this_thread.lane->running_free() && this_thread.lane->Rests();
}

// The same for many of the next ones.
bool GrantRest() {
  if (this_thread.lane != nullptr) return this_thread.lane->GrantRest();
  // No more than that: what signal handlers have freed waits for as long.
  constexpr uint64_t kMany = 1024;
  this_thread.own_counters->granted += kMany - this_thread.own_counters->unused;
  this_thread.own_counters->unused = kMany;
  return true;
}

}  // namespace

void* ReplayMallocResting(size_t size, LaneCounters* counters) {
  BeginBusy();
  if (__builtin_expect(--counters->unused == 0, 0)) this_thread.resting = nullptr;
  void* pointer = this_thread.cache->Take(size);
  if (pointer == nullptr) return RestingMallocUncached(size, counters);
  counters->fallback_addresses += reinterpret_cast<uint64_t>(pointer);
  EndBusy();
  return pointer;
}

namespace {

__attribute__((noinline)) void* ReplayMallocKept(size_t size, Caller caller, Lane* lane) {
  const uint64_t shape = replay::PlainShape(size);
  if (!Lane::CanBeKept(shape)) return ReplayMallocUnexpected(size, caller);
  BeginBusy();
  void* pointer = lane->AllocateKept(shape);
  EndBusy();
  return __builtin_expect(pointer != nullptr, 1) ? pointer : ReplayMallocUnexpected(size, caller);
}

__attribute__((noinline)) void ReplayFreeFreely(void* pointer, Lane* lane) {
  BeginBusy();
  const bool freed = lane->FreeFreely(pointer);
  EndBusy();
  if (__builtin_expect(!freed, 0)) ReplayFreeApart(pointer);
}

}  // namespace

void* ReplayMallocRoaming(size_t size, Caller caller, Lane* lane) {
  void* pointer = ReplayTakeKept(size, lane);
  return __builtin_expect(pointer != nullptr, 1) ? pointer : ReplayMallocKept(size, caller, lane);
}

void ReplayFreeRoaming(void* pointer, Lane* lane) {
  BeginBusy();
  const bool freed = lane->FreeKeptQuickly(pointer);
  EndBusy();
  if (__builtin_expect(!freed, 0)) ReplayFreeFreely(pointer, lane);
}

void ReplayFreeResting(void* pointer) {
  if (__builtin_expect(!IsFallback(pointer), 0)) return ReplayFreeApart(pointer);
  BeginBusy();
  const bool kept = this_thread.cache->Put(pointer);
  EndBusy();
  if (__builtin_expect(!kept, 0)) ReplayFreeAside(pointer);
}

void ReplayFreeAside(void* pointer) {
  this_thread.plain = nullptr;
  BeginBusy();
  FallbackFree(pointer);
  GiveBack();
  EndBusy();
}

void PublishReplay() { replay_arena.Publish(); }

void StopReplayAfterFork() {
  this_thread.lane = nullptr;
  NoteWay();
  this_thread.own_counters = nullptr;
  this_thread.resting = nullptr;
  this_thread.busy = 0;
  FallbackForget();
}

size_t InheritedUsable(const void* pointer) {
  if (const Lane* lane = replay_arena.LaneOf(pointer)) return lane->UsableIfQuiet(pointer);
  return IsFallback(pointer) ? FallbackUsable(pointer) : 0;
}

void EndReplayThread() {
  if (process.mode < Mode::kReplay) return;
  const SignalBlock block;
  if (this_thread.lane != nullptr) {
    Lane* lane = this_thread.lane;
    this_thread.lane = nullptr;
    NoteWay();
    this_thread.resting = nullptr;
    replay_arena.Leave(lane);
  }
  if (const LaneCounters* counters = this_thread.own_counters; counters != nullptr) {
    this_thread.own_counters = nullptr;
    this_thread.resting = nullptr;
    replay_arena.LeaveCounters(counters);
  }
  this_thread.lane_tried = 1;
  FallbackLeave();
}

void* ReplayMallocApart(size_t size, Caller caller) {
  if (!IsBusy() && Rests()) {
    const Busy busy;
    void* pointer = AllocateAside(size, 16, /*zero=*/false);
    if (pointer != nullptr) CountIn(OwnCounters(), pointer);
    if (this_thread.heap != nullptr && this_thread.leaving == 0 && this_thread.exit_rounds == 0) {
      if (FallbackMakeCache() && GrantRest()) this_thread.resting = OwnCounters();
    }
    if (pointer != nullptr) return pointer;
  }
  return ReplayMallocUnexpected(size, caller);
}

// The place is taken: the request goes elsewhere.
__attribute__((noinline)) void* ReplayMallocBlocked(Lane* lane, size_t size) {
  const Busy busy;
  void* pointer = lane->PlaceAsExpected();
  if (pointer != nullptr) return pointer;
  pointer = AllocateAside(size, 16, /*zero=*/false);
  if (pointer != nullptr) CountIn(OwnCounters(), pointer);
  return pointer;
}

void* ReplayMallocWithCare(size_t size, Lane* lane) {
  void* pointer = lane->PlaceWithCare();
  if (__builtin_expect(pointer == nullptr, 0)) return ReplayMallocBlocked(lane, size);
  GiveBack(lane);
  return pointer;
}

void* ReplayCalloc(size_t bytes, Caller caller) {
  void* pointer = nullptr;
  if (Lane* lane = TakeQuiet()) {
    const uint32_t* next = lane->Next();
    const uint64_t differs = lane->Differs(next, bytes, caller);
    if (differs == 0) pointer = lane->PlacePlainly(next);
    if (differs == Lane::kWithCare) pointer = lane->PlaceWithCare();
    GiveBack();
  }
  if (pointer == nullptr) pointer = AllocatePlanned(bytes, 4, LiveSite(caller));
  if (__builtin_expect(pointer == nullptr, 0)) return AllocateElsewhere(bytes, 16, /*zero=*/true);
  ZeroBlock(pointer, bytes);
  return pointer;
}

void* ReplayAllocate(size_t size, size_t alignment, uint64_t site) {
  void* pointer = AllocatePlanned(size, 63 - __builtin_clzll(alignment | 1), site);
  return pointer != nullptr ? pointer : AllocateElsewhere(size, alignment, /*zero=*/false);
}

void ReplayFreeApart(void* pointer) {
  if (this_thread.lane != nullptr && !IsBusy() && this_thread.lane->Owns(pointer)) {
    const Busy busy;
    this_thread.lane->Free(pointer);
  } else if (pointer != nullptr) {
    FreeElsewhere(pointer);
  }
}

void* ReplayMalloc(size_t size, Caller caller) {
  return ReplayMallocOr<ReplayMallocSlowly>(size, caller);
}

void ReplayFree(void* pointer) {
  if (__builtin_expect(!ReplayExpectedFree(pointer), 0)) ReplayFreeSlowly(pointer);
}

void* ReplayRealloc(void* pointer, size_t size, Caller caller) {
  if (size == 0) {
    ReplayFree(pointer);
    return nullptr;
  }
  if (this_thread.lane != nullptr && !IsBusy() &&
      replay_arena.LaneOf(pointer) == this_thread.lane) {
    return ReallocateInLane(pointer, size, LiveSite(caller));
  }
  const size_t before = UsableAnywhere(pointer);
  if (before == 0) {
    // Not a live block. glibc would abort; the program gets a fresh one and the free is counted.
    ReplayFree(pointer);
    return ReplayMalloc(size, caller);
  }
  void* fresh = ReplayMalloc(size, caller);
  if (fresh == nullptr) return nullptr;
  memcpy(fresh, pointer, before < size ? before : size);
  FreeElsewhere(pointer);
  return fresh;
}

void* ReplayReallocQuickly(void* pointer, size_t size, Caller caller) {
  if (size == 0 || size > kArena.bytes) return nullptr;
  if (Lane* quiet = TakeQuiet()) {
    void* planned = ReallocateAsExpected(quiet, pointer, size, LiveSite(caller));
    GiveBack();
    return planned;
  }
  Lane* lane = this_thread.roaming;
  if (reinterpret_cast<uint64_t>(lane) <= this_thread.busy) return nullptr;
  BeginBusy();
  const bool in_place = ReallocateInPlace(lane, pointer, size);
  EndBusy();
  return in_place ? pointer : nullptr;
}

size_t ReplayUsable(void* pointer) {
  if (const Lane* lane = this_thread.quiet) {
    const size_t usable = lane->UsableNoted(pointer);
    if (__builtin_expect(usable != 0, 1)) return usable;
  } else if (const Lane* free = this_thread.roaming) {
    const size_t usable = free->UsableFreely(pointer);
    if (__builtin_expect(usable != 0, 1)) return usable;
  }
  return UsableAnywhere(pointer);
}

}  // namespace reprise::interpose
