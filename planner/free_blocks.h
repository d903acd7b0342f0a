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
  void Free(uint32_t handle);

  int64_t address(uint32_t handle) const { return blocks_[handle].address; }
  int64_t top() const { return top_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr int kPerDoubling = 32;
  static constexpr int kBins = 60 * kPerDoubling;
  static constexpr int kDepth = 24;

  struct Block {
    int64_t address;
    int64_t size;
    uint32_t before;      // the neighbour below
    uint32_t after;       // the neighbour above
    uint32_t bin_before;  // kNone: first of its bin
    uint32_t bin_after;
    bool free;
  };

  static int BinOf(int64_t size);
  uint32_t NewBlock();
  uint32_t FindFree(int64_t size) const;
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

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_FREE_BLOCKS_H_
