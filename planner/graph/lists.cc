#include "planner/graph/lists.h"

#include <algorithm>
#include <numeric>

namespace reprise::planner::graph {

Lists ToLists(std::vector<IndexPair> pairs, uint32_t owners) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  Lists lists;
  lists.first.assign(owners + 1, 0);
  for (const IndexPair& pair : pairs) ++lists.first[pair.first + 1];
  std::partial_sum(lists.first.begin(), lists.first.end(), lists.first.begin());
  lists.items.reserve(pairs.size());
  for (const IndexPair& pair : pairs) lists.items.push_back(pair.second);
  return lists;
}

Lists Reversed(const Lists& lists) {
  std::vector<IndexPair> pairs;
  pairs.reserve(lists.items.size());
  for (uint32_t owner = 0; owner < lists.size(); ++owner) {
    for (const uint32_t item : lists[owner]) pairs.emplace_back(item, owner);
  }
  return ToLists(std::move(pairs), static_cast<uint32_t>(lists.size()));
}

std::vector<bool> Reaches(const std::vector<uint32_t>& order, const Lists& successors,
                          const std::vector<IndexPair>& pairs) {
  std::vector<bool> reached(pairs.size(), false);
  if (pairs.empty()) return reached;
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<uint32_t> by_source(pairs.size());
  std::iota(by_source.begin(), by_source.end(), 0);
  std::sort(by_source.begin(), by_source.end(),
            [&](uint32_t a, uint32_t b) { return place[pairs[a].first] < place[pairs[b].first]; });
  std::vector<uint64_t> from(order.size());  // per node: the sources that lead to it
  for (size_t begin = 0; begin < by_source.size();) {
    std::fill(from.begin(), from.end(), 0);
    std::vector<uint32_t> bit;  // of each pair's source
    std::vector<uint32_t> sources;
    uint32_t last = 0;
    size_t end = begin;
    for (; end < by_source.size(); ++end) {
      const IndexPair& pair = pairs[by_source[end]];
      if (sources.empty() || sources.back() != pair.first) {
        if (sources.size() == 64) break;
        sources.push_back(pair.first);
      }
      bit.push_back(static_cast<uint32_t>(sources.size() - 1));
      last = std::max(last, place[pair.second]);
    }
    for (uint32_t i = place[sources[0]], next = 0; i < last; ++i) {
      uint64_t mask = from[order[i]];
      if (next < sources.size() && sources[next] == order[i]) mask |= uint64_t{1} << next++;
      if (mask == 0) continue;
      for (const uint32_t node : successors[order[i]]) from[node] |= mask;
    }
    for (size_t i = begin; i < end; ++i) {
      reached[by_source[i]] = (from[pairs[by_source[i]].second] >> bit[i - begin]) & 1;
    }
    begin = end;
  }
  return reached;
}

}  // namespace reprise::planner::graph
