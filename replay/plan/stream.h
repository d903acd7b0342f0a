// Reading the words of a lane: plan_format.h. Hook-safe.
#ifndef REPRISE_REPLAY_PLAN_STREAM_H_
#define REPRISE_REPLAY_PLAN_STREAM_H_

#include <stdint.h>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

// One step of a stream.
struct Word {
  enum Kind : uint32_t { kAllocation, kFree, kDrained, kTurned, kIdling, kEnded };
  Kind kind;
  uint32_t length;   // in 32-bit words; 0 at the end
  uint32_t granule;  // offset / 16; of kAllocation, kFree and kDrained; of kIdling the first page
  uint32_t key;      // of kAllocation; of kIdling how many pages; of kDrained how many granules the
                     // block has, 0: it is not told
};

inline Word DecodeWord(const uint32_t* at, uint32_t offset_bits) {
  const uint32_t word = *at;
  if ((word & kFreeBit) == 0) {
    const uint32_t code = word >> offset_bits;
    if (code != (kFreeBit - 1) >> offset_bits) {
      return {Word::kAllocation, 1, word & ((1u << offset_bits) - 1), code};
    }
    const bool told = (word & ((1u << offset_bits) - 1)) == kTold;
    return {Word::kAllocation, told ? kToldLength : 3, at[2], at[1]};
  }
  if (word < kSpecial) return {Word::kFree, 1, word & ~kFreeBit, 0};
  if (IsDrain(word)) return {Word::kDrained, 2, at[1], word - kDrain};
  if (word == kTurn) return {Word::kTurned, 1, 0, 0};
  if (word == kIdle) return {Word::kIdling, 3, at[1], at[2]};
  return {Word::kEnded, 0, 0, 0};
}

// The granules that a block of this key takes.
inline uint64_t BlockGranules(const PlanKey& key) { return (key.usable + kGranule - 1) / kGranule; }

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_STREAM_H_
