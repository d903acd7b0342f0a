// What replay counts, in a file that the launcher reads after the program has ended, however it
// ended: one entry per lane, in the order of the plan, and one more for everything else.
#ifndef REPRISE_REPLAY_ARENA_COUNTERS_H_
#define REPRISE_REPLAY_ARENA_COUNTERS_H_

#include <stdint.h>

namespace reprise::replay {

struct alignas(64) LaneCounters {
  uint64_t served;        // allocations that the arena took
  uint64_t address_hash;  // of their addresses, in order
  uint64_t fallback;      // allocations that it did not
  uint64_t fallback_hash;
  uint64_t blocked;        // requests whose planned place was still taken, served or not
  uint64_t unmatched;      // requests that the plan did not expect, served or not
  uint64_t invalid_frees;  // double frees and pointers that are no block's start: ignored
  uint64_t moved;          // 1: the lane ran in a spare range
  // The first divergence: where in the stream, and what was expected and seen.
  uint64_t diverged_at;  // 1 + index of the word; 0: the run followed the plan
  uint64_t expected_shape;
  uint64_t expected_site;
  uint64_t seen_shape;
  uint64_t seen_site;
  uint64_t improvised;   // the part of `served` that lies where the plan had not foreseen it
  uint64_t annex_bytes;  // of the lane's annex that were used
  uint64_t padding[1];
};
static_assert(sizeof(LaneCounters) == 128);

// What the `ordinal`-th address adds to a hash of addresses. A sum, because each step of it need
// not wait for the multiplication of the one before.
inline uint64_t MixAddress(uint64_t ordinal, uint64_t address) {
  return (address + (ordinal << 48 | ordinal)) * 0x9e3779b97f4a7c15;
}

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_COUNTERS_H_
