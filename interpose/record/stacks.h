// Call stacks (`record --stacks N`): which of the stacks that the spool knows an allocation comes
// from.
//
// A stack is unwound once. Then it is known where in the thread's stack each of its return
// addresses lies, seen from the frame of the allocation's caller. When that caller allocates again
// and the same words stand there, it is the same stack: N loads, and no unwinding. The frame of a
// function that was entered by a known call is as long as it was then, so that a word that is equal
// is the return address and no remainder of an earlier call; only in functions that make room on
// the stack as they go (alloca) an old word could stand there. The nearest callers decide where to
// look, as in Mytkowicz et al., Inferred Call Path Profiling (2009), and unlike there the rest is
// verified.
//
// The event of an allocation is no longer for it: the number of its stack takes the place of the
// return address (trace/spool_format.h).
#ifndef REPRISE_INTERPOSE_RECORD_STACKS_H_
#define REPRISE_INTERPOSE_RECORD_STACKS_H_

#include <stdint.h>

#include "interpose/process/thread_state.h"

namespace reprise::interpose {

// Makes room for what is known of stacks of `frames` return addresses above the caller, and forgets
// what was. False when there is none.
bool StartStacks(uint32_t frames);

// Makes the mapping of what is known of stacks as small as such a limit of addresses wants it, or
// what is in use: so many bytes of it are needed. Whoever calls unmaps the rest.
uint64_t ShrinkStacks(uint64_t address_limit);

// The site word of an allocation in Mode::kRecordStacks; an ordinary one where there is no room for
// another stack. Async-signal-safe. The module is known to the spool afterwards. Must be called
// below the hook.
uint64_t StackSiteWord(const Caller& caller);

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_STACKS_H_
