// The one file where libc is overridden. Every function forwards in one line, with its call site:
// the caller's return address and stack depth must be taken here, where the caller's frame is next.
// operator new and delete are exported too, so that the call site is the C++ caller's and not a
// line inside libstdc++.
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <threads.h>
#include <unistd.h>

#include "base/system_call.h"
#include "interpose/exec.h"
#include "interpose/give_back.h"
#include "interpose/hooks.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/thread_state.h"
#include "interpose/process/threads.h"
#include "interpose/record/spool_modules.h"
#include "interpose/startup.h"

#define REPRISE_EXPORT extern "C" __attribute__((visibility("default"), noinline))
#define REPRISE_EXPORT_HOT extern "C" __attribute__((visibility("default"), noinline, hot))
#define REPRISE_EXPORT_CXX __attribute__((visibility("default"), noinline, hot))
#define REPRISE_EXPORT_CXX_RARE __attribute__((visibility("default"), noinline))
// In this order, one right behind the other: the other way round a pair of calls took a fiftieth
// longer.
#if defined(__clang__)
#define REPRISE_EXPORT_HOTTEST REPRISE_EXPORT_HOT
#else
#define REPRISE_EXPORT_HOTTEST REPRISE_EXPORT_HOT __attribute__((no_reorder))
#endif
#define CALLER                                               \
  ::reprise::interpose::Caller {                             \
    reinterpret_cast<uint64_t>(__builtin_return_address(0)), \
        reinterpret_cast<uint64_t>(__builtin_dwarf_cfa())    \
  }

using namespace reprise::interpose;  // NOLINT(google-build-using-namespace): forwards only

REPRISE_EXPORT_HOTTEST void* malloc(size_t size) { return HookMalloc(size, ThisCaller()); }
REPRISE_EXPORT_HOTTEST void free(void* pointer) { HookFree(pointer); }
REPRISE_EXPORT_HOT void* calloc(size_t count, size_t size) {
  return HookCalloc(count, size, CALLER);
}
REPRISE_EXPORT_HOT void* realloc(void* pointer, size_t size) {
  return HookRealloc(pointer, size, CALLER);
}
REPRISE_EXPORT void* reallocarray(void* pointer, size_t count, size_t size) {
  return HookReallocArray(pointer, count, size, CALLER);
}
REPRISE_EXPORT void* memalign(size_t alignment, size_t size) {
  return HookMemalign(alignment, size, CALLER);
}
REPRISE_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  return HookAlignedAlloc(alignment, size, CALLER);
}
REPRISE_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  return HookPosixMemalign(out, alignment, size, CALLER);
}
REPRISE_EXPORT void* valloc(size_t size) { return HookValloc(size, CALLER); }
REPRISE_EXPORT void* pvalloc(size_t size) { return HookPvalloc(size, CALLER); }
REPRISE_EXPORT void cfree(void* pointer) { HookFree(pointer); }
REPRISE_EXPORT_HOT size_t malloc_usable_size(void* pointer) { return HookUsableSize(pointer); }

REPRISE_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                  void* (*start)(void*), void* argument) {
  NoticeProcess();
  return CreateThread(thread, attributes, start, argument);
}

namespace {

// The next definition of a function that we wrap but that is no part of the allocation family.
template <typename Function>
Function* Next(Function*& cached, const char* name) {
  if (cached == nullptr) cached = reinterpret_cast<Function*>(NextSymbol(name));
  return cached;
}

// What the library knows of a thread: as far from its pthread_t as from ours for the calling one.
const ThreadState& StateOf(pthread_t thread) {
  const uint64_t distance = reinterpret_cast<uint64_t>(&this_thread) - pthread_self();
  return *reinterpret_cast<const ThreadState*>(thread + distance);
}

// On the caller's stack, as in a child of vfork nothing may be allocated.
#define WITHOUT_PRELOAD(environment) \
  WithoutPreload(environment, __builtin_alloca(BytesWithoutPreload(environment)))

template <typename Call>
int Exec(const char* path, bool search, char* const environment[], Call call) {
  const bool with_us = NoteStart(path, search);
  BeforeExec();
  const int result = call(with_us ? environment : WITHOUT_PRELOAD(environment));
  ExecFailed();
  return result;
}

// Of the arguments of execl and its kin, up to the null that ends them.
size_t BytesOfArguments(const char* first, va_list rest) {
  size_t count = 1;
  for (const char* next = first; next != nullptr; next = va_arg(rest, const char*)) ++count;
  return count * sizeof(char*);
}
void CollectArguments(const char* first, va_list rest, char** out) {
  for (const char* next = first; next != nullptr; next = va_arg(rest, const char*)) {
    *out++ = const_cast<char*>(next);
  }
  *out = nullptr;
}

}  // namespace

