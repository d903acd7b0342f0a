// What the exported functions forward to: the whole allocation family, with the call site as an
// argument. Linkable into a test without being preloaded. Semantics (errno, alignment, zero sizes)
// are glibc's in every mode.
#ifndef REPRISE_INTERPOSE_HOOKS_H_
#define REPRISE_INTERPOSE_HOOKS_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"
#include "interpose/replay/replayer.h"

namespace reprise::interpose {

// Close together, because a program that allocates seldom has to fetch them again each time.
#define REPRISE_HOT __attribute__((noinline, hot))

void* RecordedMalloc(size_t size, Caller caller);
void* RecordedCalloc(size_t count, size_t size, Caller caller);
void* RecordedRealloc(void* pointer, size_t size, Caller caller);
size_t RecordedUsable(void* pointer);
void RecordedFree(void* pointer);
void* MallocInOtherModes(size_t size, Caller caller);
void* CallocInOtherModes(size_t count, size_t size, Caller caller);
void* ReallocInOtherModes(void* pointer, size_t size, Caller caller);
size_t UsableInOtherModes(void* pointer);
void FreeInOtherModes(void* pointer);
void* NewAgain(size_t size, size_t alignment, bool may_throw, Caller caller);
// By the C++ runtime's operator new of that name, which returns null instead of throwing. No
// alignment (0): the form has none.
void* NewByRuntime(const char* name, size_t size, size_t alignment, Caller caller);

// Whether that is the mode, and this no forked child that does not know it yet.
inline bool ModeIs(Mode mode) {
  return __atomic_load_n(&fast_state.mode, __ATOMIC_RELAXED) == static_cast<uint64_t>(mode);
}

// Inlined where libc is overridden: there return address and frame are at hand. Nothing is saved on
// the stack on the usual ways, which end in a jump.
inline void* MallocByMode(size_t size, Caller caller) {
  const uint64_t now = __atomic_load_n(&fast_state.mode, __ATOMIC_RELAXED);
  if (__builtin_expect(now == static_cast<uint64_t>(Mode::kReplay), 1)) {
    return ReplayMallocSlowly(size, caller);
  }
  if (now == static_cast<uint64_t>(Mode::kRecord)) return RecordedMalloc(size, caller);
  return MallocInOtherModes(size, caller);
}
template <typename AnyCaller>
[[gnu::always_inline]] inline void* HookMalloc(size_t size, AnyCaller caller) {
  return ReplayMallocOr<MallocByMode>(size, caller);
}

inline void HookFree(void* pointer) {
  if (__builtin_expect(ReplayExpectedFree(pointer), 1)) return;
  const uint64_t now = __atomic_load_n(&fast_state.mode, __ATOMIC_RELAXED);
  if (__builtin_expect(now == static_cast<uint64_t>(Mode::kReplay), 1)) {
    return ReplayFreeSlowly(pointer);
  }
  if (now == static_cast<uint64_t>(Mode::kRecord)) return RecordedFree(pointer);
  FreeInOtherModes(pointer);
}

inline void* HookCalloc(size_t count, size_t size, Caller caller) {
  return ModeIs(Mode::kRecord) ? RecordedCalloc(count, size, caller)
                               : CallocInOtherModes(count, size, caller);
}
inline void* HookRealloc(void* pointer, size_t size, Caller caller) {
  if (ModeIs(Mode::kRecord)) return RecordedRealloc(pointer, size, caller);
  if (ModeIs(Mode::kReplay)) {
    if (pointer == nullptr) return HookMalloc(size, caller);
    if (void* fresh = ReplayReallocQuickly(pointer, size, caller)) return fresh;
  }
  return ReallocInOtherModes(pointer, size, caller);
}
inline size_t HookUsableSize(void* pointer) {
  if (ModeIs(Mode::kRecord)) return RecordedUsable(pointer);
  return ModeIs(Mode::kReplay) ? ReplayUsable(pointer) : UsableInOtherModes(pointer);
}
void* HookReallocArray(void* pointer, size_t count, size_t size, Caller caller);
void* HookMemalign(size_t alignment, size_t size, Caller caller);
void* HookAlignedAlloc(size_t alignment, size_t size, Caller caller);
int HookPosixMemalign(void** out, size_t alignment, size_t size, Caller caller);
void* HookValloc(size_t size, Caller caller);
void* HookPvalloc(size_t size, Caller caller);

// reprise/marks.h: an iteration begins. Nothing in replay, unless that is recorded.
void HookMark();

// operator new: null is returned only when no new handler is left that could free memory and
// std::bad_alloc cannot be thrown. A run that follows its plan gets no null, and ends in jumps.
template <bool may_throw>
inline void* NotNull(void* pointer, size_t size, Caller caller) {
  if (__builtin_expect(pointer != nullptr, 1)) return pointer;
  return NewAgain(size, 0, may_throw, caller);
}
template <bool may_throw>
REPRISE_HOT void* NewByMode(size_t size, Caller caller) {
  if (__builtin_expect(size == 0, 0)) return NewAgain(size, 0, may_throw, caller);
  return NotNull<may_throw>(MallocByMode(size, caller), size, caller);
}
template <bool may_throw>
REPRISE_HOT void* NewGuarded(size_t size, replay::Lane* lane, Caller caller) {
  return NotNull<may_throw>(ReplayMallocGuarded(size, lane), size, caller);
}
// 0 bytes are what no stream expects, so that these need be told apart only later.
template <bool may_throw>
[[gnu::always_inline]] inline void* HookNew(size_t size, ThisCaller caller) {
  return ReplayMallocOr<NewByMode<may_throw>, NewGuarded<may_throw>>(size, caller);
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_HOOKS_H_
