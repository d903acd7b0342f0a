// Lists of indices, and what is reached along them.
#ifndef REPRISE_PLANNER_GRAPH_LISTS_H_
#define REPRISE_PLANNER_GRAPH_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace reprise::planner::graph {

// Lists of indices, one per owner, in one array.
struct Lists {
  std::vector<uint32_t> first = {0};  // one more than owners
  std::vector<uint32_t> items;

  size_t size() const { return first.size() - 1; }
  std::span<const uint32_t> operator[](size_t owner) const {
    return {items.data() + first[owner], items.data() + first[owner + 1]};
  }
  void Add(std::span<const uint32_t> list) {
    items.insert(items.end(), list.begin(), list.end());
    first.push_back(static_cast<uint32_t>(items.size()));
  }
};

using IndexPair = std::pair<uint32_t, uint32_t>;

// Lists of `owners` owners from pairs of owner and item; ascending, each once.
Lists ToLists(std::vector<IndexPair> pairs, uint32_t owners);

// Of lists over the same indices: per item its owners, ascending.
Lists Reversed(const Lists& lists);

// Per pair: whether a path of at least one edge leads from the first to the second. `order` is
// topological for `successors`. 64 sources at a time: O(sources / 64 * edges) time.
std::vector<bool> Reaches(const std::vector<uint32_t>& order, const Lists& successors,
                          const std::vector<IndexPair>& pairs);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_LISTS_H_
