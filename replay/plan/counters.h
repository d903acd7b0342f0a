// What replay counts, in a file that the launcher reads after the program has ended, however it
// ended: one entry per lane, in the order of the plan, and kOtherCounters for everything else.
#ifndef REPRISE_REPLAY_PLAN_COUNTERS_H_
#define REPRISE_REPLAY_PLAN_COUNTERS_H_

#include <stdint.h>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

// What a thread took of its local heap.
struct HeapCounters {
  uint64_t allocations;
  uint64_t addresses;  // the sum of theirs
};

// A run that follows its plan counts nothing: the stream says what was served (replay_totals.h).
struct alignas(64) LaneCounters {
  HeapCounters heap;
  // Addresses in the process. Of the words from first_word up to `passed` every allocation was
  // served at its place in the box, those of a loop as often as it was passed, but for the skipped
  // ones. `passed` stays behind by up to a
  // checkpoint while a run follows its plan (Lane::Publish).
  uint64_t first_word;
  uint64_t passed;
  uint64_t box;
  uint64_t skipped;
  uint64_t skipped_hash;
  uint64_t fallback;            // allocations that the program's own allocator served
  uint64_t fallback_addresses;  // the sum of theirs
  uint64_t blocked;             // requests whose planned place was still taken
  uint64_t unmatched;           // requests that the plan did not expect
  uint64_t invalid_frees;       // double frees and pointers that are no block's start: ignored
  uint64_t reallocs;            // by the thread
  uint64_t reallocs_in_place;   // of those, the ones that left the block where it was
  // The first divergence: where in the stream, and what was expected and seen.
  uint64_t diverged_at;  // 1 + index of the word; 0: the run followed the plan
  uint64_t expected_shape;
  uint64_t expected_site;
  uint64_t seen_shape;
  uint64_t seen_site;
  uint64_t off_plan_at;  // 1 + index of the word at which the lane left its plan; 0: it did not
  uint64_t most_held;    // in the first of the others: pages held at most at one time
  uint64_t iterations;   // in passes through loops that have ended
  uint64_t went_back[kMostLaneLoops];  // how often each loop of the lane was passed again
};
static_assert(sizeof(LaneCounters) == 256);

// The first is for everything that belongs to no thread, and changed atomically; each of the others
// belongs to one thread without a lane at a time.
constexpr uint64_t kOtherCounters = 1024;

// What an address adds to a hash of addresses; `ordinal` is its word's index in the stream, or
// tells how many came before it. A sum, so that what follows the stream can be added later.
inline uint64_t MixAddress(uint64_t ordinal, uint64_t address) {
  return (address + (ordinal << 48 | ordinal)) * 0x9e3779b97f4a7c15;
}

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_COUNTERS_H_