REPRISE_EXPORT int pthread_setname_np(pthread_t thread, const char* name) {
  static int (*next)(pthread_t, const char*);
  NoticeProcess();
  const int result = Next(next, "pthread_setname_np")(thread, name);
  if (result == 0 && process.mode != Mode::kPlain && StateOf(thread).path != 0) {
    WriteThreadName(StateOf(thread).path, name);
  }
  return result;
}

// The loader takes the return address for that of who asks, and looks where that module says
// (RUNPATH): this must stay a jump.
#if defined(__clang__)
#define REPRISE_JUMP [[clang::musttail]]
#define REPRISE_JUMPS
#else
#define REPRISE_JUMP
#define REPRISE_JUMPS __attribute__((optimize("O2")))
#endif

// With RTLD_DEEPBIND a library would call libc's malloc and free instead of ours: what it allocates
// would not be seen, and in replay libc would abort when it is given a block of the plan.
REPRISE_EXPORT REPRISE_JUMPS void* dlopen(const char* path, int flags) {
  static void* (*next)(const char*, int);
  if (process.mode == Mode::kUnstarted) Start();
  if ((flags & RTLD_DEEPBIND) != 0 && process.mode != Mode::kPlain) {
    flags &= ~RTLD_DEEPBIND;
    if (!Forked()) ReportNotDeepBound(path);
  }
  auto* open = Next(next, "dlopen");
  REPRISE_JUMP return open(path, flags);
}

namespace {

// The linker's names for where our library begins and ends.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[], _end[];

// Whether the program has no definition of its own in front of ours. A stub for calls of ours is
// none, although its address stands for that of the function.
bool LeadsHere(void* function) {
  if (function >= __ehdr_start && function < _end) return true;
  Dl_info info;
  void* symbol = nullptr;
  return dladdr1(function, &info, &symbol, RTLD_DL_SYMENT) != 0 && symbol != nullptr &&
         static_cast<const ElfW(Sym)*>(symbol)->st_shndx == SHN_UNDEF;
}

// The same, asked once.
enum class Leads : char { kUnknown, kHere, kElsewhere };
bool LeadsHere(void* function, Leads& answer) {
  if (answer == Leads::kUnknown) answer = LeadsHere(function) ? Leads::kHere : Leads::kElsewhere;
  return answer == Leads::kHere;
}

// What everybody calls in place of a real function of the allocation family.
void* InPlaceOf(void* found) {
  const struct {
    void *theirs, *ours;
  } family[] = {
#define MEMBER(name) {reinterpret_cast<void*>(real.name), reinterpret_cast<void*>(::name)}
      MEMBER(malloc),         MEMBER(free),
      MEMBER(calloc),         MEMBER(realloc),
      MEMBER(memalign),       MEMBER(aligned_alloc),
      MEMBER(posix_memalign), MEMBER(valloc),
      MEMBER(pvalloc),        MEMBER(malloc_usable_size),
      MEMBER(pthread_create),
#undef MEMBER
  };
  if (found == nullptr) return nullptr;
  for (const auto& [theirs, ours] : family) {
    if (found == theirs && LeadsHere(ours)) return ours;
  }
  return found;
}

#if defined(__x86_64__)
constexpr char kFirstVersion[] = "GLIBC_2.2.5";
#else
constexpr char kFirstVersion[] = "GLIBC_2.17";
#endif

// The next definition of dlsym or dlvsym. By libc's own dlvsym, which cannot be called by its name:
// that is ours.
template <typename Function>
Function* NextLookUp(Function*& cached, const char* name) {
  static decltype(dlvsym)* look_up;
  if (look_up == nullptr) {
    const auto libc = reinterpret_cast<uint64_t>(&gnu_get_libc_version);
    look_up = reinterpret_cast<decltype(look_up)>(SymbolOf(libc, "dlvsym"));
  }
  if (cached == nullptr) {
    cached = reinterpret_cast<Function*>(look_up(RTLD_NEXT, name, kFirstVersion));
  }
  return cached;
}

// What depends on who asks is left alone.
bool MeansLibc(void* handle) {
  return handle != RTLD_NEXT && handle != RTLD_DEFAULT && process.mode > Mode::kPlain;
}

}  // namespace

