// Which storages may share memory when streams run in parallel (Lamprou et al., MLSys 2023,
// sections 3 and A).
#ifndef REPRISE_PLANNER_GRAPH_SAFETY_H_
#define REPRISE_PLANNER_GRAPH_SAFETY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "planner/graph/prepared_graph.h"

namespace reprise::planner::graph {

// A symmetric relation on [0, size), a bit per ordered pair: size^2 / 8 bytes.
class PairSet {
 public:
  explicit PairSet(uint32_t size = 0)
      : size_(size), words_((size + 63) / 64), bits_(size_t{size} * words_, 0) {}

  uint32_t size() const { return size_; }
  uint32_t words() const { return words_; }  // of 64 bits, per row; bits beyond `size` are 0
  std::span<uint64_t> Row(uint32_t a) { return {bits_.data() + size_t{a} * words_, words_}; }
  std::span<const uint64_t> Row(uint32_t a) const {
    return {bits_.data() + size_t{a} * words_, words_};
  }
  bool Contains(uint32_t a, uint32_t b) const { return (Row(a)[b / 64] >> (b % 64)) & 1; }
  int64_t Pairs() const;  // unordered

  bool operator==(const PairSet&) const = default;

 private:
  uint32_t size_;
  uint32_t words_;
  std::vector<uint64_t> bits_;
};

// The unsafe pairs: storages of which neither must have ended before the other starts, so that some
// interleaving needs both at once. All others may share memory under any interleaving. A storage of
// 0 bytes is in no pair; a persistent one in a pair with every other; an output precedes none.
//
// Two ways to the same set (theorems 1 and 2), both O(nodes + edges) times a row of bits or of
// streams, plus storages^2 / 64:
//
// Algorithm 1 with its MaxNodes optimisation. Rows of bits hold what starts below each node of the
// graph; what starts below all the last consumers of a storage may reuse it. Memory beside the
// result: nodes * storages / 8 bytes.
PairSet UnsafePairsByAncestors(const PreparedGraph& flow);

// Algorithms 2 to 5. A table holds, for each node and stream, the last node of the stream that
// leads to it (MaxAncId); within its own stream that is the node before it. With that reading the
// four cases of the paper are one: a storage precedes another iff in each stream its last consumer
// (EndTime) is not behind the other's MaxAncId. Memory beside the result: nodes * streams * 4
// bytes.
PairSet UnsafePairsByStreams(const PreparedGraph& flow);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_SAFETY_H_
