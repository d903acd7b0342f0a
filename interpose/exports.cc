// The one file where libc is overridden. Every function forwards in one line, with its call site:
// the caller's return address and stack depth must be taken here, where the caller's frame is next.
// operator new and delete are exported too, so that the call site is the C++ caller's and not a
// line inside libstdc++.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "interpose/hooks.h"
#include "interpose/process.h"
#include "interpose/recorder.h"
#include "interpose/thread_state.h"
#include "interpose/threads.h"

#define REPRISE_EXPORT extern "C" __attribute__((visibility("default"), noinline))
#define REPRISE_EXPORT_CXX __attribute__((visibility("default"), noinline))
#define SITE ::reprise::interpose::SiteWord(__builtin_return_address(0), __builtin_frame_address(0))

using namespace reprise::interpose;  // NOLINT(google-build-using-namespace): forwards only

REPRISE_EXPORT void* malloc(size_t size) { return HookMalloc(size, SITE); }
REPRISE_EXPORT void* calloc(size_t count, size_t size) { return HookCalloc(count, size, SITE); }
REPRISE_EXPORT void* realloc(void* pointer, size_t size) {
  return HookRealloc(pointer, size, SITE);
}
REPRISE_EXPORT void* reallocarray(void* pointer, size_t count, size_t size) {
  return HookReallocArray(pointer, count, size, SITE);
}
REPRISE_EXPORT void* memalign(size_t alignment, size_t size) {
  return HookMemalign(alignment, size, SITE);
}
REPRISE_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  return HookAlignedAlloc(alignment, size, SITE);
}
REPRISE_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  return HookPosixMemalign(out, alignment, size, SITE);
}
REPRISE_EXPORT void* valloc(size_t size) { return HookValloc(size, SITE); }
REPRISE_EXPORT void* pvalloc(size_t size) { return HookPvalloc(size, SITE); }
REPRISE_EXPORT void free(void* pointer) { HookFree(pointer, SITE); }
REPRISE_EXPORT void cfree(void* pointer) { HookFree(pointer, SITE); }
REPRISE_EXPORT size_t malloc_usable_size(void* pointer) { return HookUsableSize(pointer); }

REPRISE_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                  void* (*start)(void*), void* argument) {
  return CreateThread(thread, attributes, start, argument);
}

REPRISE_EXPORT int dlclose(void* handle) {
  static int (*next)(void*);
  if (next == nullptr) next = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "dlclose"));
  const int result = next(handle);
  if (process.mode == Mode::kRecord || process.mode == Mode::kReplayRecord) ForgetModules();
  return result;
}

namespace std {
struct nothrow_t;
enum class align_val_t : size_t;
}  // namespace std

#define NEW(size, alignment, may_throw) \
  HookNew(size, static_cast<size_t>(alignment), may_throw, SITE)

REPRISE_EXPORT_CXX void* operator new(size_t size) { return NEW(size, 0, true); }
REPRISE_EXPORT_CXX void* operator new[](size_t size) { return NEW(size, 0, true); }
REPRISE_EXPORT_CXX void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return NEW(size, 0, false);
}
REPRISE_EXPORT_CXX void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return NEW(size, 0, false);
}
REPRISE_EXPORT_CXX void* operator new(size_t size, std::align_val_t alignment) {
  return NEW(size, alignment, true);
}
REPRISE_EXPORT_CXX void* operator new[](size_t size, std::align_val_t alignment) {
  return NEW(size, alignment, true);
}
REPRISE_EXPORT_CXX void* operator new(size_t size, std::align_val_t alignment,
                                      const std::nothrow_t&) noexcept {
  return NEW(size, alignment, false);
}
REPRISE_EXPORT_CXX void* operator new[](size_t size, std::align_val_t alignment,
                                        const std::nothrow_t&) noexcept {
  return NEW(size, alignment, false);
}

// Each form of operator delete, for objects and for arrays.
#define DELETE(...)                                                                          \
  REPRISE_EXPORT_CXX void operator delete(__VA_ARGS__) noexcept { HookFree(pointer, SITE); } \
  REPRISE_EXPORT_CXX void operator delete[](__VA_ARGS__) noexcept { HookFree(pointer, SITE); }
DELETE(void* pointer)
DELETE(void* pointer, size_t)
DELETE(void* pointer, const std::nothrow_t&)
DELETE(void* pointer, std::align_val_t)
DELETE(void* pointer, size_t, std::align_val_t)
DELETE(void* pointer, std::align_val_t, const std::nothrow_t&)