// Who asks libc itself for free (python's ctypes) is to get the one that everybody else has: libc's
// would crash when it is given a block of the plan. Jumps, as in dlopen.
REPRISE_EXPORT REPRISE_JUMPS void* dlsym(void* handle, const char* name) {
  static decltype(dlsym)* next;
  auto* look_up = NextLookUp(next, "dlsym");
  if (MeansLibc(handle)) return InPlaceOf(look_up(handle, name));
  REPRISE_JUMP return look_up(handle, name);
}
REPRISE_EXPORT REPRISE_JUMPS void* dlvsym(void* handle, const char* name, const char* version) {
  static decltype(dlvsym)* next;
  auto* look_up = NextLookUp(next, "dlvsym");
  if (MeansLibc(handle)) return InPlaceOf(look_up(handle, name, version));
  REPRISE_JUMP return look_up(handle, name, version);
}

// libc's other names for its functions. A program with a malloc of its own that has libc do the
// work (Chromium's allocators) means ours, which is its libc's; else libc itself is meant.
#define LIBC_NAME(result, name, parameters, hook, arguments)             \
  REPRISE_EXPORT result __libc_##name parameters {                       \
    static Leads leads;                                                  \
    static decltype(::name)* next;                                       \
    if (!LeadsHere(reinterpret_cast<void*>(::name), leads)) return hook; \
    return Next(next, "__libc_" #name) arguments;                        \
  }
LIBC_NAME(void*, malloc, (size_t size), HookMalloc(size, CALLER), (size))
LIBC_NAME(void, free, (void* pointer), HookFree(pointer), (pointer))
LIBC_NAME(void*, calloc, (size_t count, size_t size), HookCalloc(count, size, CALLER),
          (count, size))
LIBC_NAME(void*, realloc, (void* pointer, size_t size), HookRealloc(pointer, size, CALLER),
          (pointer, size))
LIBC_NAME(void*, memalign, (size_t alignment, size_t size), HookMemalign(alignment, size, CALLER),
          (alignment, size))
LIBC_NAME(void*, valloc, (size_t size), HookValloc(size, CALLER), (size))
LIBC_NAME(void*, pvalloc, (size_t size), HookPvalloc(size, CALLER), (size))

REPRISE_EXPORT int dlclose(void* handle) {
  static int (*next)(void*);
  const int result = Next(next, "dlclose")(handle);
  if (process.mode >= Mode::kRecord) ForgetModules();
  return result;
}

// Nearly all of our mappings is never touched; locked whole it would fill the disk and the memory.
REPRISE_EXPORT int mlockall(int flags) {
  static int (*next)(int);
  if (process.mode > Mode::kPlain) flags |= MCL_ONFAULT;
  return Next(next, "mlockall")(flags);
}

// One function under two names: on 64-bit machines their structures are the same.
static_assert(sizeof(rlimit) == sizeof(rlimit64));
REPRISE_EXPORT int setrlimit(__rlimit_resource_t resource, const rlimit* limit) noexcept {
  static int (*next)(__rlimit_resource_t, const rlimit*);
  BeforeLimit(resource, limit);
  return Next(next, "setrlimit")(resource, limit);
}
REPRISE_EXPORT int setrlimit64(__rlimit_resource_t resource, const rlimit64* limit) noexcept {
  return setrlimit(resource, reinterpret_cast<const rlimit*>(limit));
}
REPRISE_EXPORT int prlimit(pid_t process_id, __rlimit_resource resource, const rlimit* limit,
                           rlimit* before) noexcept {
  static int (*next)(pid_t, __rlimit_resource, const rlimit*, rlimit*);
  if (process_id == 0 || process_id == ProcessId()) BeforeLimit(resource, limit);
  return Next(next, "prlimit")(process_id, resource, limit, before);
}
REPRISE_EXPORT int prlimit64(pid_t process_id, __rlimit_resource resource, const rlimit64* limit,
                             rlimit64* before) noexcept {
  return prlimit(process_id, resource, reinterpret_cast<const rlimit*>(limit),
                 reinterpret_cast<rlimit*>(before));
}

// libc does not make its own threads by way of pthread_create's name.
REPRISE_EXPORT int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  static decltype(thrd_create)* next;
  NoticeProcess();
  return CreateThread(Next(next, "thrd_create"), thread, start, argument);
}

REPRISE_EXPORT int clone(int (*function)(void*), void* stack, int flags, void* argument, ...) {
  static decltype(clone)* next;
  va_list rest;  // whether or not they were given
  va_start(rest, argument);
  auto* parent = va_arg(rest, pid_t*);
  void* thread_pointer = va_arg(rest, void*);
  auto* child = va_arg(rest, pid_t*);
  va_end(rest);
  constexpr int kThread = CLONE_VM | CLONE_SETTLS;
  auto* make = Next(next, "clone");
  if ((flags & kThread) == kThread) AnnounceThread(thread_pointer);
  return make(function, stack, flags, argument, parent, thread_pointer, child);
}

