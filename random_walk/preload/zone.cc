#include "random_walk/preload/zone.h"

namespace reprise::random_walk {

bool Zone::extend(uint32_t unit, uint32_t length, uint32_t units) {
  const uint64_t from = uint64_t{unit} + length, count = units - length;
  if (from + count > view().pages) return false;
  const uint64_t first = from / 64, last = (from + count - 1) / 64;
  uint64_t word = first, before = 0, mask = 0;
  for (; word <= last; ++word) {
    mask = bits_in_word<uint64_t>(from, count, word);
    before = Narrow::load(&used_[word]) & mask;
    if (before != 0) break;
    before = Narrow::fetch_or(&used_[word], mask) & mask;
    if (before != 0) {
      Narrow::fetch_and(&used_[word], ~mask | before);
      break;
    }
  }
  if (word <= last) {
    while (word-- > first)
      Narrow::fetch_and(&used_[word], ~bits_in_word<uint64_t>(from, count, word));
    return false;
  }
  set_end(unit + units - 1);
  clear_end(unit + length - 1);
  return true;
}

// By 1/16, and by what one run needs. True too if another thread did.
bool Zone::grow(uint32_t words, uint32_t units) {
  const uint32_t needed = units / 64 + 2;
  uint32_t more = words / 16 > needed ? words / 16 : needed;
  more = (more + 63) / 64 * 64;  // 64 words of the smallest units fill whole pages
  if (more > most_words_ - words) more = most_words_ - words;
  if (more < needed) return false;
  const uint64_t word_bytes = uint64_t{64} * unit_bytes_;
  if (mprotect(memory_ + words * word_bytes, more * word_bytes, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  uint32_t expected = words;
  __atomic_compare_exchange_n(&active_words_, &expected, words + more, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  return true;
}

}  // namespace reprise::random_walk
