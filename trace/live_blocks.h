// The blocks that live, by any 64-bit key that is unique among them (an address, an ordinal).
#ifndef REPRISE_TRACE_LIVE_BLOCKS_H_
#define REPRISE_TRACE_LIVE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace reprise::trace {

struct LiveBlock {
  uint64_t key;
  uint64_t size : 56;  // bytes requested
  uint64_t log2_alignment : 6;
  uint64_t kind : 2;  // AllocationKind
  uint64_t ordinal : 48;
  uint64_t site_low : 16;
  uint64_t birth : 48;  // event index
  uint64_t site_high : 16;

  uint32_t site() const { return static_cast<uint32_t>(site_high << 16 | site_low); }
  void set_site(uint32_t site) {
    site_low = site & 0xffff;
    site_high = site >> 16;
  }
};
static_assert(sizeof(LiveBlock) == 32, "two to a cache line");

// A hash table with linear probing and without tombstones (Knuth, The Art of Computer Programming,
// vol. 3, 6.4, algorithms L and R), at most half full. Keys that are close lie close together, as
// blocks that are close are often used one after another. References hold until the next change.
class LiveBlocks {
 public:
  // Another seed in every process: no file can be made to cost much time.
  explicit LiveBlocks(uint64_t seed = SeedOfProcess()) : seed_(seed) { Resize(kFirstSlots); }

  // Null: no block has this key.
  LiveBlock* Find(uint64_t key) {
    for (uint64_t at = Home(key);; at = (at + 1) & mask_) {
      if (IsFree(slots_[at])) return nullptr;
      if (slots_[at].key == key) return &slots_[at];
    }
  }

  // The slot for a key that has none, with its key set. The caller fills in the rest.
  LiveBlock& Insert(uint64_t key) {
    if (2 * ++count_ > slots_.size()) Resize(2 * slots_.size());
    uint64_t at = Home(key);
    while (!IsFree(slots_[at])) at = (at + 1) & mask_;
    slots_[at].key = key;
    return slots_[at];
  }

  void Erase(const LiveBlock* block) {
    --count_;
    uint64_t hole = static_cast<uint64_t>(block - slots_.data());
    for (uint64_t at = (hole + 1) & mask_; !IsFree(slots_[at]); at = (at + 1) & mask_) {
      // What lies behind its home may go back to the hole, if that is not before its home.
      if (((at - Home(slots_[at].key)) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].ordinal = kFreeSlot;
  }

  // How many slots a look-up of a live key reads.
  uint64_t Reads(uint64_t key) const {
    uint64_t reads = 1;
    for (uint64_t at = Home(key); slots_[at].key != key || IsFree(slots_[at]); ++reads)
      at = (at + 1) & mask_;
    return reads;
  }

  static uint64_t SeedOfProcess() {
    static const char anchor = 0;
    return reinterpret_cast<uintptr_t>(&anchor) * base::kGoldenRatio;
  }

  uint64_t bytes() const { return slots_.size() * sizeof(LiveBlock); }  // of memory

 private:
  static constexpr uint64_t kFirstSlots = 1024;
  static constexpr uint64_t kFreeSlot = (uint64_t{1} << 48) - 1;  // as its ordinal
  static constexpr int kNearBits = 6;  // keys that differ in these only lie close together

  static bool IsFree(const LiveBlock& slot) { return slot.ordinal == kFreeSlot; }

  // Not a product alone: with one factor in fifteen the keys of a heap took 20 steps to find, or
  // hundreds.
  uint64_t Home(uint64_t key) const {
    const uint64_t near = key & ((1 << kNearBits) - 1);
    return (base::MixBits((key >> kNearBits) ^ seed_) * (1 << kNearBits) + near) & mask_;
  }

  void Resize(uint64_t slots) {
    LiveBlock free{};
    free.ordinal = kFreeSlot;
    std::vector<LiveBlock> old(slots, free);
    old.swap(slots_);
    mask_ = slots - 1;
    for (const LiveBlock& block : old) {
      if (IsFree(block)) continue;
      uint64_t at = Home(block.key);
      while (!IsFree(slots_[at])) at = (at + 1) & mask_;
      slots_[at] = block;
    }
  }

  const uint64_t seed_;
  uint64_t mask_ = 0;
  uint64_t count_ = 0;
  std::vector<LiveBlock> slots_;  // a power of two
};

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_LIVE_BLOCKS_H_
