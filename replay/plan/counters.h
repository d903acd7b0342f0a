// What replay counts, in a file that the launcher reads after the program has ended, however it
// ended: one entry per lane, in the order of the plan, and kOtherCounters for everything else.
#ifndef REPRISE_REPLAY_PLAN_COUNTERS_H_
#define REPRISE_REPLAY_PLAN_COUNTERS_H_

#include <stdint.h>

namespace reprise::replay {

// A run that follows its plan counts nothing: the stream says what was served (replay_totals.h).
struct alignas(64) LaneCounters {
  // Allocations that the arena took without following the stream, and of those the ones that lie
  // where the plan had not foreseen it; not again when a place of the box is taken again right
  // after its free. Both but for those that got a kept place: of the box, and of the annex.
  uint64_t apart;
  uint64_t improvised;
  uint64_t kept[2];
  uint64_t apart_addresses;  // the sum of the addresses of all those
  // Addresses in the process. Of the words from first_word up to `passed` every allocation was
  // served at its place in the box, but for the skipped ones. `passed` stays behind by up to a turn
  // while a run follows its plan (Lane::Publish).
  uint64_t first_word;
  uint64_t passed;
  uint64_t box;
  uint64_t skipped;
  uint64_t skipped_hash;
  uint64_t fallback;            // allocations that the arena did not take
  uint64_t fallback_addresses;  // the sum of theirs, and of the following ones'
  // A lane that rests grants its thread many allocations at a time, which are not looked at. Those
  // of them that were made are to be added to `fallback` and to `unmatched`.
  uint64_t granted;
  uint64_t unused;
  uint64_t blocked;            // requests whose planned place was still taken, served or not
  uint64_t unmatched;          // requests that the plan did not expect, served or not
  uint64_t invalid_frees;      // double frees and pointers that are no block's start: ignored
  uint64_t moved;              // 1: the lane ran in a spare range
  uint64_t annex_bytes;        // of the lane's annex that were used; in the first of the others:
                               // so much was held at once beside the boxes, at the most
  uint64_t reallocs;           // of the lane's blocks, by its thread
  uint64_t reallocs_in_place;  // of those, the ones that left the block where it was
  // The first divergence: where in the stream, and what was expected and seen.
  uint64_t diverged_at;  // 1 + index of the word; 0: the run followed the plan
  uint64_t expected_shape;
  uint64_t expected_site;
  uint64_t seen_shape;
  uint64_t seen_site;

  uint64_t Apart() const { return apart + kept[0] + kept[1]; }
  uint64_t Improvised() const { return improvised + kept[1]; }
};
static_assert(sizeof(LaneCounters) == 256);

// The first is for all threads that have no other, and changed atomically; each of the others
// belongs to one thread without a lane at a time.
constexpr uint64_t kOtherCounters = 32;

// What an address adds to a hash of addresses; `ordinal` is its word's index in the stream, or
// tells how many came before it. A sum, so that what follows the stream can be added later.
inline uint64_t MixAddress(uint64_t ordinal, uint64_t address) {
  return (address + (ordinal << 48 | ordinal)) * 0x9e3779b97f4a7c15;
}

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_COUNTERS_H_
