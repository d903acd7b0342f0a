#include "interpose/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "interpose/process/address_map.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/side_heap.h"
#include "interpose/record/recorder.h"
#include "interpose/record/spool_modules.h"
#include "interpose/record/stacks.h"
#include "interpose/replay/replayer.h"
#include "interpose/startup.h"

namespace reprise::interpose {
namespace {

using trace::SpoolEventKind;

constexpr size_t kPage = base::kPageBytes;

// Where a request is to be served from. Starts the library on its first call, and notices a fork.
inline Mode CurrentMode() {
  const Mode mode = process.mode;
  if (__builtin_expect(mode <= Mode::kPlain, 0)) {
    if (mode == Mode::kUnstarted) {
      Start();
      return process.mode;
    }
    return mode;
  }
  if (Forked()) {
    AfterFork();
    return process.mode;
  }
  return mode;
}

inline bool Serves(Mode mode) { return mode >= Mode::kReplay; }

// Whether the block is of the time before the fork: of the plan or of the fallback.
inline bool IsInherited(Mode mode, const void* pointer) {
  return mode == Mode::kReplayChild && IsOurs(pointer);
}
inline bool RecordsPlainly(Mode mode) {
  return mode == Mode::kRecord || mode == Mode::kReplayRecord;
}
inline bool Records(Mode mode) { return RecordsPlainly(mode) || mode == Mode::kRecordStacks; }

// Records an allocation in the modes that record.
void NoteAllocation(Mode mode, trace::SpoolEventKind kind, void* pointer, size_t size,
                    Caller caller, unsigned log2_alignment = 0) {
  if (pointer == nullptr) return;
  if (RecordsPlainly(mode)) {
    NoteModule(caller.return_address());
    WriteAllocation(kind, pointer, size, SiteWord(caller), log2_alignment);
  } else if (mode == Mode::kRecordStacks) {
    WriteAllocation(kind, pointer, size, StackSiteWord(caller), log2_alignment);
  }
}

// A hook that is called while the library starts has no allocator to pass on to yet.
void* StartingAllocate(size_t size, size_t alignment = 16) {
  void* pointer = SideAllocate(size, alignment);
  if (pointer == nullptr) errno = ENOMEM;
  return pointer;
}

unsigned Log2(size_t alignment) { return 63 - __builtin_clzll(alignment | 1); }

bool IsPowerOfTwo(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

// glibc's memalign takes any alignment and rounds it up to a power of two.
size_t LegalAlignment(size_t alignment) {
  if (alignment <= 16) return 16;
  return IsPowerOfTwo(alignment) ? alignment : size_t{1} << (64 - __builtin_clzll(alignment));
}

template <typename Passed>
void* Aligned(size_t alignment, size_t size, Caller caller, Passed passed) {
  const Mode mode = CurrentMode();
  if (mode == Mode::kStarting) return StartingAllocate(size, LegalAlignment(alignment));
  void* pointer;
  if (Serves(mode)) {
    if (alignment > (size_t{1} << 62)) {
      errno = alignment > (size_t{1} << 63) ? EINVAL : ENOMEM;
      return nullptr;
    }
    pointer = ReplayAllocate(size, LegalAlignment(alignment), LiveSite(caller));
  } else {
    pointer = passed();
  }
  NoteAllocation(mode, trace::kSpoolAligned, pointer, size, caller,
                 Log2(LegalAlignment(alignment)));
  return pointer;
}

}  // namespace

// The site is put together before the call, because less is kept over it that way.
REPRISE_HOT void* RecordedMalloc(size_t size, Caller caller) {
  const uint64_t site = SiteWord(caller);
  NoteModule(caller.return_address());
  void* pointer = fast_state.malloc(size);
  if (__builtin_expect(pointer == nullptr, 0)) return nullptr;
  return WriteSized<trace::kSpoolSmallMalloc>(pointer, size, site);
}

REPRISE_HOT void* RecordedCalloc(size_t count, size_t size, Caller caller) {
  const uint64_t site = SiteWord(caller);
  NoteModule(caller.return_address());
  void* pointer = fast_state.calloc(count, size);
  if (__builtin_expect(pointer == nullptr, 0)) return nullptr;
  WriteEvent<3>(Word0(trace::kSpoolCalloc, pointer), site, count * size, count * size);
  return pointer;
}

namespace {

__attribute__((noinline, cold)) void* ReallocFailed(void* pointer, size_t size) {
  if (size != 0) RecordFree(trace::kSpoolReallocFailed, pointer);
  return nullptr;
}

}  // namespace

REPRISE_HOT void* RecordedRealloc(void* pointer, size_t size, Caller caller) {
  if (__builtin_expect(pointer == nullptr, 0)) return RecordedMalloc(size, caller);
  if (__builtin_expect(MayBeSide(pointer), 0)) return ReallocInOtherModes(pointer, size, caller);
  RecordFree(trace::kSpoolReallocFree, pointer);
  const uint64_t site = SiteWord(caller);
  NoteModule(caller.return_address());
  void* fresh = fast_state.realloc(pointer, size);
  if (__builtin_expect(fresh == nullptr, 0)) return ReallocFailed(pointer, size);
  return WriteSized<trace::kSpoolSmallRealloc>(fresh, size, site);
}

REPRISE_HOT size_t RecordedUsable(void* pointer) {
  if (__builtin_expect(pointer == nullptr, 0)) return 0;
  if (__builtin_expect(MayBeSide(pointer), 0)) return UsableInOtherModes(pointer);
  const size_t answer = real.malloc_usable_size(pointer);
  RecordUsable(pointer, answer);
  return answer;
}

REPRISE_HOT void RecordedFree(void* pointer) {
  if (__builtin_expect(pointer == nullptr, 0)) return;
  if (__builtin_expect(MayBeSide(pointer), 0)) return FreeInOtherModes(pointer);
  WriteFree(pointer);
}

// Of a recording with call stacks, where free is no different.
__attribute__((noinline)) void* MallocWithStack(size_t size, Caller caller) {
  void* pointer = real.malloc(size);
  if (__builtin_expect(pointer != nullptr, 1)) {
    WriteAllocation(trace::kSpoolMalloc, pointer, size, StackSiteWord(caller), 0);
  }
  return pointer;
}

__attribute__((noinline, cold)) void* MallocInOtherModes(size_t size, Caller caller) {
  if (ModeIs(Mode::kRecordStacks)) return MallocWithStack(size, caller);
  const Mode mode = CurrentMode();
  if (mode == Mode::kStarting) return StartingAllocate(size);
  void* pointer = Serves(mode) ? ReplayMalloc(size, caller) : real.malloc(size);
  NoteAllocation(mode, trace::kSpoolMalloc, pointer, size, caller);
  return pointer;
}

__attribute__((noinline, cold)) void FreeInOtherModes(void* pointer) {
  if (ModeIs(Mode::kRecordStacks) && !MayBeSide(pointer)) return RecordedFree(pointer);
  const Mode mode = CurrentMode();
  if (pointer == nullptr) return;
  if (IsSide(pointer)) return SideFree(pointer);
  if (mode == Mode::kStarting) return;  // nothing but the side heap has given out blocks yet
  if (Records(mode)) RecordFree(trace::kSpoolFree, pointer);
  if (Serves(mode)) {
    ReplayFree(pointer);
  } else if (!IsInherited(mode, pointer)) {
    real.free(pointer);
  }
}

// The block's successor, from elsewhere: inherited blocks are left as they are.
__attribute__((noinline, cold)) void* ReallocInherited(const void* pointer, size_t size) {
  if (size == 0) return nullptr;
  void* fresh = real.malloc(size);
  if (fresh == nullptr) return nullptr;
  const size_t before = InheritedUsable(pointer);
  return memcpy(fresh, pointer, before < size ? before : size);
}

__attribute__((noinline, hot)) void* CallocInOtherModes(size_t count, size_t size, Caller caller) {
  const Mode mode = CurrentMode();
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (mode == Mode::kStarting) return StartingAllocate(bytes);
  void* pointer = Serves(mode) ? ReplayCalloc(bytes, caller) : real.calloc(count, size);
  NoteAllocation(mode, trace::kSpoolCalloc, pointer, bytes, caller);
  return pointer;
}

__attribute__((noinline, hot)) void* ReallocInOtherModes(void* pointer, size_t size,
                                                         Caller caller) {
  const Mode mode = CurrentMode();
  if (mode == Mode::kStarting || IsSide(pointer)) {
    if (pointer == nullptr) return StartingAllocate(size);
    // A side block is not in the recording, so its successor enters as a plain allocation.
    void* fresh = mode == Mode::kStarting ? StartingAllocate(size) : HookMalloc(size, caller);
    if (fresh != nullptr) {
      const size_t before = SideUsable(pointer);
      memcpy(fresh, pointer, before < size ? before : size);
      SideFree(pointer);
    }
    return fresh;
  }
  if (pointer == nullptr) return HookMalloc(size, caller);
  if (IsInherited(mode, pointer)) return ReallocInherited(pointer, size);
  if (Records(mode)) RecordFree(trace::kSpoolReallocFree, pointer);
  void* fresh = Serves(mode) ? ReplayRealloc(pointer, size, caller) : real.realloc(pointer, size);
  if (!Records(mode)) return fresh;
  if (fresh != nullptr) {
    NoteAllocation(mode, trace::kSpoolReallocAlloc, fresh, size, caller);
  } else if (size != 0) {
    RecordFree(trace::kSpoolReallocFailed, pointer);
  }
  return fresh;
}

void* HookReallocArray(void* pointer, size_t count, size_t size, Caller caller) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return HookRealloc(pointer, bytes, caller);
}

void* HookMemalign(size_t alignment, size_t size, Caller caller) {
  return Aligned(alignment, size, caller, [=] { return real.memalign(alignment, size); });
}

void* HookAlignedAlloc(size_t alignment, size_t size, Caller caller) {
  return Aligned(alignment, size, caller, [=] { return real.aligned_alloc(alignment, size); });
}

int HookPosixMemalign(void** out, size_t alignment, size_t size, Caller caller) {
  if (!IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno;
  int result = ENOMEM;
  void* pointer = Aligned(alignment, size, caller, [&] {
    void* passed = nullptr;
    result = real.posix_memalign(&passed, alignment, size);
    return result == 0 ? passed : nullptr;
  });
  if (pointer == nullptr) return result;  // errno is ENOMEM then, as glibc leaves it
  errno = before;
  *out = pointer;
  return 0;
}

void* HookValloc(size_t size, Caller caller) {
  return Aligned(kPage, size, caller, [=] { return real.valloc(size); });
}

void* HookPvalloc(size_t size, Caller caller) {
  const size_t rounded = (size + kPage - 1) & ~(kPage - 1);
  if (rounded < size) {
    errno = ENOMEM;
    return nullptr;
  }
  return Aligned(kPage, rounded, caller, [=] { return real.pvalloc(size); });
}

__attribute__((noinline)) size_t UsableInOtherModes(void* pointer) {
  const Mode mode = CurrentMode();
  if (pointer == nullptr) return 0;
  if (IsSide(pointer)) return SideUsable(pointer);
  if (mode == Mode::kStarting) return 0;
  if (IsInherited(mode, pointer)) return InheritedUsable(pointer);
  const size_t answer = Serves(mode) ? ReplayUsable(pointer) : real.malloc_usable_size(pointer);
  if (Records(mode)) RecordUsable(pointer, answer);
  return answer;
}

__attribute__((noinline, cold)) void HookMark() {
  if (Records(CurrentMode())) WriteMark();
}

namespace {

// The C++ runtime belongs to the program: its parts are looked up when they are needed. A program
// without one may have loaded the caller together with one that nobody else sees.
__attribute__((noinline, cold)) void* RuntimeSymbol(const char* name, Caller caller) {
  if (void* symbol = NextSymbol(name)) return symbol;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(caller.return_address()), &info) == 0) return nullptr;
  void* module = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (module == nullptr) return nullptr;
  void* symbol = dlsym(module, name);
  dlclose(module);
  return symbol;
}

// Throws std::bad_alloc by the runtime's own function; returns when there is no C++ runtime.
void ThrowBadAlloc(Caller caller) {
  if (void* thrower = RuntimeSymbol("_ZSt17__throw_bad_allocv", caller)) {
    reinterpret_cast<void (*)()>(thrower)();
  }
}

using NewHandler = void (*)();

NewHandler FindNewHandler(Caller caller) {
  void* getter = RuntimeSymbol("_ZSt15get_new_handlerv", caller);
  return getter != nullptr ? reinterpret_cast<NewHandler (*)()>(getter)() : nullptr;
}

void* AllocateFor(size_t size, size_t alignment, Caller caller) {
  if (size == 0) size = 1;
  return alignment <= 16 ? HookMalloc(size, caller) : HookMemalign(alignment, size, caller);
}

}  // namespace

