#include "replay/plan/replay_totals.h"

#include "replay/plan/stream.h"

namespace reprise::replay {
namespace {

// Adds the allocations of [begin, end) so many times.
void Add(const PlanLane& lane, const uint32_t* words, uint64_t begin, uint64_t end, uint64_t times,
         uint64_t box, Served& served) {
  for (uint64_t at = begin; at < end;) {
    const Word word = DecodeWord(words + at, lane.offset_bits);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation) {
      served.planned += times;
      served.address_hash += times * MixAddress(at, box + word.granule * kGranule);
    }
    at += word.length;
  }
}

}  // namespace

Served ServedBy(const PlanLane& lane, const uint32_t* words, const PlanLoop* loops,
                const LaneCounters& counters) {
  Served served;
  const uint64_t bytes = counters.passed - counters.first_word;
  const uint64_t passed = bytes / sizeof(uint32_t);
  if (words != nullptr && passed <= lane.words) {
    Add(lane, words, 0, passed, 1, counters.box, served);
    for (uint32_t i = 0; i < lane.loops; ++i) {
      const PlanLoop& loop = loops[i];
      const uint64_t first = loop.first_word, end = first + loop.words;
      if (const uint64_t times = counters.went_back[i]; times != 0) {
        Add(lane, words, first, end, times, counters.box, served);
      }
      if (passed <= first || passed > end) continue;
      const uint64_t per_period = loop.iterations / (loop.words / loop.period_words);
      served.iterations += (passed - first) / loop.period_words * per_period;
    }
    served.iterations += counters.iterations;
  }
  served.planned -= counters.skipped;
  served.address_hash -= counters.skipped_hash;
  return served;
}

}  // namespace reprise::replay
