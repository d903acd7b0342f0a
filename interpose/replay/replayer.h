// The replayer: serves the program's allocations from the plan, from the thread's local heap what
// does not fit it, and from the program's own allocator what the arena has no room for.
#ifndef REPRISE_INTERPOSE_REPLAY_REPLAYER_H_
#define REPRISE_INTERPOSE_REPLAY_REPLAYER_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"
#include "replay/arena/lane.h"
#include "replay/arena/local_heap.h"

namespace reprise::interpose {

// Brings the counters up to date.
void PublishReplay();

// A forked child goes on without a plan: it gets everything new from the allocator that the program
// has without us. What it inherited stays usable and is never given back.
void StopReplayAfterFork();

// Bytes usable in a block that a forked child inherited. Waits for nobody: a thread that was
// changing the arena at the fork never gets any further.
size_t InheritedUsable(const void* pointer);

// The calling thread ends: it leaves its lane and its local heap.
void EndReplayThread();

// Notes in `this_thread` what the thread's lane does now.
inline void NoteWay() {
  replay::Lane* lane = this_thread.lane;
  const bool follows = lane != nullptr && !lane->is_off_plan();
  this_thread.plain = this_thread.quiet = follows && process.mode == Mode::kReplay ? lane : nullptr;
  this_thread.off_plan = follows ? nullptr : this_thread.heap;
}

// Whether a hook is changing this thread's state: then this is a signal handler, which must keep
// out of the arena.
inline bool IsBusy() {
  return this_thread.busy != 0 || (this_thread.plain == nullptr && this_thread.quiet != nullptr);
}

// Of a request, as the plan's keys have it.
inline uint64_t LiveSite(Caller caller) {
  return replay::LiveSite(caller.return_address(), DepthOf(caller));
}

// Keeps signal handlers out, of a thread without a `quiet` lane.
inline void BeginBusy() {
  this_thread.busy = ~uint64_t{0};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
inline void EndBusy() {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  this_thread.busy = 0;
}

// The `quiet` lane, from which signal handlers are kept out until it is given back; null: there is
// none, or a hook is active. To take it away is the mark itself: one load less than to look at a
// mark. A handler that comes in between finds it, and has given it back when it ends.
inline replay::Lane* TakeQuiet() {
  replay::Lane* lane = this_thread.plain;
  if (__builtin_expect(lane == nullptr, 0)) return nullptr;
#if defined(__x86_64__)
  asm volatile("movq $0, %0" : "=m"(this_thread.plain) : : "memory");
#else
  this_thread.plain = nullptr;
#endif
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return lane;
}
// After the stream was followed: nothing can have changed what `quiet` is.
inline void GiveBack(replay::Lane* lane) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  this_thread.plain = lane;
}
// After nothing has happened: a handler that came first may have made the lane leave its plan.
inline void GiveBack() { GiveBack(this_thread.quiet); }

// Keeps signal handlers out of everything: for changes after which the lane may be off plan.
class Busy {
 public:
  Busy() {
    this_thread.plain = nullptr;
    BeginBusy();
  }
  ~Busy() {
    NoteWay();
    EndBusy();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

void* ReplayMallocGuarded(size_t size, replay::Lane* lane);
// What the stream does not tell. A thread that is off plan first looks for a block that is ready.
[[gnu::hot]] void* ReplayMallocSlowly(size_t size, Caller caller);
[[gnu::hot]] void ReplayFreeSlowly(void* pointer);
// What the stream of a lane with a map expects.
[[gnu::hot]] void ReplayFreeGuarded(void* pointer, replay::Lane* lane);

// A run that follows its plan goes no further than these. They call nothing, so that nothing need
// be saved on the stack. What one call writes and the next one reads is the cursor alone.
//
// A forked child that does not know yet that it is one goes on with its copy of the lane, until
// something is not as planned.

// The register that a function's first argument comes in is left to it, also for those that are
// jumped to with it. gcc would move it away, and malloc be longer than two lines.
inline void KeepInPlace(size_t& first_argument) {
#if defined(__x86_64__)
  asm("" : "+D"(first_argument));
#endif
}
inline void* ReplayMallocGuarded(size_t size, replay::Lane* lane, Caller) {
  return ReplayMallocGuarded(size, lane);
}
// What the stream does not expect is `otherwise`'s, what a lane with a map is to place `guarded`'s.
// A caller is a Caller, or ThisCaller in an exported function, which this is then a part of in any
// build.
template <void* (*otherwise)(size_t size, Caller caller),
          void* (*guarded)(size_t size, replay::Lane* lane, Caller caller) = ReplayMallocGuarded,
          typename AnyCaller>
[[gnu::always_inline]] inline void* ReplayMallocOr(size_t size, AnyCaller caller) {
  if (replay::Lane* lane = TakeQuiet()) {
    const uint32_t* next = lane->Next();
    const uint64_t differs = lane->Differs(next, size, caller);
    // A guarded placement is near, and not among what is unlikely: a short jump.
    if (__builtin_expect_with_probability(differs == 0, 1, 0.7)) {
      void* pointer = lane->PlaceUnguarded(next);
      GiveBack(lane);
      return pointer;
    }
    if (__builtin_expect(differs == replay::Lane::kGuarded, 1)) {
      return guarded(size, lane, caller);
    }
    GiveBack();
  }
  KeepInPlace(size);
  return otherwise(size, caller);
}
// The same of a free. What is guarded goes on in ReplayFreeGuarded.
template <void (*otherwise)(void* pointer)>
[[gnu::always_inline]] inline void ReplayFreeOr(void* pointer) {
  if (replay::Lane* lane = TakeQuiet()) {
    const uint32_t* next = lane->Next();
    const uint64_t differs = lane->FreeDiffers(next, pointer);
    if (__builtin_expect(differs == 0, 1)) {
      lane->FreeUnguarded(next);
      return GiveBack(lane);
    }
    if (__builtin_expect(differs == replay::Lane::kGuardedFree, 1)) {
      return ReplayFreeGuarded(pointer, lane);
    }
    GiveBack();
  }
  otherwise(pointer);
}
// The same where it is a part of something else.
[[gnu::noinline]] void* ReplayMalloc(size_t size, Caller caller);
[[gnu::noinline]] void ReplayFree(void* pointer);
void* ReplayCalloc(size_t bytes, Caller caller);
void* ReplayAllocate(size_t size, size_t alignment, uint64_t site);
void* ReplayRealloc(void* pointer, size_t size, Caller caller);
// What the stream expects, or what may stay where it is off plan; null: nothing has happened.
void* ReplayReallocQuickly(void* pointer, size_t size, Caller caller);
size_t ReplayUsable(void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAY_REPLAYER_H_
