#include "interpose/stacks.h"

#include "interpose/address_map.h"
#include "interpose/process.h"
#include "interpose/record_event.h"
#include "interpose/recorder.h"
#include "interpose/system_call.h"
#include "interpose/unwind.h"

namespace reprise::interpose {
namespace {

constexpr uint64_t kSets = 1 << 14;
constexpr uint64_t kWays = 4;
constexpr uint64_t kSlots = uint64_t{1} << 22;
constexpr uint64_t kMostStacks = kSlots / 2;
constexpr uint64_t kMostProbes = 64;
constexpr uint64_t kStackBytes = 512 << 20;
static_assert(kMostStacks <= trace::kSpoolMostStacks);

// Never changes once others can see it.
struct KnownStack {
  uint64_t hash;
  uint64_t return_address;  // of the call that allocates
  uint64_t turn;            // of the event that tells of it: whoever names it must have a later one
  uint32_t number;
  uint32_t generation;  // of modules: what lay at these addresses may have gone
  uint32_t count;
  uint32_t extent;  // bytes from the caller's frame to the end of the last return address
  struct Word {
    uint64_t return_address;
    uint64_t offset;  // bytes from the caller's frame
  } words[];
};

// Zero pages until they are used.
struct Memory {
  KnownRule rules[kKnownRules];
  KnownStack* recent[kSets][kWays];  // atomic; by call site
  KnownStack* known[kSlots];         // atomic; by content
  uint64_t used;                     // atomic: bytes of `stacks`
  uint64_t numbers;                  // atomic: given out
  char stacks[kStackBytes];
};
static_assert(sizeof(Memory) <= kStackMap.bytes);

Memory* memory;
uint32_t most_frames;

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

inline bool OnOwnStack(const Caller& caller) {
  return self.stack_base - caller.frame < self.stack_bytes;
}

// Whether the words of a known stack stand where it had them. Each one that does means that the
// frame above is there, and so is the next word; what is left of the stack must be as long.
inline bool Stands(const KnownStack* stack, const Caller& caller, uint64_t generation) {
  if (stack->return_address != caller.return_address || stack->generation != generation ||
      stack->extent > self.stack_base - caller.frame) {
    return false;
  }
  for (uint32_t i = 0; i < stack->count; ++i) {
    const KnownStack::Word& word = stack->words[i];
    if (*reinterpret_cast<const uint64_t*>(caller.frame + word.offset) != word.return_address) {
      return false;
    }
  }
  return true;
}

uint64_t Hash(const Caller& caller, const StackFrame* frames, uint32_t count, uint32_t generation) {
  uint64_t hash = Mix(generation, caller.return_address);
  for (uint32_t i = 0; i < count; ++i) {
    hash = Mix(hash, frames[i].return_address);
    hash = Mix(hash, frames[i].slot - caller.frame);
  }
  return hash;
}

bool Same(const KnownStack* stack, const Caller& caller, const StackFrame* frames, uint32_t count,
          uint32_t generation) {
  if (stack->return_address != caller.return_address || stack->generation != generation ||
      stack->count != count) {
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (stack->words[i].return_address != frames[i].return_address ||
        stack->words[i].offset != frames[i].slot - caller.frame) {
      return false;
    }
  }
  return true;
}

// Tells the spool of a stack. Null: there is no room, here or there.
KnownStack* Tell(const Caller& caller, const StackFrame* frames, uint32_t count,
                 uint32_t generation, uint64_t hash) {
  const uint64_t bytes = sizeof(KnownStack) + count * sizeof(KnownStack::Word);
  if (__atomic_load_n(&memory->used, __ATOMIC_RELAXED) + bytes > kStackBytes ||
      __atomic_load_n(&memory->numbers, __ATOMIC_RELAXED) >= kMostStacks) {
    return nullptr;
  }
  const uint64_t at = __atomic_fetch_add(&memory->used, bytes, __ATOMIC_RELAXED);
  const uint64_t number = __atomic_fetch_add(&memory->numbers, 1, __ATOMIC_RELAXED);
  if (at + bytes > kStackBytes || number >= kMostStacks) return nullptr;
  auto* stack = reinterpret_cast<KnownStack*>(memory->stacks + at);
  stack->hash = hash;
  stack->return_address = caller.return_address;
  stack->number = static_cast<uint32_t>(number);
  stack->generation = generation;
  stack->count = count;
  uint64_t told[kMostFrames + 1] = {caller.return_address};
  NoteModule(caller.return_address);
  for (uint32_t i = 0; i < count; ++i) {
    const StackFrame& frame = frames[i];
    const uint64_t offset = frame.slot - caller.frame;
    stack->words[i] = {frame.return_address, offset};
    if (offset + 8 > stack->extent) stack->extent = static_cast<uint32_t>(offset + 8);
    // Readers look for the call in front of an address.
    told[i + 1] = frame.return_address + (frame.interrupted ? 1 : 0);
    NoteModule(frame.return_address);
  }
  stack->turn = WriteStack(stack->number, told, count + 1);
  return stack->turn != 0 ? stack : nullptr;
}

// The stack that was unwound; told to the spool if it is new. Null: there is no room.
KnownStack* Identify(const Caller& caller, const StackFrame* frames, uint32_t count,
                     uint32_t generation) {
  const uint64_t hash = Hash(caller, frames, count, generation);
  KnownStack* fresh = nullptr;
  for (uint64_t probe = 0; probe < kMostProbes; ++probe) {
    KnownStack** slot = &memory->known[(hash + probe) % kSlots];
    KnownStack* stack = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (stack == nullptr) {
      if (fresh == nullptr) fresh = Tell(caller, frames, count, generation, hash);
      if (fresh == nullptr) return nullptr;
      if (__atomic_compare_exchange_n(slot, &stack, fresh, false, __ATOMIC_RELEASE,
                                      __ATOMIC_ACQUIRE)) {
        return fresh;
      }
    }
    if (stack->hash == hash && Same(stack, caller, frames, count, generation)) return stack;
  }
  return nullptr;
}

__attribute__((noinline, cold)) KnownStack* Learn(const Caller& caller, KnownStack** set,
                                                  uint32_t generation) {
  StackFrame frames[kMostFrames];
  const uint32_t count = UnwindCallers(caller, most_frames, frames, memory->rules, generation);
  KnownStack* stack = Identify(caller, frames, count, generation);
  if (stack == nullptr || !OnOwnStack(caller)) return stack;
  // The latest first; the one that was not asked for the longest time goes.
  for (uint64_t way = kWays - 1; way > 0; --way) {
    __atomic_store_n(&set[way], __atomic_load_n(&set[way - 1], __ATOMIC_RELAXED), __ATOMIC_RELEASE);
  }
  __atomic_store_n(&set[0], stack, __ATOMIC_RELEASE);
  return stack;
}

}  // namespace

bool StartStacks(uint32_t frames) {
  most_frames = frames < kMostFrames ? frames : kMostFrames;
  if (memory != nullptr) {
    SystemCall(SYS_munmap, reinterpret_cast<long>(memory), sizeof(Memory));
    memory = nullptr;
  }
  const long mapped = SystemCall(
      SYS_mmap, process.reserved ? static_cast<long>(kStackMap.begin) : 0, sizeof(Memory),
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (process.reserved ? MAP_FIXED : 0), -1, 0);
  if (Failed(mapped)) return false;
  memory = reinterpret_cast<Memory*>(mapped);
  Advise(memory, sizeof(Memory), MADV_DONTDUMP);
  return true;
}

uint64_t StackSiteWord(const Caller& caller) {
  const uint64_t site = SiteWord(caller);
  const uint32_t generation = __atomic_load_n(&module_generation, __ATOMIC_RELAXED);
  KnownStack** set = memory->recent[(site * 0x9e3779b97f4a7c15) >> 50];
  KnownStack* stack = nullptr;
  // On another stack than the thread's own nobody knows whether there is a word to look at.
  if (__builtin_expect(OnOwnStack(caller), 1)) {
    for (uint64_t way = 0; way < kWays && stack == nullptr; ++way) {
      KnownStack* candidate = __atomic_load_n(&set[way], __ATOMIC_ACQUIRE);
      if (candidate == nullptr) break;
      if (Stands(candidate, caller, generation)) stack = candidate;
    }
  }
  if (__builtin_expect(stack == nullptr, 0)) {
    stack = Learn(caller, set, generation);
    if (stack == nullptr) {
      NoteModule(site);
      return site;
    }
  }
  // The event that names it comes after the one that tells of it.
  if (__builtin_expect(self.turn < stack->turn, 0)) NewTurn();
  constexpr uint64_t kDepth = ~uint64_t{0} << trace::kSpoolSiteBits;
  return (site & kDepth) | (kStackMap.begin + stack->number);
}

}  // namespace reprise::interpose
