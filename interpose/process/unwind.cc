#include "interpose/process/unwind.h"

#include "interpose/process/byte_cursor.h"
#include "interpose/process/frame_rule.h"

namespace reprise::interpose {

#if defined(__x86_64__)

namespace {

// Of a stack that is not the thread's own we know where we stand, but not where it ends.
constexpr uint64_t kForeignBytes = 64 << 10;
constexpr int kMostOwnFrames = 16;

// Registers, and the stack they may point into.
struct Machine {
  uint64_t registers[kRegisters];
  uint64_t begin;  // where the walk began
  bool lost;       // registers other than frame and stack pointer are not followed any more
  bool blind;      // not even the frame pointer is known, until a frame is met that saved it

  bool OnOwnStack(uint64_t address) const {
    return this_thread.stack_base - address < this_thread.stack_bytes;
  }
  bool Readable(uint64_t address) const {
    if (address % 8 != 0) return false;
    if (OnOwnStack(begin)) return address - begin < this_thread.stack_base - begin;
    return address - begin < kForeignBytes || OnOwnStack(address);
  }
  bool Load(uint64_t address, uint64_t* value) const {
    if (!Readable(address)) return false;
    *value = *reinterpret_cast<const uint64_t*>(address);
    return true;
  }
};

// The expressions that occur: of tables of jumps into libraries, of signal handlers' frames, and of
// functions that align their stack. False: it says something else.
bool Evaluate(const Machine& machine, int64_t where, const uint64_t* first, uint64_t* result) {
  constexpr int kDepth = 8;
  const auto* at = reinterpret_cast<const uint8_t*>(where);
  ByteCursor length(at, at + 10);
  const uint64_t bytes_long = length.Unsigned();
  ByteCursor bytes(length.at(), length.at() + bytes_long);
  uint64_t stack[kDepth + 1];
  int depth = 0;
  if (first != nullptr) stack[depth++] = *first;
  while (!bytes.empty()) {
    const auto code = bytes.Fixed<uint8_t>();
    if (code >= 0x30 && code <= 0x4f) {  // lit
      stack[depth++] = code - 0x30;
    } else if (code >= 0x70 && code < 0x70 + kRegisters) {  // breg
      stack[depth++] = machine.registers[code - 0x70] + static_cast<uint64_t>(bytes.Signed());
    } else if (code == 0x08) {
      stack[depth++] = bytes.Fixed<uint8_t>();
    } else if (code == 0x09) {
      stack[depth++] = static_cast<uint64_t>(int64_t{bytes.Fixed<int8_t>()});
    } else if (code == 0x06 && depth >= 1) {  // deref
      if (!machine.Load(stack[depth - 1], &stack[depth - 1])) return false;
    } else if (code == 0x23 && depth >= 1) {  // plus_uconst
      stack[depth - 1] += bytes.Unsigned();
    } else if (depth >= 2) {
      const uint64_t right = stack[--depth];
      uint64_t& left = stack[depth - 1];
      if (code == 0x1a) {
        left &= right;
      } else if (code == 0x22) {
        left += right;
      } else if (code == 0x1c) {
        left -= right;
      } else if (code == 0x24) {
        left = right < 64 ? left << right : 0;
      } else if (code == 0x2a) {  // ge
        left = static_cast<int64_t>(left) >= static_cast<int64_t>(right) ? 1 : 0;
      } else {
        return false;
      }
    } else {
      return false;
    }
    if (!bytes.ok() || depth > kDepth) return false;
  }
  if (depth == 0) return false;
  *result = stack[depth - 1];
  return true;
}

// A rule in a word, for code that is like nearly all: bit 0 set when the CFA counts from rbp, else
// from rsp; bit 1: rbp is saved; bits 2..31: CFA offset; bits 32..61: where rbp lies below the CFA.
// Both are in words of 8 bytes.
constexpr uint64_t kFromFramePointer = 1;
constexpr uint64_t kSavesFramePointer = 2;
constexpr uint64_t kFieldBits = 30;
constexpr uint64_t kField = (uint64_t{1} << kFieldBits) - 1;
constexpr uint64_t kUnlike = uint64_t{1} << 62;
constexpr uint64_t kOutermost = uint64_t{1} << 63;
constexpr uint64_t kWriting = 1;

uint64_t Pack(const FrameRule& rule) {
  const RegisterRule& saved = rule.registers[kFramePointer];
  const RegisterRule& back = rule.registers[kReturnAddress];
  if (back.kind == RegisterRule::kUndefined) return kOutermost;
  const int64_t words = rule.cfa.value / 8;
  if (rule.cfa.kind != RegisterRule::kOffset || rule.interrupted || rule.cfa.value % 8 != 0 ||
      words < 0 || words > static_cast<int64_t>(kField) || back.kind != RegisterRule::kSaved ||
      back.value != -8 || rule.registers[kStackPointer].kind != RegisterRule::kSame ||
      (rule.cfa_register != kFramePointer && rule.cfa_register != kStackPointer)) {
    return kUnlike;
  }
  uint64_t packed = static_cast<uint64_t>(words) << 2;
  if (rule.cfa_register == kFramePointer) packed |= kFromFramePointer;
  if (saved.kind == RegisterRule::kSame) return packed;
  const int64_t below = -saved.value / 8;
  if (saved.kind != RegisterRule::kSaved || saved.value % 8 != 0 || below < 0 ||
      below > static_cast<int64_t>(kField)) {
    return kUnlike;
  }
  return packed | kSavesFramePointer | static_cast<uint64_t>(below) << 32;
}

// A frame's caller: where its return address stands.
enum class Step { kDone, kEnd, kBottom, kAgain };  // kBottom: nothing has called it

Step StepByWord(Machine& machine, uint64_t packed, StackFrame* frame) {
  if (packed == kOutermost) return Step::kEnd;
  if (machine.blind && (packed & kFromFramePointer) != 0) return Step::kAgain;
  uint64_t* registers = machine.registers;
  const uint64_t cfa =
      registers[(packed & kFromFramePointer) != 0 ? kFramePointer : kStackPointer] +
      (packed >> 2 & kField) * 8;
  if (cfa <= registers[kStackPointer] || !machine.Readable(cfa - 8)) return Step::kEnd;
  if ((packed & kSavesFramePointer) != 0 &&
      !machine.Load(cfa - (packed >> 32 & kField) * 8, &registers[kFramePointer])) {
    return Step::kEnd;
  }
  if ((packed & kSavesFramePointer) != 0) machine.blind = false;
  frame->slot = cfa - 8;
  frame->return_address = *reinterpret_cast<const uint64_t*>(cfa - 8);
  registers[kStackPointer] = cfa;
  machine.lost = true;
  return Step::kDone;
}

// The value of a register in the caller, and where it lies (0: not in memory).
bool Recover(const Machine& machine, const RegisterRule& rule, int number, uint64_t cfa,
             uint64_t* value, uint64_t* slot) {
  *slot = 0;
  switch (rule.kind) {
    case RegisterRule::kSame:
      *value = number == kStackPointer ? cfa : machine.registers[number];
      return true;
    case RegisterRule::kUndefined:
      *value = 0;
      return number != kReturnAddress;
    case RegisterRule::kSaved:
      *slot = cfa + static_cast<uint64_t>(rule.value);
      return machine.Load(*slot, value);
    case RegisterRule::kOffset:
      *value = cfa + static_cast<uint64_t>(rule.value);
      return true;
    case RegisterRule::kRegister:
      if (rule.value < 0 || rule.value >= kRegisters) return false;
      *value = machine.registers[rule.value];
      return true;
    case RegisterRule::kSavedExpression:
      return Evaluate(machine, rule.value, &cfa, slot) && machine.Load(*slot, value);
    case RegisterRule::kExpression:
      return Evaluate(machine, rule.value, &cfa, value);
  }
  return false;
}

Step StepByRule(Machine& machine, const FrameRule& rule, StackFrame* frame) {
  if (machine.lost) return Step::kAgain;
  uint64_t cfa = machine.registers[rule.cfa_register] + static_cast<uint64_t>(rule.cfa.value);
  if (rule.cfa.kind == RegisterRule::kExpression &&
      !Evaluate(machine, rule.cfa.value, nullptr, &cfa)) {
    return Step::kEnd;
  }
  const uint64_t before = machine.registers[kStackPointer];
  // A handler's stack may lie above the one that it interrupted.
  if (cfa <= before && (machine.OnOwnStack(before) || !machine.OnOwnStack(cfa))) return Step::kEnd;
  Machine above = machine;
  for (int number = 0; number < kRegisters; ++number) {
    uint64_t slot;
    const bool known =
        Recover(machine, rule.registers[number], number, cfa, &above.registers[number], &slot);
    if (!known && number == kReturnAddress &&
        rule.registers[number].kind == RegisterRule::kUndefined) {
      return Step::kBottom;
    }
    if (!known && (number == kReturnAddress || number == kStackPointer)) return Step::kEnd;
    if (number == kReturnAddress) frame->slot = slot;
  }
  machine = above;
  frame->return_address = machine.registers[kReturnAddress];
  frame->interrupted = rule.interrupted;
  return frame->slot != 0 ? Step::kDone : Step::kEnd;
}

class Walker {
 public:
  Walker(const Machine& start, KnownRule* rules, uint32_t generation)
      : machine_(start), rules_(rules), generation_(generation) {
    place_ = machine_.registers[kReturnAddress];
  }

