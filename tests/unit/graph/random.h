// Small random graphs, and oracles that are too simple to be wrong.
#ifndef REPRISE_TESTS_UNIT_GRAPH_RANDOM_H_
#define REPRISE_TESTS_UNIT_GRAPH_RANDOM_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/graph/graph.h"
#include "planner/graph/prepared_graph.h"

namespace reprise::planner::graph {

inline Tensor MakeTensor(const char* name, uint32_t producer, std::vector<uint32_t> consumers,
                         int64_t bytes, int64_t offset = kFree) {
  Tensor tensor;
  tensor.id.text = name;
  tensor.producer = producer;
  tensor.consumers = std::move(consumers);
  tensor.bytes = bytes;
  tensor.offset = offset;
  return tensor;
}

inline Node MakeNode(int number, uint32_t stream) {
  Node node;
  node.id = {absl::StrCat(number), true};
  node.stream = stream;
  node.order = number;
  return node;
}

struct GraphShape {
  int nodes = 6;
  int streams = 2;
  int tensors = 6;
  int reach = 6;             // consumers are at most so many nodes behind
  int most = 9;              // bytes
  bool constrained = false;  // aliases, inputs, persistent and empty tensors, groups, alignments
};

inline Graph RandomGraph(uint64_t seed, const GraphShape& shape) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Graph graph;
  for (int s = 0; s < shape.streams; ++s) graph.streams.push_back({absl::StrCat(s), true});
  for (int i = 0; i < shape.nodes; ++i) {
    graph.nodes.push_back(MakeNode(i, static_cast<uint32_t>(below(shape.streams))));
  }
  for (int t = 0; t < shape.tensors; ++t) {
    Tensor tensor;
    tensor.id = {absl::StrCat(t), true};
    tensor.producer = static_cast<uint32_t>(below(shape.nodes));
    for (int64_t c = below(4); c > 0; --c) {
      const int64_t reach = std::min<int64_t>(shape.reach, shape.nodes - tensor.producer);
      tensor.consumers.push_back(tensor.producer + static_cast<uint32_t>(below(reach)));
    }
    tensor.bytes = 1 + below(shape.most);
    if (shape.constrained) {
      if (below(8) == 0) tensor.producer = kNone;
      if (below(8) == 0) tensor.bytes = 0;
      if (below(16) == 0) tensor.persistent = true;
      if (below(3) == 0) tensor.alignment = int64_t{1} << below(4);
      if (below(16) == 0) tensor.output = true;
      if (t > 0 && below(5) == 0) {
        // Most of these are legal.
        tensor.alias_of = static_cast<uint32_t>(below(t));
        Tensor& target = graph.tensors[tensor.alias_of];
        tensor.alias = below(2) == 0 ? Alias::kWrite : Alias::kView;
        const int64_t from = target.producer == kNone ? 0 : target.producer;
        tensor.producer = static_cast<uint32_t>(from + below(shape.nodes - from));
        for (uint32_t& reader : tensor.consumers) reader = std::max(reader, tensor.producer);
        tensor.bytes = std::min(tensor.bytes, target.bytes);
        tensor.alias_offset = below(target.bytes - tensor.bytes + 1);
        tensor.alignment = 1;
      }
    }
    graph.tensors.push_back(std::move(tensor));
  }
  if (shape.constrained) {
    std::vector<uint32_t> free;
    for (uint32_t t = 0; t < graph.tensors.size(); ++t) free.push_back(t);
    std::shuffle(free.begin(), free.end(), random);
    for (int64_t g = below(3); g > 0 && free.size() > 3; --g) {
      std::vector<uint32_t> group(free.end() - 2 - below(2), free.end());
      free.resize(free.size() - group.size());
      // Alignments that side by side cannot keep are another test.
      for (const uint32_t t : group) graph.tensors[t].alignment = 1;
      graph.groups.push_back(std::move(group));
    }
  }
  return graph;
}

using Pairs = std::set<std::pair<uint32_t, uint32_t>>;

