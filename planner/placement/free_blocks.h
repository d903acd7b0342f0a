// One address space at one instant: what is taken, what is free. A best-fit allocator for
// strategies that sweep over time.
#ifndef REPRISE_PLANNER_PLACEMENT_FREE_BLOCKS_H_
#define REPRISE_PLANNER_PLACEMENT_FREE_BLOCKS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planner {

// Blocks cover [0, top) without holes; no two free ones are neighbours. Free blocks are kept in
// bins by size, exact below 32 and 32 per doubling above, so Take and Free cost near constant time.
// Best fit is exact up to the search depth within a bin.
class FreeBlocks {
 public:
  // What a scored space knows of a block. Instants are on a scale of the caller's, and rise.
  struct Note {
    static constexpr uint32_t kNever = ~uint32_t{0};

    uint32_t job = 0;
    uint32_t born = 0;    // of a taken block
    uint32_t leaves = 0;  // of a taken block: when it will be freed
    // The whole block has been free since then; of a taken block: was, until it was born. kNever:
    // it must stay where it is.
    uint32_t since = 0;
  };

  // How a scored space weighs free blocks against each other; see TakeBestScored.
  struct CostWeights {
    float lifespan = 1;    // the unit of time in what follows; what stays longer stays for ever
    float ends = 0;        // what it costs that neighbours do not leave together
    float large = 0;       // what it costs to break a large block
    float hold_bonus = 0;  // what a free block is worth whose neighbours leave soon
  };

  // A scored one keeps notes.
  explicit FreeBlocks(bool scored = false);

  // Takes `size` units from the best free block, or from the top when none fits. Returns a handle.
  uint32_t Take(int64_t size);

  // In a scored space: takes `size` units for the job of `note`, which is completed, where they do
  // least harm. A rest that is left over does harm until what lies on one of its sides leaves.
  // Only at addresses of which `may(address)` is true. Returns kNone when nothing fits.
  struct Anywhere {
    bool operator()(int64_t) const { return true; }
  };
  template <typename May = Anywhere>
  uint32_t TakeBestScored(int64_t size, const Note& note, const CostWeights& weights, May may = {});

  // The same where not all of a free block may be used: `place(lower, upper)` returns an address at
  // or above `lower` at which `size` units would be legal, and the block is passed over when they
  // do not end at or below `upper`. Above the top everything is free. Tries at most a few dozen.
  template <typename Place>
  uint32_t TakeWhere(int64_t size, Place place);

  // From the top, or from the free block below it.
  uint32_t TakeFromTop(int64_t size) { return Append(TopBelowFree(), size); }
  // Without that free block.
  int64_t TopBelowFree() const {
    return last_ != kNone && blocks_[last_].free() ? blocks_[last_].address : top_;
  }

  // Takes [address, address + size), which must be free. Quick for the largest blocks only: every
  // free one that could hold it is looked at.
  uint32_t TakeAt(int64_t address, int64_t size);

  // Puts a block at `address`, at or above the top, and leaves the room between free.
  uint32_t Append(int64_t address, int64_t size);

  // `now`: only a scored space needs it.
  void Free(uint32_t handle, uint32_t now = 0);

  // In a scored space: what is known of a block that was just taken. Of `since` only kNever
  // counts.
  void Annotate(uint32_t handle, const Note& note);

  // In a scored space: all blocks from below.
  struct Element {
    uint32_t handle;
    bool free;
    int64_t address;
    int64_t size;
    Note note;
  };
  std::vector<Element> Elements() const;
  // No fewer than there are elements.
  size_t blocks() const { return blocks_.size(); }

  // Nothing but hints to the processor, which would wait for memory in Free: first WillFree, then
  // WillMerge, then Free, a few calls apart. The handle need not be good yet.
  void WillFree(uint32_t handle) const {
    if (handle < blocks_.size()) __builtin_prefetch(&blocks_[handle], 1);
  }
  void WillMerge(uint32_t handle) const {
    if (handle >= blocks_.size()) return;
    WillFree(blocks_[handle].before);
    WillFree(blocks_[handle].after);
  }

  int64_t address(uint32_t handle) const { return blocks_[handle].address; }
  int64_t top() const { return top_; }

  static constexpr uint32_t kNone = ~uint32_t{0};

 private:
  static constexpr uint32_t kTaken = kNone - 1;
  static constexpr int kPerDoubling = 32;
  static constexpr int kBins = 60 * kPerDoubling;
  static constexpr int kDepth = 4;
  static constexpr int kScoredDepth = 12;  // in one bin
  static constexpr int kCandidates = 64;   // in all
  static constexpr int kTries = 48;
  static constexpr float kForEver = 1e9F;

  // Never across two cache lines.
  struct alignas(32) Block {
    int64_t address;
    int64_t size;
    uint32_t before;      // the neighbour below
    uint32_t after;       // the neighbour above
    uint32_t bin_before;  // kNone: first of its bin; kTaken: not free
    uint32_t bin_after;

