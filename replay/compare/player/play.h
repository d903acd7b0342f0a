// Performs a script in this process: a real thread per thread of the script, each doing its
// operations in order and waiting for others only where the script says so. Allocates nothing
// itself, apart from what starting a thread costs. One script per process.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_PLAY_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_PLAY_H_

#include "replay/compare/player/script.h"

namespace reprise::replay {

// What playing came to, over all threads.
struct Played {
  uint64_t operations;  // calls to the allocator
  uint64_t failures;    // allocations that were refused
  uint64_t waits;       // hand-overs between threads that had to be waited for
  // Pages that ever held a byte of a live block. Observed: the most at one time that did and were
  // not given back.
  uint64_t pages;
  uint64_t lowest;  // every live block was in [lowest, highest); UINT64_MAX and 0: there was none
  uint64_t highest;
  int64_t wait_nanoseconds;  // summed over threads: waiting for and waking, starting and joining
  int64_t busy_nanoseconds;  // summed over threads: everything else
  const ObservedReturn* returned;  // observed: pages given back
  uint64_t returns;
};

// Prints the problem and ends the process with this status.
[[noreturn]] void Die(int status, const char* problem);

// The system refused `what`, as errno says.
[[noreturn]] void Refuse(const char* what);

// Maps everything that playing needs, so that the memory in use afterwards is the baseline; how
// many bytes that is, without the script. The script must outlive Play. `observed` is what to write
// to with kScriptObserve, else null; `usable_known` is whether malloc_usable_size belongs to the
// allocator that serves. Refuse()s what cannot be had.
uint64_t Prepare(const ScriptHeader* script, void* observed, bool usable_known);

// Requires Prepare. To be called once, from the main thread.
Played Play();

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_PLAY_H_
