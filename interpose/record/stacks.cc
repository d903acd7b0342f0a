#include "interpose/record/stacks.h"

#include <stddef.h>

#include "base/page.h"
#include "base/system_call.h"
#include "interpose/process/address_limit.h"
#include "interpose/process/address_map.h"
#include "interpose/process/modules.h"
#include "interpose/process/process.h"
#include "interpose/process/shared_page.h"
#include "interpose/process/threads.h"
#include "interpose/process/unwind.h"
#include "interpose/record/record_event.h"
#include "interpose/record/recorder.h"
#include "interpose/record/spool_modules.h"

namespace reprise::interpose {
namespace {

constexpr int kSetShift = 64 - 16;
constexpr uint64_t kSets = uint64_t{1} << (64 - kSetShift);
constexpr uint64_t kWays = 4;
constexpr uint64_t kChains = 1 << 18;
constexpr uint64_t kStackBytes = 512 << 20;
constexpr uint64_t kFewBytes = 1 << 20;  // of stacks: more than all threads take at once

// Never changes once others can see it.
struct KnownStack {
  KnownStack* next;  // of the chain
  uint64_t hash;
  uint64_t return_address;  // of the call that allocates
  uint64_t epoch;           // of the event that tells of it: whoever names it must have a later one
  uint32_t number;
  uint32_t generation;  // of modules: what lay at these addresses may have gone
  uint32_t count;
  uint32_t extent;  // bytes from the caller's frame to the end of the last return address
  // Of the callers, `count` of them; then where they lie, in bytes from the caller's frame.
  uint64_t return_addresses[];

