// Reading the words of a lane: plan_format.h. Hook-safe.
#ifndef REPRISE_REPLAY_PLAN_STREAM_H_
#define REPRISE_REPLAY_PLAN_STREAM_H_

#include <stdint.h>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

// One step of a stream.
struct Word {
  enum Kind : uint32_t {
    kAllocation,
    kFree,
    kRemoteFree,
    kCheckpoint,
    kIdlePages,
    kUsedPages,
    kLoopEnd,
    kEnded
  };
  Kind kind;
  uint32_t length;   // in 32-bit words; 0 at the end
  uint32_t granule;  // offset / 16; of kAllocation, kFree and kRemoteFree; of kIdlePages the first
                     // page; of kUsedPages how many pages
  uint32_t key;      // of kAllocation; of kIdlePages how many pages
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
  if (word == kDrain) return {Word::kRemoteFree, 2, at[1], 0};
  if (word == kTurn) return {Word::kCheckpoint, 1, 0, 0};
  if (word == kIdle) return {Word::kIdlePages, 3, at[1], at[2]};
  if (word == kUsed) return {Word::kUsedPages, 2, at[1], 0};
  if (word == kLoop) return {Word::kLoopEnd, 1, 0, 0};
  return {Word::kEnded, 0, 0, 0};
}

// The granules that a block of this key takes.
inline uint64_t BlockGranules(const PlanKey& key) { return (key.usable + kGranule - 1) / kGranule; }

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_STREAM_H_
