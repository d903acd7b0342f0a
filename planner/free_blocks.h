// One address space at one instant: what is taken, what is free. A best-fit allocator without
// memory, for strategies that sweep over time.
#ifndef REPRISE_PLANNER_FREE_BLOCKS_H_
#define REPRISE_PLANNER_FREE_BLOCKS_H_

#include <array>
#include <cstdint>
#include <vector>

namespace reprise::planner {

// Blocks cover [0, top) without holes; no two free ones are neighbours. Free blocks are kept in
// bins by size, exact below 32 and 32 per doubling above, so Take and Free cost near constant time.
// Best fit is exact up to the search depth within a bin.
class FreeBlocks {
 public:
  FreeBlocks();

  // Takes `size` units from the best free block, or from the top when none fits. Returns a handle.
  uint32_t Take(int64_t size);

  // The same when it is known when every block leaves (see SetLeaves). Of the free blocks that fit
  // best it takes that whose neighbours both stay longest, and of that the end beside the one that
  // stays longer: free space beside a block that leaves soon will soon be more than it is.
  uint32_t TakeLasting(int64_t size);

  // The same where not all of a free block may be used: `place(lower, upper)` returns an address at
  // or above `lower` at which `size` units would be legal, and the block is passed over when they
  // do not end at or below `upper`. Above the top everything is free. Tries at most a few dozen.
  template <typename Place>
  uint32_t TakeWhere(int64_t size, Place place);

  // Takes [address, address + size), which must be free. Quick for the largest blocks only: every
  // free one that could hold it is looked at.
  uint32_t TakeAt(int64_t address, int64_t size);

  // Puts a block at `address`, at or above the top, and leaves the room between free.
  uint32_t Append(int64_t address, int64_t size);

  void Free(uint32_t handle);

  // When a block that was just taken will be freed, on a scale of the caller's. With TakeLasting
  // all need this.
  void SetLeaves(uint32_t handle, uint32_t when) { blocks_[handle].bin_after = when; }

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

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kTaken = kNone - 1;
  static constexpr int kPerDoubling = 32;
  static constexpr int kBins = 60 * kPerDoubling;
  static constexpr int kDepth = 4;
  static constexpr int kLastingDepth = 16;
  static constexpr int kTries = 48;

  // Never across two cache lines.
  struct alignas(32) Block {
    int64_t address;
    int64_t size;
    uint32_t before;      // the neighbour below
    uint32_t after;       // the neighbour above
    uint32_t bin_before;  // kNone: first of its bin; kTaken: not free
    uint32_t bin_after;   // of one that is taken: when it leaves

    bool free() const { return bin_before != kTaken; }
  };

  static int BinOf(int64_t size);
  uint32_t NewBlock();
  uint32_t FindFree(int64_t size) const;
  uint32_t FindLasting(int64_t size) const;
  uint32_t TakeFromTop(int64_t size);
  // When the neighbours of a free block leave. The bottom stays for ever.
  uint32_t LeavesBelow(uint32_t block) const {
    const uint32_t before = blocks_[block].before;
    return before == kNone ? kNone : blocks_[before].bin_after;
  }
  uint32_t LeavesAbove(uint32_t block) const {
    const uint32_t after = blocks_[block].after;
    return after == kNone ? 0 : blocks_[after].bin_after;
  }
  uint32_t Carve(uint32_t block, int64_t address, int64_t size);
  int NextBin(int bin) const;
  void PutIntoBin(uint32_t block);
  void DropFromBin(uint32_t block);

  std::vector<Block> blocks_;
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
  const bool room_below_top = last_ != kNone && blocks_[last_].free();
  return Append(place(room_below_top ? blocks_[last_].address : top_, INT64_MAX), size);
}

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_FREE_BLOCKS_H_