    bool free() const { return bin_before != kTaken; }
  };

  static int BinOf(int64_t size);
  uint32_t NewBlock();
  uint32_t FindFree(int64_t size) const;
  // How long the neighbours of a free block stay. The bottom stays for ever.
  float StaysBelow(uint32_t block, uint32_t now) const {
    const uint32_t before = blocks_[block].before;
    return before == kNone ? kForEver : static_cast<float>(notes_[before].leaves - now);
  }
  float StaysAbove(uint32_t block, uint32_t now) const {
    const uint32_t after = blocks_[block].after;
    return after == kNone ? 0 : static_cast<float>(notes_[after].leaves - now);
  }
  uint32_t Carve(uint32_t block, int64_t address, int64_t size);
  int NextBin(int bin) const;
  void PutIntoBin(uint32_t block);
  void DropFromBin(uint32_t block);

  bool scored_;
  std::vector<Block> blocks_;
  std::vector<Note> notes_;  // as many as blocks, in a scored space
  uint32_t unused_ = kNone;  // chained by `after`
  uint32_t last_ = kNone;    // the block that ends at the top
  int64_t top_ = 0;
  std::vector<uint32_t> bins_;
  std::array<uint64_t, kBins / 64 + 1> used_{};
  uint64_t used_words_ = 0;
};

template <typename Place>
uint32_t FreeBlocks::TakeWhere(int64_t size, Place place) {
  const uint32_t best = FindFree(size);
  if (best != kNone) {
    const auto try_block = [&](uint32_t b) -> int64_t {
      const int64_t end = blocks_[b].address + blocks_[b].size;
      const int64_t address = place(blocks_[b].address, end);
      return address + size <= end ? address : -1;
    };
    if (const int64_t address = try_block(best); address >= 0) return Carve(best, address, size);
    int tries = 1;
    for (int bin = NextBin(BinOf(size)); bin >= 0 && tries < kTries;
         bin = bin + 1 < kBins ? NextBin(bin + 1) : -1) {
      for (uint32_t b = bins_[bin]; b != kNone && tries < kTries; b = blocks_[b].bin_after) {
        if (blocks_[b].size < size || b == best) continue;
        if (const int64_t address = try_block(b); address >= 0) return Carve(b, address, size);
        ++tries;
      }
    }
  }
  return Append(place(TopBelowFree(), INT64_MAX), size);
}

template <typename May>
uint32_t FreeBlocks::TakeBestScored(int64_t size, const Note& note, const CostWeights& weights,
                                    May may) {
  const float scale = 1 / weights.lifespan;
  const auto units = static_cast<float>(size);
  const auto stay = [&](float instants) { return std::min(instants * scale, 1.0F); };
  const float own = stay(static_cast<float>(note.leaves - note.born));
  const float large = weights.large / std::sqrt(units);
  uint32_t best = kNone;
  bool at_end = false;
  float least = 0;
  const auto offer = [&](uint32_t block, bool end, float harm) {
    if (best != kNone && harm >= least) return;
    const Block& b = blocks_[block];
    if (!may(end ? b.address + b.size - size : b.address)) return;
    best = block;
    at_end = end;
    least = harm;
  };
  int candidates = 0;
  bool exact = false;  // then larger blocks are left alone
  for (int bin = NextBin(BinOf(size)); bin >= 0 && candidates < kCandidates && !exact;
       bin = bin + 1 < kBins ? NextBin(bin + 1) : -1) {
    int depth = 0;
    for (uint32_t b = bins_[bin]; b != kNone && depth < kScoredDepth;
         b = blocks_[b].bin_after, ++depth) {
      if (blocks_[b].size < size) continue;
      ++candidates;
      const auto whole = static_cast<float>(blocks_[b].size);
      const float rest = whole - units;
      const float below = stay(StaysBelow(b, note.born));
      const float above = stay(StaysAbove(b, note.born));
      const float harm = large * (whole * std::sqrt(whole) - rest * std::sqrt(rest)) -
                         weights.hold_bonus * units * std::min(below, above);
      const float ends = weights.ends * units;
      if (rest == 0) {
        exact = may(blocks_[b].address);
        offer(b, false, harm + ends * std::min(std::abs(own - below), std::abs(own - above)));
        continue;
      }
      offer(b, false, harm + rest * std::min(own, above) + ends * std::abs(own - below));
      offer(b, true, harm + rest * std::min(own, below) + ends * std::abs(own - above));
    }
  }
  if (best == kNone) return kNone;
  const Block& block = blocks_[best];
  Carve(best, at_end ? block.address + block.size - size : block.address, size);
  Annotate(best, note);
  return best;
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLACEMENT_FREE_BLOCKS_H_
