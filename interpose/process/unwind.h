// The calls that led to an allocation, read off the stack by frame_rule.h.
#ifndef REPRISE_INTERPOSE_PROCESS_UNWIND_H_
#define REPRISE_INTERPOSE_PROCESS_UNWIND_H_

#include <stdint.h>

#include "interpose/process/session.h"
#include "interpose/process/thread_state.h"

namespace reprise::interpose {

inline constexpr uint32_t kMostFrames = kMostStackFrames;

struct StackFrame {
  uint64_t return_address;  // as it stands in memory
  uint64_t slot;            // the address where it stands
  bool interrupted;         // by a signal: the code there goes on at the address, not behind a call
};

// A place in the code and what to do there in most of it, so that a rule is worked out once.
struct KnownRule {
  uint64_t key;   // atomic: address and generation; 0: none, 1: being written
  uint64_t rule;  // packed
};
inline constexpr uint64_t kKnownRules = 1 << 16;

// Writes at most `most` frames above that of a hook's caller, the nearest first, and returns how
// many: fewer where the stack ends, leaves what the loader knows (generated code), or makes no
// sense. Must be called below the hook. `rules`: kKnownRules entries, or null; what stands there of
// another `generation` does not count. Async-signal-safe.
uint32_t UnwindCallers(const Caller& caller, uint32_t most, StackFrame* frames, KnownRule* rules,
                       uint32_t generation);

// Whether code in [begin, end) that called, or was interrupted by, code outside of it may still
// wait for that to return. True also where the stack cannot be followed to its end, or is not the
// thread's own. Must be called by code in [begin, end). Async-signal-safe.
bool MayReturnInto(uint64_t begin, uint64_t end);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_UNWIND_H_