__attribute__((noinline, cold)) void* NewByRuntime(const char* name, size_t size, size_t alignment,
                                                   Caller caller) {
  void* form = RuntimeSymbol(name, caller);
  const char nothrow = 0;  // stands for std::nothrow, of which only the type counts
  if (form == nullptr) return AllocateFor(size, alignment, caller);
  if (alignment == 0) return reinterpret_cast<void* (*)(size_t, const char&)>(form)(size, nothrow);
  return reinterpret_cast<void* (*)(size_t, size_t, const char&)>(form)(size, alignment, nothrow);
}

__attribute__((noinline)) void* NewAgain(size_t size, size_t alignment, bool may_throw,
                                         Caller caller) {
  for (;;) {
    void* pointer = AllocateFor(size, alignment, caller);
    if (__builtin_expect(pointer != nullptr, 1)) return pointer;
    const NewHandler handler = FindNewHandler(caller);
    if (handler == nullptr) {
      if (may_throw) ThrowBadAlloc(caller);
      return nullptr;
    }
    if (!may_throw) {  // but the handler may
      return alignment == 0
                 ? NewByRuntime("_ZnwmRKSt9nothrow_t", size, 0, caller)
                 : NewByRuntime("_ZnwmSt11align_val_tRKSt9nothrow_t", size, alignment, caller);
    }
    handler();
  }
}

}  // namespace reprise::interpose
