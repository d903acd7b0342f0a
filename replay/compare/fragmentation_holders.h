// Who pins the memory: at the moment at which the most is held, the free ranges between live
// blocks, and the blocks that keep each of them from being joined with its neighbour or given back.
#ifndef REPRISE_REPLAY_COMPARE_FRAGMENTATION_HOLDERS_H_
#define REPRISE_REPLAY_COMPARE_FRAGMENTATION_HOLDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "replay/compare/compare.h"
#include "trace/recording.h"
#include "trace/statistics.h"

namespace reprise::replay {

// A live block between two free ranges, or between one and the end of what is held.
struct Pin {
  uint32_t allocation = 0;    // index into the recording's allocations
  int64_t hostage_bytes = 0;  // free bytes on either side of it, as far as the next live blocks
};

// The pins of one call site, by return address.
struct PinnedBySite {
  uint32_t site = trace::kNone;  // one of those sites of the recording
  int64_t hostage_bytes = 0;  // halves of the free ranges beside its blocks: sums over sites add up
  int64_t bytes = 0;          // of the blocks themselves
  int64_t blocks = 0;
  uint64_t oldest_age = 0;          // events since the birth of the oldest
  std::vector<uint32_t> threads{};  // that allocated them, ascending, at most 8
};

struct Pins {
  // Of those at which the most is held (of an allocator, within 1 %) the one with most bytes live.
  uint64_t event = 0;
  int64_t held_bytes = 0;  // up to the end of the highest live block, or pages
  int64_t live_bytes = 0;
  int64_t holes = 0;                  // free ranges
  int64_t largest_hole = 0;           // bytes
  std::vector<Pin> blocks{};          // most bytes held hostage first, at most `most`
  std::vector<PinnedBySite> sites{};  // the same by site, over all pins
};

// `offsets`: where each allocation lies, on one axis of bytes; negative: not there. `returned`: of
// an allocator, whose pages are held once they have held a block until they are given back: whole
// pages of that axis, in order. Null: only what lies below the highest live block is held, as in a
// plan. Blocks are rounded up to `alignment` bytes. Time: O(n log n), and per page given back.
Pins FindPins(const trace::Recording& recording, const std::vector<int64_t>& offsets,
              const std::vector<Returned>* returned, size_t most,
              uint64_t alignment = trace::kBlockAlignment);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_FRAGMENTATION_HOLDERS_H_