  Step Next(StackFrame* frame) {
    frame->interrupted = false;
    const Step step = Go(frame);
    if (step != Step::kDone) return step;
    machine_.registers[kReturnAddress] = frame->return_address;
    // Behind the call may be another function already, where the one called does not return.
    place_ = frame->return_address - (frame->interrupted ? 0 : 1);
    return frame->return_address == 0 ? Step::kBottom : Step::kDone;
  }

 private:
  Step Go(StackFrame* frame) {
    const uint64_t key = place_ | uint64_t{generation_} << 47;
    KnownRule* known = rules_ != nullptr ? &rules_[(place_ * 0x9e3779b97f4a7c15) >> 48] : nullptr;
    if (known != nullptr && __atomic_load_n(&known->key, __ATOMIC_ACQUIRE) == key) {
      const uint64_t packed = __atomic_load_n(&known->rule, __ATOMIC_ACQUIRE);
      if (packed != kUnlike && __atomic_load_n(&known->key, __ATOMIC_RELAXED) == key) {
        return StepByWord(machine_, packed, frame);
      }
    }
    FrameRule rule;
    if (!FindFrameRule(place_, &rule)) return Step::kEnd;
    const uint64_t packed = Pack(rule);
    if (known != nullptr) Keep(known, key, packed);
    if (machine_.lost && packed != kUnlike) return StepByWord(machine_, packed, frame);
    return StepByRule(machine_, rule, frame);
  }

