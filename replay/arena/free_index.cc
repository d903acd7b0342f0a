#include "replay/arena/free_index.h"

namespace reprise::replay {

void FreeIndex::Add(UnitRange range) {
  uint32_t number = unused_;
  if (number != 0) {
    unused_ = pool_[number].left;
  } else {
    number = ++used_;
  }
  Node& node = pool_[number];
  node = {static_cast<uint32_t>(range.begin), static_cast<uint32_t>(range.units), 0, 0};
  const uint64_t bin = BinOf(range.units);
  filled_[bin / 64] |= uint64_t{1} << bin % 64;
  uint32_t* link = &roots_[bin];
  while (*link != 0 && Priority(pool_[*link]) >= Priority(node)) {
    Node& at = pool_[*link];
    link = Less(at, range.units, range.begin) ? &at.right : &at.left;
  }
  // What was there is split among the children.
  uint32_t rest = *link;
  *link = number;
  uint32_t* left = &node.left;
  uint32_t* right = &node.right;
  while (rest != 0) {
    Node& at = pool_[rest];
    if (Less(at, range.units, range.begin)) {
      *left = rest;
      left = &at.right;
      rest = at.right;
    } else {
      *right = rest;
      right = &at.left;
      rest = at.left;
    }
  }
  *left = *right = 0;
}

void FreeIndex::Remove(UnitRange range) {
  const uint64_t bin = BinOf(range.units);
  uint32_t* link = &roots_[bin];
  while (*link != 0) {
    Node& at = pool_[*link];
    if (at.begin == range.begin) break;
    link = Less(at, range.units, range.begin) ? &at.right : &at.left;
  }
  const uint32_t number = *link;
  if (number == 0) return;
  uint32_t left = pool_[number].left;
  uint32_t right = pool_[number].right;
  while (left != 0 && right != 0) {
    if (Priority(pool_[left]) > Priority(pool_[right])) {
      *link = left;
      link = &pool_[left].right;
      left = *link;
    } else {
      *link = right;
      link = &pool_[right].left;
      right = *link;
    }
  }
  *link = left != 0 ? left : right;
  pool_[number].left = unused_;
  unused_ = number;
  if (roots_[bin] == 0) filled_[bin / 64] &= ~(uint64_t{1} << bin % 64);
}

// The first bin from this one on that is not empty; more than kBins: there is none.
uint64_t FreeIndex::BinFrom(uint64_t bin) const {
  if (bin > kBins) return bin;
  uint64_t word = bin / 64;
  uint64_t found = filled_[word] & ~uint64_t{0} << bin % 64;
  while (found == 0) {
    if (++word > kBins / 64) return kBins + 1;
    found = filled_[word];
  }
  return word * 64 + static_cast<uint64_t>(__builtin_ctzll(found));
}

// The last bin below this one that is not empty; 0: there is none.
uint64_t FreeIndex::BinBelow(uint64_t bin) const {
  uint64_t word = bin / 64;
  uint64_t found = filled_[word] & ((uint64_t{1} << bin % 64) - 1);
  while (found == 0) {
    if (word-- == 0) return 0;
    found = filled_[word];
  }
  return word * 64 + 63 - static_cast<uint64_t>(__builtin_clzll(found));
}

UnitRange FreeIndex::AtLeast(uint64_t units, uint64_t begin) const {
  for (uint64_t bin = BinFrom(BinOf(units)); bin <= kBins; bin = BinFrom(bin + 1)) {
    uint32_t best = 0;
    for (uint32_t at = roots_[bin]; at != 0;) {
      const bool less = Less(pool_[at], units, begin);
      if (!less) best = at;
      at = less ? pool_[at].right : pool_[at].left;
    }
    if (best != 0) return RangeOf(best);
  }
  return {};
}

UnitRange FreeIndex::Before(uint64_t units, uint64_t begin) const {
  for (uint64_t bin = BinOf(units);; bin = BinBelow(bin)) {
    uint32_t best = 0;
    for (uint32_t at = roots_[bin]; at != 0;) {
      const bool less = Less(pool_[at], units, begin);
      if (less) best = at;
      at = less ? pool_[at].right : pool_[at].left;
    }
    if (best != 0) return RangeOf(best);
    if (BinBelow(bin) == 0) return {};
  }
}

}  // namespace reprise::replay