REPRISE_EXPORT int execve(const char* path, char* const arguments[], char* const environment[]) {
  static int (*next)(const char*, char* const[], char* const[]);
  return Exec(path, false, environment, [&](char* const* variables) {
    return Next(next, "execve")(path, arguments, variables);
  });
}
REPRISE_EXPORT int execv(const char* path, char* const arguments[]) {
  return execve(path, arguments, environ);
}
REPRISE_EXPORT int fexecve(int fd, char* const arguments[], char* const environment[]) {
  static int (*next)(int, char* const[], char* const[]);
  char path[sizeof("/proc/self/fd/-2147483648")];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  return Exec(path, false, environment, [&](char* const* variables) {
    return Next(next, "fexecve")(fd, arguments, variables);
  });
}
REPRISE_EXPORT int execveat(int directory, const char* path, char* const arguments[],
                            char* const environment[], int flags) {
  static int (*next)(int, const char*, char* const[], char* const[], int);
  char name[kPathBytes];
  const char* volatile given = path;  // the header says "never null", so a test would be deleted
  const bool beside = directory != AT_FDCWD && given != nullptr && given[0] != '/';
  if (beside) snprintf(name, sizeof(name), "/proc/self/fd/%d/%s", directory, path);
  if (beside && path[0] == 0) name[strlen(name) - 1] = 0;  // AT_EMPTY_PATH
  return Exec(beside ? name : path, false, environment, [&](char* const* variables) {
    return Next(next, "execveat")(directory, path, arguments, variables, flags);
  });
}
REPRISE_EXPORT int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  static int (*next)(const char*, char* const[], char* const[]);
  return Exec(file, true, environment, [&](char* const* variables) {
    return Next(next, "execvpe")(file, arguments, variables);
  });
}
REPRISE_EXPORT int execvp(const char* file, char* const arguments[]) {
  return execvpe(file, arguments, environ);
}
REPRISE_EXPORT int execl(const char* path, const char* argument, ...) {
  va_list rest;
  va_start(rest, argument);
  auto** arguments = static_cast<char**>(__builtin_alloca(BytesOfArguments(argument, rest)));
  va_end(rest);
  va_start(rest, argument);
  CollectArguments(argument, rest, arguments);
  va_end(rest);
  return execve(path, arguments, environ);
}
REPRISE_EXPORT int execlp(const char* file, const char* argument, ...) {
  va_list rest;
  va_start(rest, argument);
  auto** arguments = static_cast<char**>(__builtin_alloca(BytesOfArguments(argument, rest)));
  va_end(rest);
  va_start(rest, argument);
  CollectArguments(argument, rest, arguments);
  va_end(rest);
  return execvpe(file, arguments, environ);
}
REPRISE_EXPORT int execle(const char* path, const char* argument, ...) {
  va_list rest;
  va_start(rest, argument);
  auto** arguments = static_cast<char**>(__builtin_alloca(BytesOfArguments(argument, rest)));
  va_end(rest);
  va_start(rest, argument);
  CollectArguments(argument, rest, arguments);
  char* const* environment = va_arg(rest, char* const*);
  va_end(rest);
  return execve(path, arguments, environment);
}
// Ends the image without running destructors.
REPRISE_EXPORT __attribute__((noreturn)) void _exit(int status) {
  BeforeExec();
  for (;;) SystemCall(SYS_exit_group, status);
}
REPRISE_EXPORT __attribute__((noreturn)) void _Exit(int status) { _exit(status); }

REPRISE_EXPORT int posix_spawn(pid_t* child, const char* path,
                               const posix_spawn_file_actions_t* actions,
                               const posix_spawnattr_t* attributes, char* const arguments[],
                               char* const environment[]) {
  static decltype(posix_spawn)* next;
  if (!NoteStart(path, false)) environment = WITHOUT_PRELOAD(environment);
  return Next(next, "posix_spawn")(child, path, actions, attributes, arguments, environment);
}
REPRISE_EXPORT int posix_spawnp(pid_t* child, const char* file,
                                const posix_spawn_file_actions_t* actions,
                                const posix_spawnattr_t* attributes, char* const arguments[],
                                char* const environment[]) {
  static decltype(posix_spawnp)* next;
  if (!NoteStart(file, true)) environment = WITHOUT_PRELOAD(environment);
  return Next(next, "posix_spawnp")(child, file, actions, attributes, arguments, environment);
}