  // One writer at a time, and readers see that there is one.
  static void Keep(KnownRule* known, uint64_t key, uint64_t packed) {
    uint64_t before = __atomic_load_n(&known->key, __ATOMIC_RELAXED);
    if (before == kWriting || !__atomic_compare_exchange_n(&known->key, &before, kWriting, false,
                                                           __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      return;
    }
    __atomic_store_n(&known->rule, packed, __ATOMIC_RELEASE);
    __atomic_store_n(&known->key, key, __ATOMIC_RELEASE);
  }

  Machine machine_;
  KnownRule* rules_;
  uint32_t generation_;
  uint64_t place_;  // in the code whose frame is left next
};

// Goes up as far as it gets, `most` frames at most. False: registers are needed that were not
// followed, and what stands in `frames` means nothing.
bool GoUp(Walker& walker, uint32_t most, StackFrame* frames, uint32_t* count) {
  for (*count = 0; *count < most; ++*count) {
    const Step step = walker.Next(&frames[*count]);
    if (step != Step::kDone) return step != Step::kAgain;
  }
  return true;
}

// From here, through frames of ours. False as in GoUp.
bool WalkFromHere(const Caller& caller, const Machine& start, uint32_t most, StackFrame* frames,
                  uint32_t* count, KnownRule* rules, uint32_t generation) {
  Walker walker(start, rules, generation);
  *count = 0;
  StackFrame frame;
  for (int own = 0;; ++own) {
    const Step step = walker.Next(&frame);
    if (step != Step::kDone || own == kMostOwnFrames) return step != Step::kAgain;
    if (frame.slot + 8 == caller.frame()) break;
  }
  return GoUp(walker, most, frames, count);
}

// From the caller, of whose registers only the stack pointer is known. That is enough where frames
// are found by it, as nearly all are. False as in GoUp.
bool WalkFromCaller(const Caller& caller, uint32_t most, StackFrame* frames, uint32_t* count,
                    KnownRule* rules, uint32_t generation) {
  Machine start = {};
  start.registers[kStackPointer] = start.begin = caller.frame();
  start.registers[kReturnAddress] = caller.return_address() - 1;
  start.lost = start.blind = true;
  Walker walker(start, rules, generation);
  return GoUp(walker, most, frames, count);
}

// Here, which must be in the function that is left first.
[[gnu::always_inline]] inline void TakeRegisters(Machine& machine) {
  uint64_t* registers = machine.registers;
  asm volatile(
      "movq %%rbx, 24(%0)\n\tmovq %%rbp, 48(%0)\n\tmovq %%rsp, 56(%0)\n\t"
      "movq %%r12, 96(%0)\n\tmovq %%r13, 104(%0)\n\tmovq %%r14, 112(%0)\n\t"
      "movq %%r15, 120(%0)\n\tleaq 0f(%%rip), %%rax\n0:\n\tmovq %%rax, 128(%0)"
      :
      : "r"(registers)
      : "rax", "memory");
  machine.begin = registers[kStackPointer];
}

}  // namespace

__attribute__((noinline)) uint32_t UnwindCallers(const Caller& caller, uint32_t most,
                                                 StackFrame* frames, KnownRule* rules,
                                                 uint32_t generation) {
  uint32_t count = 0;
  if (WalkFromCaller(caller, most, frames, &count, rules, generation)) return count;
  Machine start = {};
  TakeRegisters(start);
  if (!WalkFromHere(caller, start, most, frames, &count, rules, generation)) {
    WalkFromHere(caller, start, most, frames, &count, nullptr, generation);
  }
  return count;
}

__attribute__((noinline)) bool MayReturnInto(uint64_t begin, uint64_t end) {
  Machine start = {};
  TakeRegisters(start);
  if (!start.OnOwnStack(start.begin)) return true;
  Walker walker(start, nullptr, 0);
  StackFrame frame;
  for (bool outside = false;;) {
    const Step step = walker.Next(&frame);
    if (step != Step::kDone) return step != Step::kBottom;
    const bool inside = frame.return_address - begin < end - begin;
    if (inside && outside) return true;
    outside = outside || !inside;
  }
}

#else

uint32_t UnwindCallers(const Caller&, uint32_t, StackFrame*, KnownRule*, uint32_t) { return 0; }
bool MayReturnInto(uint64_t, uint64_t) { return true; }

#endif

}  // namespace reprise::interpose
