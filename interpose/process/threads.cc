#include "interpose/process/threads.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

#include "base/system_call.h"
#include "interpose/process/image_key.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/real.h"
#include "interpose/process/shared_page.h"
#include "interpose/process/side_heap.h"
#include "interpose/process/thread_state.h"

extern "C" {
extern void* __libc_stack_end;
}

namespace reprise::interpose {

__thread ThreadState this_thread;

namespace {

// Until the thread's own part of the path of a thread that nobody named.
constexpr uint64_t kUnknownParent = 0x756e6b6e6f776e;

REPRISE_SHARED_PAGE void (*at_end)();
REPRISE_SHARED_PAGE pthread_key_t exit_key;
REPRISE_SHARED_PAGE bool exit_key_made;
REPRISE_SHARED_PAGE uint32_t thread_ids;  // given out so far; 0 is the main thread

// How many threads of unknown origin began at each place; what finds no entry is in the first one.
constexpr size_t kMostPlaces = 64;
struct ThreadPlace {
  uint64_t place;  // atomic; 0: unused
  uint32_t count;  // atomic
};
REPRISE_SHARED_PAGE ThreadPlace thread_places[kMostPlaces];

// Threads that clone() is making, until they have a name.
constexpr size_t kMostAnnounced = 64;
struct AnnouncedThread {
  uint64_t thread_pointer;  // atomic; 0: unused, 1: being written
  uint64_t path;
  uint32_t parent;
};
REPRISE_SHARED_PAGE AnnouncedThread announced_threads[kMostAnnounced];
REPRISE_SHARED_PAGE uint64_t default_stack_bytes = 8 << 20;

// Everything the new thread must know, until it has started.
struct StartRecord {
  void* (*start)(void*);
  thrd_start_t c11_start;  // the other one is null then
  void* argument;
  uint64_t path;
  uint64_t stack_bytes;
  uint32_t id;
  uint32_t parent;
};

// In the side heap; where there is none, on a page that the system puts where it likes.
StartRecord* NewStartRecord() {
  if (process.reserved) return static_cast<StartRecord*>(SideAllocate(sizeof(StartRecord)));
  const long page = SystemCall(SYS_mmap, 0, sizeof(StartRecord), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Failed(page) ? nullptr : reinterpret_cast<StartRecord*>(page);
}
void DropStartRecord(StartRecord* record) {
  if (process.reserved) return SideFree(record);
  SystemCall(SYS_munmap, reinterpret_cast<long>(record), sizeof(StartRecord));
}

// Other libraries' destructors may still allocate. glibc runs them in rounds: stand back as often
// as it allows, and take leave in the last.
void OnThreadExit(void*) {
  if (++this_thread.exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(exit_key, &this_thread);
    return;
  }
  if (Forked()) return;
  this_thread.ended = 1;
  at_end();
}

uint64_t ThreadPointer() {
#if defined(__x86_64__)
  uint64_t pointer;
  asm("movq %%fs:0, %0" : "=r"(pointer));
  return pointer;
#else
  return reinterpret_cast<uint64_t>(__builtin_thread_pointer());
#endif
}

void BeginThread(uint64_t path, uint32_t id, uint32_t parent, uint64_t stack_bytes) {
  this_thread.path = path;
  this_thread.id = id;
  this_thread.parent = parent;
  this_thread.stack_base = ThreadPointer();
  this_thread.stack_bytes = stack_bytes;
  if (exit_key_made) pthread_setspecific(exit_key, &this_thread);
}

uint32_t NewThreadId() { return __atomic_add_fetch(&thread_ids, 1, __ATOMIC_RELAXED); }

// Of the next thread that the calling one creates; null when there is no room.
StartRecord* DescribeNextThread(void* argument, size_t stack_bytes) {
  StartRecord* record = NewStartRecord();
  if (record == nullptr) return nullptr;
  *record = {
      nullptr,     nullptr,       argument,      MixPath(this_thread.path, this_thread.created++),
      stack_bytes, NewThreadId(), this_thread.id};
  return record;
}

// In the new thread.
StartRecord TakeStartRecord(void* pointer) {
  const StartRecord record = *static_cast<StartRecord*>(pointer);
  DropStartRecord(static_cast<StartRecord*>(pointer));
  const auto begin = [&record] {
    BeginThread(record.path, record.id, record.parent, record.stack_bytes);
  };
  if (this_thread.path == 0) {
    begin();
    return record;
  }
  // A signal handler ran before this and allocated, as a thread that nobody named: it ends here.
  const SignalBlock block;
  at_end();
  this_thread.lane_tried = 0;
  begin();
  return record;
}

void* ThreadMain(void* pointer) {
  const StartRecord record = TakeStartRecord(pointer);
  return record.start(record.argument);
}

int C11ThreadMain(void* pointer) {
  const StartRecord record = TakeStartRecord(pointer);
  return record.c11_start(record.argument);
}

// The same in every run, wherever the module of the code lies.
uint64_t PlaceInCode(uint64_t address) {
  LoadedModule module;
  if (address == 0 || !FindModule(address, &module)) return 0;
  const char* name = strrchr(module.path, '/');
  return Place(address - module.base, name != nullptr ? name + 1 : module.path, nullptr, 0, "");
}

// How many threads asked for this place before.
uint32_t NumberAt(uint64_t place) {
  for (size_t i = 1; i < kMostPlaces && place != 0; ++i) {
    uint64_t found = 0;
    if (__atomic_compare_exchange_n(&thread_places[i].place, &found, place, /*weak=*/false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        found == place) {
      return __atomic_fetch_add(&thread_places[i].count, 1, __ATOMIC_RELAXED);
    }
  }
  return __atomic_fetch_add(&thread_places[0].count, 1, __ATOMIC_RELAXED);
}

bool TakeAnnounced(uint64_t* path, uint32_t* parent) {
  const uint64_t pointer = ThreadPointer();
  for (AnnouncedThread& thread : announced_threads) {
    if (__atomic_load_n(&thread.thread_pointer, __ATOMIC_ACQUIRE) != pointer) continue;
    *path = thread.path;
    *parent = thread.parent;
    __atomic_store_n(&thread.thread_pointer, 0, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

}  // namespace

void StartMainThread(void (*end)()) {
  at_end = end;
  this_thread.path = kMainThreadPath;
  this_thread.stack_base = reinterpret_cast<uint64_t>(__libc_stack_end);
  rlimit limit{};
  if (SystemCall(SYS_prlimit64, 0, RLIMIT_STACK, 0, reinterpret_cast<long>(&limit)) == 0 &&
      limit.rlim_cur != RLIM_INFINITY) {
    default_stack_bytes = limit.rlim_cur;  // glibc's rule for threads, too
    this_thread.stack_bytes = limit.rlim_cur;
  } else {
    this_thread.stack_bytes = uint64_t{1} << 30;
  }
  exit_key_made = pthread_key_create(&exit_key, OnThreadExit) == 0;
}

void NameUnknownThread(uint64_t address) {
  uint64_t path;
  uint32_t parent = 0;
  if (!TakeAnnounced(&path, &parent)) {
    const uint64_t place = PlaceInCode(address);
    path = MixPath(MixPath(kUnknownParent, place), NumberAt(place));
  }
  BeginThread(path, NewThreadId(), parent, default_stack_bytes);
}

void AnnounceThread(void* thread_pointer) {
  if (process.mode <= Mode::kPlain || thread_pointer == nullptr) return;
  const auto pointer = reinterpret_cast<uint64_t>(thread_pointer);
  const uint64_t path = MixPath(this_thread.path, this_thread.created++);
  for (AnnouncedThread& thread : announced_threads) {
    uint64_t found = __atomic_load_n(&thread.thread_pointer, __ATOMIC_RELAXED);
    // An earlier thread may have had the same storage and never allocated.
    if ((found != 0 && found != pointer) ||
        !__atomic_compare_exchange_n(&thread.thread_pointer, &found, 1, /*weak=*/false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      continue;
    }
    thread.path = path;
    thread.parent = this_thread.id;
    __atomic_store_n(&thread.thread_pointer, pointer, __ATOMIC_RELEASE);
    return;
  }
}

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                 void* argument) {
  if (real.pthread_create == nullptr) return EAGAIN;
  if (process.mode == Mode::kPlain) {
    return real.pthread_create(thread, attributes, start, argument);
  }
  size_t stack_bytes = default_stack_bytes;
  if (attributes != nullptr) pthread_attr_getstacksize(attributes, &stack_bytes);
  StartRecord* record = DescribeNextThread(argument, stack_bytes);
  if (record == nullptr) return EAGAIN;
  record->start = start;
  const int result = real.pthread_create(thread, attributes, ThreadMain, record);
  if (result != 0) DropStartRecord(record);
  return result;
}

int CreateThread(decltype(thrd_create)* create, thrd_t* thread, thrd_start_t start,
                 void* argument) {
  if (create == nullptr) return thrd_error;
  if (process.mode == Mode::kPlain) return create(thread, start, argument);
  StartRecord* record = DescribeNextThread(argument, default_stack_bytes);
  if (record == nullptr) return thrd_nomem;
  record->c11_start = start;
  const int result = create(thread, C11ThreadMain, record);
  if (result != thrd_success) DropStartRecord(record);
  return result;
}

void RenewThreadAfterFork() {
  thread_ids = 0;
  this_thread.id = 0;
  this_thread.parent = 0;
  this_thread.busy = 0;
}

}  // namespace reprise::interpose