// The pairs of storages that some state of some execution needs at once. A state is which nodes
// have started and which have ended; a node may start when all before it have ended.
inline Pairs UnsafeByInterleavings(const PreparedGraph& flow) {
  const uint32_t n = flow.nodes;
  std::vector<uint32_t> before(n, 0);  // bits
  std::vector<uint32_t> last(flow.streams, kNone);
  for (const uint32_t node : flow.sequence) {
    for (const uint32_t p : flow.predecessors[node]) before[node] |= 1u << p;
    if (last[flow.stream[node]] != kNone) before[node] |= 1u << last[flow.stream[node]];
    last[flow.stream[node]] = node;
  }
  Pairs pairs;
  const auto note = [&](const std::vector<uint32_t>& needed) {
    for (size_t i = 0; i < needed.size(); ++i) {
      for (size_t j = i + 1; j < needed.size(); ++j) pairs.insert({needed[i], needed[j]});
    }
  };
  std::set<std::pair<uint32_t, uint32_t>> seen;
  std::vector<std::pair<uint32_t, uint32_t>> todo = {{0, 0}};
  std::vector<uint32_t> at_first;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (flow.storages[s].bytes == 0) continue;
    if (flow.starts[s].empty() || flow.storages[s].persistent) at_first.push_back(s);
  }
  note(at_first);
  while (!todo.empty()) {
    const auto [started, ended] = todo.back();
    todo.pop_back();
    if (!seen.insert({started, ended}).second) continue;
    std::vector<uint32_t> needed;
    for (uint32_t s = 0; s < flow.storages.size(); ++s) {
      if (flow.storages[s].bytes == 0) continue;
      bool begun = flow.starts[s].empty(), over = !flow.storages[s].output;
      for (const uint32_t node : flow.starts[s]) begun |= (started >> node) & 1;
      for (const uint32_t node : flow.ends[s]) over &= (ended >> node) & 1;
      if ((begun && !over) || flow.storages[s].persistent) needed.push_back(s);
    }
    note(needed);
    for (uint32_t node = 0; node < n; ++node) {
      const uint32_t bit = 1u << node;
      if ((started & bit) == 0 && (before[node] & ~ended) == 0)
        todo.push_back({started | bit, ended});
      if ((started & bit) != 0 && (ended & bit) == 0) todo.push_back({started, ended | bit});
    }
  }
  return pairs;
}

// The least peak of all orders: the exact dynamic program over the sets of nodes that may have run.
inline int64_t LeastPeakByAntichains(const PreparedGraph& flow) {
  std::vector<uint32_t> before(flow.nodes, 0);
  for (uint32_t node = 0; node < flow.nodes; ++node) {
    for (const uint32_t p : flow.predecessors[node]) before[node] |= 1u << p;
  }
  const auto load = [&](uint32_t done, uint32_t running) {
    int64_t bytes = 0;
    for (uint32_t s = 0; s < flow.storages.size(); ++s) {
      bool begun = flow.starts[s].empty(), over = !flow.storages[s].output;
      for (const uint32_t node : flow.starts[s]) begun |= ((done | running) >> node) & 1;
      for (const uint32_t node : flow.ends[s]) over &= (done >> node) & 1;
      if ((begun && !over) || flow.storages[s].persistent) bytes += flow.storages[s].bytes;
    }
    return bytes;
  };
  int64_t first = 0;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (flow.starts[s].empty() || flow.storages[s].persistent) first += flow.storages[s].bytes;
  }
  std::map<uint32_t, int64_t> layer = {{0, first}};
  for (uint32_t i = 0; i < flow.nodes; ++i) {
    std::map<uint32_t, int64_t> next;
    for (const auto& [done, peak] : layer) {
      for (uint32_t node = 0; node < flow.nodes; ++node) {
        const uint32_t bit = 1u << node;
        if ((done & bit) != 0 || (before[node] & ~done) != 0) continue;
        const int64_t here = std::max(peak, load(done, bit));
        const auto [at, added] = next.emplace(done | bit, here);
        if (!added) at->second = std::min(at->second, here);
      }
    }
    layer = std::move(next);
  }
  return layer.begin()->second;
}

}  // namespace reprise::planner::graph

#endif  // REPRISE_TESTS_UNIT_GRAPH_RANDOM_H_
