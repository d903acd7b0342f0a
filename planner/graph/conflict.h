// Placement where conflicts are pairs, not overlaps in time: storages on several streams, groups
// that lie side by side (Lamprou et al., MLSys 2023, section 4).
#ifndef REPRISE_PLANNER_GRAPH_CONFLICT_H_
#define REPRISE_PLANNER_GRAPH_CONFLICT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/graph/prepared_graph.h"
#include "planner/graph/safety.h"

namespace reprise::planner::graph {

// What is placed as one: a storage, or a group of them.
struct Block {
  uint32_t first = 0;  // range of ConflictProblem::members
  uint32_t count = 0;
  int64_t size = 0;       // bytes, of all members
  int64_t alignment = 1;  // offset % alignment == remainder
  int64_t remainder = 0;
  int64_t fixed = kFree;  // its offset, where that is given
};

struct Member {
  uint32_t storage = 0;
  uint32_t block = 0;
  int64_t relative = 0;  // bytes from the block's offset
  int64_t size = 0;      // > 0
};

// Storages of 0 bytes are in no block, but for those within groups, which are left out of
// `members`.
struct ConflictProblem {
  std::vector<Block> blocks;
  std::vector<Member> members;
  const PairSet* unsafe = nullptr;  // over storages

  uint32_t size() const { return static_cast<uint32_t>(blocks.size()); }
  std::span<const Member> MembersOf(uint32_t block) const {
    return {members.data() + blocks[block].first, blocks[block].count};
  }
};

// `unsafe` must outlive the problem.
ConflictProblem MakeConflictProblem(const PreparedGraph& flow, const PairSet& unsafe);

// Whether some member of one block may not share memory with some member of the other.
bool InConflict(const ConflictProblem& problem, uint32_t a, uint32_t b);

enum class FitKind { kFirst, kBest };

// An offset per block.
using BlockOffsets = std::vector<int64_t>;

int64_t MakespanOf(const ConflictProblem& problem, const BlockOffsets& offsets);

// Memory that is being filled: what was placed, by ascending offset. Placing and searching are
// linear in what was placed, with small constants.
class Shelf {
 public:
  explicit Shelf(const ConflictProblem& problem) : problem_(problem) {}

  void Clear() { chunks_.clear(); }
  void Place(uint32_t block, int64_t offset);

  // The lowest offset at or above `from` at which no member overlaps one that it conflicts with
  // (algorithms 8 to 11). Gives up, returning a value above `highest`, once there is none up to
  // that.
  int64_t FirstFit(uint32_t block, int64_t from, int64_t highest) const;

  // Of all gaps that begin at or above `from` and in which the block ends at or below `limit`, the
  // smallest (algorithm 12); the space below the limit, or without limit (INT64_MAX) above
  // everything, is the last. INT64_MAX: there is none.
  int64_t BestFit(uint32_t block, int64_t from, int64_t limit) const;

 private:
  static constexpr uint32_t kMost = 256;
  struct Chunk {
    uint32_t count = 0;
    uint32_t storage[kMost];
    int64_t offset[kMost];
    int64_t end[kMost];
  };
  void Insert(uint32_t storage, int64_t offset, int64_t end);
  int64_t FirstFitOfGroup(uint32_t block, int64_t from, int64_t highest) const;

  const ConflictProblem& problem_;
  std::vector<Chunk> chunks_;
};

// Algorithm 6, Single Object: blocks in this order, given ones first. Returns nothing when `stop`
// says so or, if a limit is given, as soon as a block ends at or above it.
BlockOffsets PlaceBlocks(const ConflictProblem& problem, std::span<const uint32_t> order,
                         FitKind fit, int64_t limit, const std::function<bool()>& stop);

// Algorithm 7, Many Objects: memory is cut into objects, each as large as the block it was made
// for; a block lies within one of them.
BlockOffsets PlaceInObjects(const ConflictProblem& problem, std::span<const uint32_t> order,
                            FitKind fit, const std::function<bool()>& stop);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_CONFLICT_H_
