#include "replay/compare/player/play.h"

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "replay/compare/player/pages.h"
#include "replay/compare/player/script.h"

namespace reprise::replay {
namespace {

enum class Serve { kAllocator, kPlan, kNothing };

constexpr size_t kStackBytes = 256 << 10;
constexpr int kSpins = 200;  // before a wait goes to sleep; a hand-over takes about as long

// What a thread counts. In registers while it plays: this is most of what the player costs.
struct Tally {
  uint64_t lowest = UINT64_MAX;  // addresses that ever were in a live block: [lowest, highest)
  uint64_t highest = 0;
  uint64_t pages = 0;  // that this thread was the first to mark
  uint64_t operations = 0;
  uint64_t failures = 0;  // allocations that the allocator refused
};

// One thread of the recording. Its progress is read by others, so it has cache lines of its own.
struct alignas(128) Thread {
  const uint64_t* begin;
  const uint64_t* end;
  pthread_t handle;  // written by the thread itself
  Tally tally;
  uint64_t waits;
  int64_t wait_nanoseconds;  // waking, starting and joining threads included
  int64_t busy_nanoseconds;  // everything else
  alignas(64) uint32_t progress;
  uint32_t asleep;  // 1: somebody must wake it
};

// The one script that this process plays; written before any thread starts.
Thread* threads;
uint32_t thread_count;
void** slots;
char* arena;
uint64_t arena_bytes;
uint64_t granule;
uint32_t flags;
Pages pages;
char nothing[kPageBytes];  // the block of Serve::kNothing

// What kScriptObserve writes down. One thread plays at a time then, so nothing of it is shared.
ObservedSample* samples;
uint64_t* next_address;
uint64_t* usable_of_slot;
uint64_t usable_bytes;
uint64_t* first_address;
uint64_t held_pages;    // that hold or held a block, and were not found to be given back
uint64_t most_held;     // at one time
uint64_t next_review;   // when so many are held
int pagemap = -1;       // -1: nobody can tell what was given back
uint64_t window[4096];  // a part of it: entries of pages
uint64_t window_page;   // from this one on
uint64_t window_pages;  // so many
ObservedReturn* returned;
uint64_t returns;
uint64_t resident_baseline;
bool usable_known;

uint64_t mapped_bytes;  // by MapAtOnce

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Futex(uint32_t* word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// Dekker's handshake: progress is written before `asleep` is read, and the other way round below.
void Signal(Thread& self, Thread& other, uint32_t progress) {
  __atomic_store_n(&self.progress, progress, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&other.asleep, __ATOMIC_SEQ_CST) == 0) return;
  const int64_t start = Now();
  if (__atomic_exchange_n(&other.asleep, 0, __ATOMIC_SEQ_CST) != 0) {
    Futex(&other.asleep, FUTEX_WAKE, 1);
  }
  self.wait_nanoseconds += Now() - start;
}

bool Reached(const Thread& other, uint32_t progress) {
  return __atomic_load_n(&other.progress, __ATOMIC_SEQ_CST) >= progress;
}

void Wait(Thread& self, const Thread& other, uint32_t progress) {
  if (Reached(other, progress)) return;
  const int64_t start = Now();
  for (int i = 0; i < kSpins && !Reached(other, progress); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  while (!Reached(other, progress)) {
    __atomic_store_n(&self.asleep, 1, __ATOMIC_SEQ_CST);
    if (Reached(other, progress)) break;
    Futex(&self.asleep, FUTEX_WAIT, 1);
  }
  __atomic_store_n(&self.asleep, 0, __ATOMIC_SEQ_CST);
  ++self.waits;
  self.wait_nanoseconds += Now() - start;
}

// Bytes of memory that this process has to itself. Counted by walking its page tables: the kernel's
// own counters lag behind. 0 where /proc does not tell.
uint64_t PrivateBytes() {
  char text[4096];
  const int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (fd == -1) return 0;
  const ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  const char* line = strstr(text, "Anonymous:");
  return line == nullptr ? 0 : strtoull(line + strlen("Anonymous:"), nullptr, 10) * 1024;
}

constexpr uint64_t kMostReturns = 4 << 20;

// Whether the system still has what was written to a page.
bool IsThere(uint64_t page) {
  constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
  if (page - window_page >= window_pages) {
    const ssize_t bytes = pread(pagemap, window, sizeof(window), static_cast<off_t>(page * 8));
    window_page = page;
    window_pages = bytes > 0 ? static_cast<uint64_t>(bytes) / 8 : 0;
    if (window_pages == 0) return true;
  }
  return (window[page - window_page] & kPresentOrSwapped) != 0;
}

void NoteReturn(uint64_t page) {
  const auto allocations = static_cast<uint64_t>(next_address - first_address);
  --held_pages;
  if (returns > 0) {
    ObservedReturn& last = returned[returns - 1];
    if (last.allocations == allocations && last.page + last.pages == page) {
      ++last.pages;
      return;
    }
  }
  returned[returns++] = {allocations, page, 1};
}

// Forgets the pages that were given back.
void Review() {
  if (pagemap != -1) {
    window_pages = 0;
    pages.Revise([](uint64_t page, uint64_t marks) {
      for (uint64_t left = marks; left != 0; left &= left - 1) {
        const auto bit = static_cast<uint64_t>(__builtin_ctzll(left));
        if (returns == kMostReturns || IsThere(page + bit)) continue;
        marks &= ~(uint64_t{1} << bit);
        NoteReturn(page + bit);
      }
      return marks;
    });
  }
  const uint64_t next = held_pages + held_pages / 128;
  if (next > next_review) next_review = next;
}

void Hold(uint64_t more) {
  held_pages += more;
  if (held_pages > next_review) Review();
  if (held_pages > most_held) most_held = held_pages;
}

void Sample(uint64_t number) {
  Review();
  const uint64_t resident = PrivateBytes();
  samples[number] = {resident > resident_baseline ? resident - resident_baseline : 0,
                     usable_known ? usable_bytes : ObservedSample::kUnknown, held_pages};
}

// Notes where a new block is, and writes to its pages as its owner would.
template <Serve serve>
[[gnu::always_inline]] inline void Use(Tally& tally, Pages marked, bool touch, void* block,
                                       uint64_t bytes) {
  if (block == nullptr) {
    ++tally.failures;
    return;
  }
  if (bytes == 0) return;
  const uint64_t begin = reinterpret_cast<uint64_t>(block);
  const uint64_t end = begin + (serve == Serve::kNothing ? 1 : bytes);
  tally.lowest = begin < tally.lowest ? begin : tally.lowest;
  tally.highest = end > tally.highest ? end : tally.highest;
  uint64_t at = begin;
  do {
    if (touch) *reinterpret_cast<volatile char*>(at) = 1;
    tally.pages += marked.Mark(at);
    at = (at | (kPageBytes - 1)) + 1;
  } while (at < end);
}

bool InArena(const void* block) {
  return static_cast<uint64_t>(static_cast<const char*>(block) - arena) < arena_bytes;
}

void* CallAllocator(ScriptKind kind, void* old, uint64_t bytes, int log2_alignment) {
  if (kind == kScriptRealloc) return realloc(old, bytes);
  if (log2_alignment != 0) {
    void* block = nullptr;
    const size_t alignment = size_t{1} << log2_alignment;
    const size_t least = sizeof(void*);
    return posix_memalign(&block, alignment < least ? least : alignment, bytes) == 0 ? block
                                                                                     : nullptr;
  }
  return kind == kScriptCalloc ? calloc(1, bytes) : malloc(bytes);
}

// Serves from the plan; `at` is moved over the words that tell where.
void* CallPlan(const uint64_t*& at, ScriptKind kind, void* old, uint64_t bytes,
               int log2_alignment) {
  const auto offset = static_cast<int64_t>(*++at);
  const uint64_t old_bytes = kind == kScriptRealloc ? *++at : 0;
  void* block =
      offset >= 0 ? arena + offset : CallAllocator(kScriptMalloc, nullptr, bytes, log2_alignment);
  if (kind == kScriptRealloc && old != nullptr && block != nullptr) {
    memmove(block, old, old_bytes < bytes ? old_bytes : bytes);
    if (!InArena(old)) free(old);
  }
  if (kind == kScriptCalloc && block != nullptr) memset(block, 0, bytes);
  return block;
}

template <Serve serve>
void* Allocate(const uint64_t*& at, ScriptKind kind, void* old, uint64_t bytes,
               int log2_alignment) {
  if constexpr (serve == Serve::kPlan) return CallPlan(at, kind, old, bytes, log2_alignment);
  if constexpr (serve == Serve::kNothing) return nothing;
  return CallAllocator(kind, old, bytes, log2_alignment);
}

// What the allocator set aside for a block.
template <Serve serve>
uint64_t Usable(void* block, uint64_t bytes) {
  if (block == nullptr) return 0;
  if (serve == Serve::kPlan && InArena(block)) {
    return bytes == 0 ? granule : (bytes + granule - 1) / granule * granule;
  }
  return usable_known ? malloc_usable_size(block) : 0;
}

void* RunThread(void* argument);

void Start(Thread& self, Thread& other) {
  const int64_t start = Now();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t handle;
  errno = pthread_create(&handle, &attributes, RunThread, &other);
  if (errno != 0) Refuse("a thread");
  pthread_attr_destroy(&attributes);
  self.wait_nanoseconds += Now() - start;
}

void Join(Thread& self, Thread& other) {
  const int64_t start = Now();
  pthread_join(other.handle, nullptr);
  self.wait_nanoseconds += Now() - start;
}

template <Serve serve, bool observe>
void PlayThread(Thread& self) {
  // Copies that no store to a block can change, as far as the compiler knows.
  Tally tally;
  const Pages marked = pages;
  const bool touch = (flags & kScriptTouch) != 0;
  void** const slot_table = slots;
  const auto allocate = [&](const uint64_t*& at, ScriptKind kind, uint32_t slot, uint64_t bytes,
                            int log2_alignment) {
    void*& block = slot_table[slot];
    block = Allocate<serve>(at, kind, block, bytes, log2_alignment);
    const uint64_t pages_before = tally.pages;
    Use<serve>(tally, marked, touch, block, bytes);
    ++tally.operations;
    if constexpr (observe) {
      if (kind == kScriptRealloc) usable_bytes -= usable_of_slot[slot];
      usable_of_slot[slot] = Usable<serve>(block, bytes);
      usable_bytes += usable_of_slot[slot];
      *next_address++ = reinterpret_cast<uint64_t>(block);
      Hold(tally.pages - pages_before);
    }
  };
  for (const uint64_t* at = self.begin; at != self.end; ++at) {
    const uint64_t word = *at;
    const uint32_t slot = SlotOf(word);  // or a thread
    const ScriptKind kind = KindOf(word);
    // Nearly all are one of these two; a branch costs less than the table of the switch.
    if (kind == kScriptFree) {
      void* block = slot_table[slot];
      if constexpr (observe) usable_bytes -= usable_of_slot[slot];
      if (serve == Serve::kAllocator || (serve == Serve::kPlan && !InArena(block))) free(block);
      ++tally.operations;
      continue;
    }
    if (kind == kScriptMalloc) {
      allocate(at, kScriptMalloc, slot, ValueOf(word), 0);
      continue;
    }
    switch (kind) {
      case kScriptFree:
      case kScriptMalloc:
        break;
      case kScriptCalloc:
      case kScriptRealloc:
        allocate(at, kind, slot, ValueOf(word), 0);
        break;
      case kScriptExtended: {
        const uint64_t bytes = *++at;
        allocate(at, static_cast<ScriptKind>(ValueOf(word) & 255), slot, bytes,
                 static_cast<int>(ValueOf(word) >> 8));
        break;
      }
      case kScriptSignal:
        Signal(self, threads[slot], ValueOf(word));
        break;
      case kScriptWait:
        Wait(self, threads[slot], ValueOf(word));
        break;
      case kScriptStart:
        Start(self, threads[slot]);
        break;
      case kScriptJoin:
        Join(self, threads[slot]);
        break;
      case kScriptSample:
        if constexpr (observe) Sample(ValueOf(word));
        break;
    }
  }
  self.tally = tally;
}

void Perform(Thread& self) {
  const int64_t start = Now();
  const bool observe = (flags & kScriptObserve) != 0;
  if ((flags & kScriptPlan) != 0) {
    observe ? PlayThread<Serve::kPlan, true>(self) : PlayThread<Serve::kPlan, false>(self);
  } else if ((flags & kScriptNothing) != 0) {
    PlayThread<Serve::kNothing, false>(self);
  } else {
    observe ? PlayThread<Serve::kAllocator, true>(self)
            : PlayThread<Serve::kAllocator, false>(self);
  }
  self.busy_nanoseconds = Now() - start - self.wait_nanoseconds;
}

void* RunThread(void* argument) {
  auto& self = *static_cast<Thread*>(argument);
  self.handle = pthread_self();
  Perform(self);
  return nullptr;
}

// Zeroed memory that is there from the start, so that using it later does not count.
void* MapAtOnce(uint64_t bytes) {
  mapped_bytes += (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapping == MAP_FAILED) Refuse("room for its tables");
  return mapping;
}

}  // namespace

void Die(int status, const char* problem) {
  dprintf(STDOUT_FILENO, "problem %s\n", problem);
  _exit(status);
}

void Refuse(const char* what) {
  dprintf(STDOUT_FILENO, "problem the system refuses it %s: %s\n", what, strerror(errno));
  _exit(4);
}

uint64_t Prepare(const ScriptHeader* script, void* observed, bool own_usable_size) {
  const auto* words = reinterpret_cast<const uint64_t*>(script);
  const auto* table = reinterpret_cast<const ScriptThread*>(script + 1);
  flags = script->flags;
  thread_count = script->threads;
  threads = static_cast<Thread*>(MapAtOnce(sizeof(Thread) * thread_count));
  slots = static_cast<void**>(MapAtOnce(sizeof(void*) * (uint64_t{script->slots} + 1)));
  if (!pages.Map()) Refuse("8 GiB of addresses (RLIMIT_AS, vm.overcommit_memory)");
  for (uint32_t i = 0; i < thread_count; ++i) {
    threads[i].begin = words + table[i].begin;
    threads[i].end = words + table[i].end;
    threads[i].tally = Tally();
  }
  if ((flags & kScriptObserve) != 0) {
    samples = static_cast<ObservedSample*>(observed);
    first_address = next_address = reinterpret_cast<uint64_t*>(samples + script->samples);
    // Pages that nobody has written to are never there.
    if ((flags & kScriptTouch) != 0) pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    memset(window, 1, sizeof(window));  // it is memory of the process' own from here on
    returned = static_cast<ObservedReturn*>(
        mmap(nullptr, kMostReturns * sizeof(ObservedReturn), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (returned == MAP_FAILED) Refuse("room for what it observes");
    usable_of_slot =
        static_cast<uint64_t*>(MapAtOnce(sizeof(uint64_t) * (uint64_t{script->slots} + 1)));
    usable_known = own_usable_size;
  }
  if ((flags & kScriptPlan) != 0) {
    arena_bytes = script->arena_bytes;
    granule = script->granule;
    // One byte more, because a mapping cannot be empty.
    void* mapping = mmap(nullptr, arena_bytes + 1, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) Refuse("addresses for the arena");
    arena = static_cast<char*>(mapping);
  }
  return mapped_bytes;
}

Played Play() {
  if ((flags & kScriptObserve) != 0) resident_baseline = PrivateBytes();
  Perform(threads[0]);
  Played sum = {};
  sum.lowest = UINT64_MAX;
  for (uint32_t i = 0; i < thread_count; ++i) {
    const Thread& thread = threads[i];
    const Tally& tally = thread.tally;
    sum.operations += tally.operations;
    sum.failures += tally.failures;
    sum.waits += thread.waits;
    sum.pages += tally.pages;
    sum.wait_nanoseconds += thread.wait_nanoseconds;
    sum.busy_nanoseconds += thread.busy_nanoseconds;
    if (tally.lowest < sum.lowest) sum.lowest = tally.lowest;
    if (tally.highest > sum.highest) sum.highest = tally.highest;
  }
  if ((flags & kScriptObserve) != 0) sum.pages = most_held;
  sum.returned = returned;
  sum.returns = returns;
  return sum;
}

}  // namespace reprise::replay
