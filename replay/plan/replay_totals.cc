#include "replay/plan/replay_totals.h"

#include "replay/plan/stream.h"

namespace reprise::replay {

Served ServedBy(const PlanLane& lane, const uint32_t* words, const LaneCounters& counters) {
  Served served;
  const uint64_t bytes = counters.passed - counters.first_word;
  const uint64_t passed = bytes / sizeof(uint32_t);
  if (words != nullptr && passed <= lane.words) {
    for (uint64_t at = 0; at < passed;) {
      const Word word = DecodeWord(words + at, lane.offset_bits);
      if (word.kind == Word::kEnded) break;
      if (word.kind == Word::kAllocation) {
        ++served.planned;
        served.address_hash += MixAddress(at, counters.box + word.granule * kGranule);
      }
      at += word.length;
    }
  }
  served.planned -= counters.skipped;
  served.address_hash -= counters.skipped_hash;
  return served;
}

}  // namespace reprise::replay
