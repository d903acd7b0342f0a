// The free ranges of a heap, found by length and then by address: best fit, lowest address first.
//
// One treap (Seidel and Aragon, Randomized search trees, 1996) for each length below kBins, and one
// for all others. Its nodes lie in a pool of the caller's; what is free is never written to. The
// caller has a lock. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_FREE_INDEX_H_
#define REPRISE_REPLAY_ARENA_FREE_INDEX_H_

#include <stdint.h>

namespace reprise::replay {

// [begin, begin + units), in units of a heap. No units: none.
struct UnitRange {
  uint64_t begin = 0;
  uint64_t units = 0;
  uint64_t end() const { return begin + units; }
};

class FreeIndex {
 public:
  struct Node {
    uint32_t begin;
    uint32_t units;
    uint32_t left, right;  // numbers of nodes; 0: none
  };

  // `pool` is zeroed and outlives the index.
  void Attach(Node* pool) { pool_ = pool; }

  // Nodes of the pool that may be in use after one more Add: the caller sees that they are
  // writable.
  uint64_t nodes() const { return used_ + 2; }

  void Add(UnitRange range);
  void Remove(UnitRange range);

  // The first range of at least so many units, and of those with just so many the first that does
  // not begin below `begin`.
  UnitRange AtLeast(uint64_t units, uint64_t begin) const;
  // The one before that in the same order: of so many units and below `begin`, or shorter.
  UnitRange Before(uint64_t units, uint64_t begin) const;

 private:
  static constexpr uint64_t kBins = 1024;

  static uint64_t BinOf(uint64_t units) { return units < kBins ? units : kBins; }
  static bool Less(const Node& a, uint64_t units, uint64_t begin) {
    return a.units != units ? a.units < units : a.begin < begin;
  }
  static uint32_t Priority(const Node& node) {
    return static_cast<uint32_t>((node.begin + 1) * uint64_t{0x9e3779b97f4a7c15} >> 32);
  }
  UnitRange RangeOf(uint32_t node) const {
    return node != 0 ? UnitRange{pool_[node].begin, pool_[node].units} : UnitRange{};
  }
  uint64_t BinFrom(uint64_t bin) const;
  uint64_t BinBelow(uint64_t bin) const;

  Node* pool_ = nullptr;
  uint32_t unused_ = 0;                   // list of nodes, linked by `left`
  uint32_t used_ = 0;                     // the highest number of a node so far
  uint64_t filled_[kBins / 64 + 1] = {};  // the bins that are not empty
  uint32_t roots_[kBins + 1] = {};
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_FREE_INDEX_H_