namespace std {
struct nothrow_t;
enum class align_val_t : size_t;
}  // namespace std

REPRISE_EXPORT_CXX void* operator new(size_t size) { return HookNew<true>(size, ThisCaller()); }
REPRISE_EXPORT_CXX void* operator new(size_t size, std::align_val_t alignment) {
  return NewAgain(size, static_cast<size_t>(alignment), /*may_throw=*/true, CALLER);
}
REPRISE_EXPORT_CXX void operator delete(void* pointer) noexcept { HookFree(pointer); }
// Ours, whoever's free the program has; by a jump, because it is seldom called.
extern "C" __attribute__((visibility("hidden"), alias("free"), hot, nothrow)) void OurFree(
    void* pointer);
REPRISE_EXPORT_CXX void operator delete(void* pointer, std::align_val_t) noexcept {
  OurFree(pointer);
}

// A program may bring some forms itself and leave the others to the C++ runtime, which makes them
// of those. So do we, by way of the dynamic linker: else the program's delete would get blocks from
// our new, and ours blocks from the program's. By jumps, so that the call site is the caller's.
REPRISE_EXPORT_CXX REPRISE_JUMPS void* operator new[](size_t size) {
  REPRISE_JUMP return ::operator new(size);
}
REPRISE_EXPORT_CXX REPRISE_JUMPS void* operator new[](size_t size, std::align_val_t alignment) {
  REPRISE_JUMP return ::operator new(size, alignment);
}
#define DELETE(form, parameters, arguments) \
  REPRISE_EXPORT_CXX void operator form parameters noexcept { ::operator arguments; }
DELETE(delete[], (void* pointer), delete (pointer))
DELETE(delete, (void* pointer, size_t), delete (pointer))
DELETE(delete[], (void* pointer, size_t), delete[](pointer))
DELETE(delete, (void* pointer, const std::nothrow_t&), delete (pointer))
DELETE(delete[], (void* pointer, const std::nothrow_t&), delete[](pointer))
DELETE(delete[], (void* pointer, std::align_val_t alignment), delete (pointer, alignment))
DELETE(delete, (void* pointer, size_t, std::align_val_t alignment), delete (pointer, alignment))
DELETE(delete[], (void* pointer, size_t, std::align_val_t alignment), delete[](pointer, alignment))
DELETE(delete, (void* pointer, std::align_val_t alignment, const std::nothrow_t&),
       delete (pointer, alignment))
DELETE(delete[], (void* pointer, std::align_val_t alignment, const std::nothrow_t&),
       delete[](pointer, alignment))

// A form that does not throw is the one that does, but for the exception. Where that one is the
// program's, only the runtime can catch what it throws.
namespace {

bool NewIsOurs() {
  void* (*plain)(size_t) = ::operator new;
  static Leads leads;
  return LeadsHere(reinterpret_cast<void*>(plain), leads);
}
bool AlignedNewIsOurs() {
  void* (*plain)(size_t, std::align_val_t) = ::operator new;
  static Leads leads;
  return LeadsHere(reinterpret_cast<void*>(plain), leads);
}

}  // namespace

REPRISE_EXPORT_CXX void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (!NewIsOurs()) return NewByRuntime("_ZnwmRKSt9nothrow_t", size, 0, CALLER);
  return HookNew<false>(size, ThisCaller());
}
REPRISE_EXPORT_CXX void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  if (!NewIsOurs()) return NewByRuntime("_ZnamRKSt9nothrow_t", size, 0, CALLER);
  return HookNew<false>(size, ThisCaller());
}
REPRISE_EXPORT_CXX_RARE void* operator new(size_t size, std::align_val_t alignment,
                                           const std::nothrow_t&) noexcept {
  const auto bytes = static_cast<size_t>(alignment);
  if (!AlignedNewIsOurs()) {
    return NewByRuntime("_ZnwmSt11align_val_tRKSt9nothrow_t", size, bytes, CALLER);
  }
  return NewAgain(size, bytes, /*may_throw=*/false, CALLER);
}
REPRISE_EXPORT_CXX_RARE void* operator new[](size_t size, std::align_val_t alignment,
                                             const std::nothrow_t&) noexcept {
  const auto bytes = static_cast<size_t>(alignment);
  if (!AlignedNewIsOurs()) {
    return NewByRuntime("_ZnamSt11align_val_tRKSt9nothrow_t", size, bytes, CALLER);
  }
  return NewAgain(size, bytes, /*may_throw=*/false, CALLER);
}
