// A lane's words and loops, with their keys as this process has them. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_PLAN_STREAM_H_
#define REPRISE_REPLAY_ARENA_PLAN_STREAM_H_

#include <stdint.h>

#include "replay/arena/live_keys.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/stream.h"

namespace reprise::replay {

struct Request {
  uint64_t shape;
  uint64_t site;
};

struct PlanStream {
  const uint32_t* first;
  const uint32_t* end;  // the kEnd
  uint32_t offset_bits;
  LiveKeys keys;
  const PlanLoop* loops;
  uint64_t loop_count;

  Word Decode(const uint32_t* at) const { return DecodeWord(at, offset_bits); }
  LiveKey KeyAt(const uint32_t* allocation) const { return keys.At(allocation, offset_bits); }
  bool Matches(const uint32_t* allocation, const Request& request) const {
    const LiveKey key = KeyAt(allocation);
    return key.shape == request.shape && key.site == request.site;
  }
  // The first allocation word of [from, limit); null: there is none.
  const uint32_t* NextAllocation(const uint32_t* from, const uint32_t* limit) const {
    while (from < limit) {
      const Word word = Decode(from);
      if (word.kind == Word::kAllocation) return from;
      if (word.kind == Word::kEnded) return nullptr;
      from += word.length;
    }
    return nullptr;
  }
  uint64_t IndexOf(const uint32_t* word) const { return static_cast<uint64_t>(word - first); }

  const uint32_t* FirstOf(const PlanLoop& loop) const { return first + loop.first_word; }
  const uint32_t* EndOf(const PlanLoop& loop) const { return FirstOf(loop) + loop.words; }
  // The loop in which a word is, or at the end of whose body; null: it is in none.
  const PlanLoop* LoopAt(const uint32_t* word) const {
    const uint64_t index = IndexOf(word);
    for (const PlanLoop* loop = loops; loop < loops + loop_count; ++loop) {
      if (index - loop->first_word <= loop->words) return loop;
    }
    return nullptr;
  }
  // The same, if whole periods of its body lie before the word: there the loop may be left.
  const PlanLoop* LoopBetweenPeriods(const uint32_t* word) const {
    const PlanLoop* loop = LoopAt(word);
    if (loop == nullptr || (IndexOf(word) - loop->first_word) % loop->period_words != 0) {
      return nullptr;
    }
    return loop;
  }
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_PLAN_STREAM_H_
