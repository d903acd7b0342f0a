// Compresses time to sections where time is dense, in bits instead of by sorting.
#ifndef REPRISE_PLANNER_CORE_SECTIONS_H_
#define REPRISE_PLANNER_CORE_SECTIONS_H_

#include <bit>
#include <cstdint>
#include <vector>

namespace reprise::planner {

// A section ends where the first one dies after somebody was born. Two bits and a little for every
// instant of [0, instants): what is looked up in random order stays in the cache even for traces of
// millions of events.
class DenseSections {
 public:
  explicit DenseSections(uint64_t instants) : words_(instants / 64 + 1) {}

  void Add(uint64_t lower, uint64_t upper) {
    words_[lower / 64].births |= uint64_t{1} << (lower % 64);
    words_[upper / 64].deaths |= uint64_t{1} << (upper % 64);
  }

  // When all are added. Returns how many sections there are.
  uint32_t Number() {
    uint32_t sections = 0;
    uint64_t born = 0;  // somebody, since the last section ended
    for (Word& word : words_) {
      // A birth starts, a death stops, and both happen at the same instant in the other order:
      // that is how a carry runs through a sum.
      const uint64_t stay = word.births | ~word.deaths;
      uint64_t sum = 0;
      uint64_t carry = __builtin_add_overflow(stay, word.births, &sum) ? 1 : 0;
      carry |= __builtin_add_overflow(sum, born, &sum) ? 1 : 0;
      word.deaths &= sum ^ stay ^ word.births;  // now where sections end
      word.ended = sections;
      sections += std::popcount(word.deaths);
      born = carry;
    }
    return sections;
  }

  // The section of what is born at `instant`, or the first one in which what dies then is missing.
  uint32_t At(uint64_t instant) const {
    const Word& word = words_[instant / 64];
    return word.ended + std::popcount(word.deaths << (63 - instant % 64));
  }

 private:
  struct Word {
    uint64_t births = 0;
    uint64_t deaths = 0;
    uint32_t ended = 0;  // sections before this word
  };
  std::vector<Word> words_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_SECTIONS_H_