  uint32_t* offsets() { return reinterpret_cast<uint32_t*>(return_addresses + count); }
  const uint32_t* offsets() const {
    return reinterpret_cast<const uint32_t*>(return_addresses + count);
  }
};

constexpr uint64_t BytesOf(uint32_t count) {
  constexpr uint64_t kEach = sizeof(uint64_t) + sizeof(uint32_t);
  return (sizeof(KnownStack) + count * kEach + 7) & ~uint64_t{7};
}

// Zero pages until they are used.
struct Memory {
  KnownRule rules[kKnownRules];
  KnownStack* recent[kSets][kWays];  // atomic; by call site
  KnownStack* chains[kChains];       // atomic; all stacks, by content
  uint64_t used;                     // atomic: bytes of `stacks`
  uint64_t numbers;                  // atomic: given out
  uint64_t room;                     // atomic: bytes of `stacks` that may be used
  char stacks[kStackBytes];
};
static_assert(sizeof(Memory) <= kStackMap.bytes);

REPRISE_SHARED_PAGE Memory* memory;
REPRISE_SHARED_PAGE uint32_t most_frames;

uint64_t StackRoom() { return __atomic_load_n(&memory->room, __ATOMIC_SEQ_CST); }

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

inline bool OnOwnStack(const Caller& caller) {
  return this_thread.stack_base - caller.frame() < this_thread.stack_bytes;
}

// Whether the words of a known stack stand where it had them. Each one that does means that the
// frame above is there, and so is the next word; what is left of the stack must be as long.
inline bool Stands(const KnownStack* stack, const Caller& caller, uint64_t generation) {
  if (stack->return_address != caller.return_address() || stack->generation != generation ||
      stack->extent > this_thread.stack_base - caller.frame()) {
    return false;
  }
  const uint32_t* offsets = stack->offsets();
  for (uint32_t i = 0; i < stack->count; ++i) {
    const auto* word = reinterpret_cast<const uint64_t*>(caller.frame() + offsets[i]);
    if (*word != stack->return_addresses[i]) return false;
  }
  return true;
}

// Where a return address lies; of a stack that is not the thread's own it may be anywhere, and then
// nobody looks there.
uint32_t OffsetOf(const Caller& caller, const StackFrame& frame) {
  return static_cast<uint32_t>(frame.slot - caller.frame());
}

uint64_t Hash(const Caller& caller, const StackFrame* frames, uint32_t count, uint32_t generation) {
  uint64_t hash = Mix(generation, caller.return_address());
  for (uint32_t i = 0; i < count; ++i) {
    hash = Mix(hash, frames[i].return_address);
    hash = Mix(hash, OffsetOf(caller, frames[i]));
  }
  return hash;
}

bool Same(const KnownStack* stack, const Caller& caller, const StackFrame* frames, uint32_t count,
          uint32_t generation) {
  if (stack->return_address != caller.return_address() || stack->generation != generation ||
      stack->count != count) {
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (stack->return_addresses[i] != frames[i].return_address ||
        stack->offsets()[i] != OffsetOf(caller, frames[i])) {
      return false;
    }
  }
  return true;
}

// Tells the spool of a stack. Null: there is no room, here or there.
KnownStack* Tell(const Caller& caller, const StackFrame* frames, uint32_t count,
                 uint32_t generation, uint64_t hash) {
  const uint64_t bytes = BytesOf(count);
  if (__atomic_load_n(&memory->used, __ATOMIC_RELAXED) + bytes > StackRoom() ||
      __atomic_load_n(&memory->numbers, __ATOMIC_RELAXED) >= trace::kSpoolMostStacks) {
    return nullptr;
  }
  const uint64_t at = __atomic_fetch_add(&memory->used, bytes, __ATOMIC_RELAXED);
  const uint64_t number = __atomic_fetch_add(&memory->numbers, 1, __ATOMIC_RELAXED);
  if (at + bytes > StackRoom() || number >= trace::kSpoolMostStacks) return nullptr;
  auto* stack = reinterpret_cast<KnownStack*>(memory->stacks + at);
  stack->hash = hash;
  stack->return_address = caller.return_address();
  stack->number = static_cast<uint32_t>(number);
  stack->generation = generation;
  stack->count = count;
  uint64_t told[kMostFrames + 1] = {caller.return_address()};
  NoteModule(caller.return_address());
  for (uint32_t i = 0; i < count; ++i) {
    const StackFrame& frame = frames[i];
    const uint32_t offset = OffsetOf(caller, frame);
    stack->return_addresses[i] = frame.return_address;
    stack->offsets()[i] = offset;
    if (offset + 8 > stack->extent) stack->extent = offset + 8;
    // Readers look for the call in front of an address.
    told[i + 1] = frame.return_address + (frame.interrupted ? 1 : 0);
    NoteModule(frame.return_address);
  }
  stack->epoch = WriteStack(stack->number, told, count + 1);
  return stack->epoch != 0 ? stack : nullptr;
}

// The stack that was unwound; told to the spool if it is new. Null: there is no room.
KnownStack* Identify(const Caller& caller, const StackFrame* frames, uint32_t count,
                     uint32_t generation) {
  const uint64_t hash = Hash(caller, frames, count, generation);
  KnownStack** chain = &memory->chains[hash % kChains];
  KnownStack* first = __atomic_load_n(chain, __ATOMIC_ACQUIRE);
  for (KnownStack* stack = first; stack != nullptr; stack = stack->next) {
    if (stack->hash == hash && Same(stack, caller, frames, count, generation)) return stack;
  }
  KnownStack* fresh = Tell(caller, frames, count, generation, hash);
  if (fresh == nullptr) return nullptr;
  // Another thread, or a signal handler, may have told of the same stack by now: then it has two
  // numbers, which are one to the reader.
  fresh->next = first;
  while (!__atomic_compare_exchange_n(chain, &fresh->next, fresh, true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  return fresh;
}

// A stack of the set that stands where it did; null when there is none.
inline KnownStack* Find(const Caller& caller, KnownStack** set, uint64_t generation) {
  for (uint64_t way = 0; way < kWays; ++way) {
    KnownStack* candidate = __atomic_load_n(&set[way], __ATOMIC_ACQUIRE);
    if (candidate == nullptr) break;
    if (Stands(candidate, caller, generation)) return candidate;
  }
  return nullptr;
}

// Puts a stack first in its set. The one that came there longest ago goes.
void Keep(KnownStack* stack, KnownStack** set) {
  for (uint64_t way = kWays - 1; way > 0; --way) {
    KnownStack* before = __atomic_load_n(&set[way - 1], __ATOMIC_ACQUIRE);
    __atomic_store_n(&set[way], before, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&set[0], stack, __ATOMIC_RELEASE);
}

__attribute__((noinline, cold)) KnownStack* Learn(const Caller& caller, KnownStack** set,
                                                  uint32_t generation) {
  if (this_thread.path == 0) NameUnknownThread(caller.return_address());
  StackFrame frames[kMostFrames];
  const uint32_t count = UnwindCallers(caller, most_frames, frames, memory->rules, generation);
  KnownStack* stack = Identify(caller, frames, count, generation);
  if (stack != nullptr && OnOwnStack(caller)) Keep(stack, set);
  return stack;
}

}  // namespace

bool StartStacks(uint32_t frames) {
  most_frames = frames < kMostFrames ? frames : kMostFrames;
  if (memory != nullptr && FlagsToPlace() != MAP_FIXED) {
    SystemCall(SYS_munmap, reinterpret_cast<long>(memory),
               static_cast<long>(offsetof(Memory, stacks) + memory->room));
  }
  memory = nullptr;
  const uint64_t bytes = ShareOf(LimitOf(RLIMIT_AS), sizeof(Memory), 0) & ~(base::kPageBytes - 1);
  if (bytes < offsetof(Memory, stacks) + kFewBytes) return false;
  const long mapped = SystemCall(
      SYS_mmap, PlaceFor(kStackMap.begin), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | FlagsToPlace(), -1, 0);
  if (Failed(mapped)) return false;
  memory = reinterpret_cast<Memory*>(mapped);
  memory->room = bytes - offsetof(Memory, stacks);
  Advise(memory, bytes, MADV_DONTDUMP);
  return true;
}

uint64_t ShrinkStacks(uint64_t address_limit) {
  if (memory == nullptr) return 0;
  const uint64_t used = __atomic_load_n(&memory->used, __ATOMIC_RELAXED) + kFewBytes;
  const uint64_t share = ShareOf(address_limit, kStackBytes, kFewBytes);
  const uint64_t room = used > share ? used : share;
  if (room < StackRoom()) __atomic_store_n(&memory->room, room, __ATOMIC_SEQ_CST);
  return offsetof(Memory, stacks) + StackRoom();
}

uint64_t StackSiteWord(const Caller& caller) {
  const uint64_t site = SiteWord(caller);
  const uint32_t generation = __atomic_load_n(&module_generation, __ATOMIC_RELAXED);
  KnownStack** set = memory->recent[Mix(0, site) >> kSetShift];
  KnownStack* stack = nullptr;
  // On another stack than the thread's own nobody knows whether there is a word to look at.
  if (__builtin_expect(OnOwnStack(caller), 1)) stack = Find(caller, set, generation);
  if (__builtin_expect(stack == nullptr, 0)) {
    stack = Learn(caller, set, generation);
    if (stack == nullptr) {
      NoteModule(caller.return_address());
      return site;
    }
  }
  // The event that names it comes after the one that tells of it.
  if (__builtin_expect(this_thread.epoch < stack->epoch, 0)) {
    if (this_thread.path == 0) NameUnknownThread(caller.return_address());
    NewEpoch();
  }
  constexpr uint64_t kDepth = ~uint64_t{0} << trace::kSpoolSiteBits;
  return (site & kDepth) | (kStackMap.begin + stack->number);
}

}  // namespace reprise::interpose
