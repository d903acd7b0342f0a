// The replayer: serves the program's allocations from the plan, and from the fallback what does not
// fit it.
#ifndef REPRISE_INTERPOSE_REPLAY_REPLAYER_H_
#define REPRISE_INTERPOSE_REPLAY_REPLAYER_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"
#include "interpose/replay/fallback.h"
#include "replay/arena/lane.h"

namespace reprise::interpose {

// Gives back what is resident of code that a start needs and little else.
[[gnu::hot]] void DropCodeOfStart();
// And all else that is resident because a start needed it.
[[gnu::hot]] void DropPagesOfStart();

// Brings the counters up to date.
void PublishReplay();

// A forked child goes on without a plan, and without the fallback (FallbackForget): it gets
// everything new from the allocator that the program has without us. What it inherited stays
// usable and is never given back.
void StopReplayAfterFork();

// Bytes usable in a block that a forked child inherited. Waits for nobody: a thread that was
// changing the block's lane at the fork never gets any further.
size_t InheritedUsable(const void* pointer);

// The calling thread ends: it leaves its lane, which it took with its first allocation.
void EndReplayThread();

// Notes in `this_thread` what the thread's lane does now.
inline void NoteWay() {
  replay::Lane* lane = this_thread.lane;
  const bool free = lane != nullptr && lane->running_free();
  this_thread.plain = this_thread.quiet = !free && process.mode == Mode::kReplay ? lane : nullptr;
  this_thread.roaming = free && lane->gives_kept() ? lane : nullptr;
}

// Whether a hook is changing this thread's state: then this is a signal handler, which must keep
// out of the thread's lane and heap.
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
#if defined(__x86_64__)
  const uint64_t zero = 0;  // in a register: less code than to write it out
  asm volatile("movq %1, %0" : "=m"(this_thread.busy) : "r"(zero) : "memory");
#else
  this_thread.busy = 0;
#endif
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
// After nothing has happened: a handler that came first may have made the lane run free.
inline void GiveBack() { GiveBack(this_thread.quiet); }

// Keeps signal handlers out of everything: for changes after which the lane may follow its stream
// no longer, or may rest.
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

[[gnu::hot]] void* ReplayMallocWithCare(size_t size, replay::Lane* lane);
void* ReplayMallocResting(size_t size, replay::LaneCounters* counters);
void* ReplayMallocRoaming(size_t size, Caller caller, replay::Lane* lane);
[[gnu::hot]] void* ReplayMallocApart(size_t size, Caller caller);
void ReplayFreeRoaming(void* pointer, replay::Lane* lane);
void ReplayFreeResting(void* pointer);
void ReplayFreeAside(void* pointer);
[[gnu::hot]] void ReplayFreeApart(void* pointer);

// In a lane that runs free; null: nothing has happened.
inline void* ReplayTakeKept(size_t size, replay::Lane* lane) {
  BeginBusy();
  void* pointer = lane->AllocateKeptQuickly(replay::PlainShape(size));
  EndBusy();
  return pointer;
}

// What the stream does not tell. One comparison each: the lane does not run free, or does not rest,
// or a hook is active.
inline void* ReplayMallocSlowly(size_t size, Caller caller) {
  replay::Lane* lane = this_thread.roaming;
  if (__builtin_expect(reinterpret_cast<uint64_t>(lane) > this_thread.busy, 1)) {
    return ReplayMallocRoaming(size, caller, lane);
  }
  replay::LaneCounters* resting = this_thread.resting;
  if (reinterpret_cast<uint64_t>(resting) > this_thread.busy)
    return ReplayMallocResting(size, resting);
  return ReplayMallocApart(size, caller);
}
inline void ReplayFreeSlowly(void* pointer) {
  replay::Lane* lane = this_thread.roaming;
  if (__builtin_expect(reinterpret_cast<uint64_t>(lane) > this_thread.busy, 1)) {
    return ReplayFreeRoaming(pointer, lane);
  }
  if (reinterpret_cast<uint64_t>(this_thread.resting) > this_thread.busy)
    return ReplayFreeResting(pointer);
  if (IsFallback(pointer) && !IsBusy()) return ReplayFreeAside(pointer);
  ReplayFreeApart(pointer);
}

// A run that follows its plan goes no further than these. They call nothing, so that nothing need
// be saved on the stack. What one call writes and the next one reads is the cursor alone: loads
// that wait for stores are what they cost, and loads; and the bytes of their code, which is fetched
// in pieces of 64 (exports.cc): so the mark of a busy thread is what a register holds already.
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
inline void* ReplayMallocWithCare(size_t size, replay::Lane* lane, Caller) {
  return ReplayMallocWithCare(size, lane);
}
// What the stream does not expect is `otherwise`'s, what takes care is `with_care`'s. A caller is a
// Caller, or ThisCaller in an exported function, which this is then a part of in any build.
template <void* (*otherwise)(size_t size, Caller caller),
          void* (*with_care)(size_t size, replay::Lane* lane, Caller caller) = ReplayMallocWithCare,
          typename AnyCaller>
[[gnu::always_inline]] inline void* ReplayMallocOr(size_t size, AnyCaller caller) {
  if (replay::Lane* lane = TakeQuiet()) {
    const uint32_t* next = lane->Next();
    const uint64_t differs = lane->Differs(next, size, caller);
    // What takes care is near, and not among what is unlikely: a short jump.
    if (__builtin_expect_with_probability(differs == 0, 1, 0.7)) {
      void* pointer = lane->PlacePlainly(next);
      GiveBack(lane);
      return pointer;
    }
    if (__builtin_expect(differs == replay::Lane::kWithCare, 1)) {
      return with_care(size, lane, caller);
    }
    GiveBack();
  }
  KeepInPlace(size);
  return otherwise(size, caller);
}
// False: nothing has happened.
inline bool ReplayExpectedFree(const void* pointer) {
  replay::Lane* lane = TakeQuiet();
  if (__builtin_expect(lane == nullptr, 0)) return false;
  if (__builtin_expect(!lane->FreeExpected(pointer), 0)) {
    GiveBack();
    return false;
  }
  GiveBack(lane);
  return true;
}

// The same where it is a part of something else.
[[gnu::noinline]] void* ReplayMalloc(size_t size, Caller caller);
[[gnu::noinline]] void ReplayFree(void* pointer);
[[gnu::hot]] void* ReplayCalloc(size_t bytes, Caller caller);
void* ReplayAllocate(size_t size, size_t alignment, uint64_t site);
[[gnu::hot]] void* ReplayRealloc(void* pointer, size_t size, Caller caller);
// What the stream expects, or what may stay where it is in a lane that runs free; null: nothing has
// happened.
[[gnu::hot]] void* ReplayReallocQuickly(void* pointer, size_t size, Caller caller);
[[gnu::hot]] size_t ReplayUsable(void* pointer);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAY_REPLAYER_H_
