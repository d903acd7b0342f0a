#include "planner/graph/flow.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <string>
#include <unordered_map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

// Makespans stay below this, so that sums of two offsets never overflow.
constexpr int64_t kMost = int64_t{1} << 61;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string NodeName(const Graph& graph, uint32_t node) {
  return absl::StrCat("node ", Quoted(graph.nodes[node].id));
}

std::string TensorName(const Graph& graph, uint32_t tensor) {
  return absl::StrCat("tensor ", Quoted(graph.tensors[tensor].id));
}

Lists ToLists(const std::vector<std::pair<uint32_t, uint32_t>>& pairs, uint32_t owners) {
  Lists lists;
  lists.first.assign(owners + 1, 0);
  for (const auto& pair : pairs) ++lists.first[pair.first + 1];
  std::partial_sum(lists.first.begin(), lists.first.end(), lists.first.begin());
  lists.items.reserve(pairs.size());
  for (const auto& pair : pairs) lists.items.push_back(pair.second);
  return lists;
}

void MakeEdges(const Graph& graph, Flow& flow) {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer == kNone) continue;
    for (const uint32_t consumer : tensor.consumers) {
      if (consumer != tensor.producer) edges.emplace_back(tensor.producer, consumer);
    }
  }
  const auto sort = [&] {
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  };
  sort();
  flow.successors = ToLists(edges, flow.nodes);
  for (auto& edge : edges) std::swap(edge.first, edge.second);
  sort();
  flow.predecessors = ToLists(edges, flow.nodes);
}

// For every node the one before it in its stream, where the graph states that order.
absl::StatusOr<std::vector<uint32_t>> StreamPredecessors(const Graph& graph) {
  std::vector<std::vector<uint32_t>> members(graph.streams.size());
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    members[graph.nodes[node].stream].push_back(node);
  }
  std::vector<uint32_t> before(graph.nodes.size(), kNone);
  for (uint32_t stream = 0; stream < members.size(); ++stream) {
    std::vector<uint32_t>& nodes = members[stream];
    const auto stated = [&](uint32_t node) { return graph.nodes[node].order.has_value(); };
    if (std::none_of(nodes.begin(), nodes.end(), stated)) continue;
    for (const uint32_t node : nodes) {
      if (stated(node)) continue;
      return Bad(absl::StrCat(NodeName(graph, node),
                              ": expected an order, as other nodes of stream ",
                              Quoted(graph.streams[stream]), " have one, found none"));
    }
    const auto order = [&](uint32_t node) { return *graph.nodes[node].order; };
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](uint32_t a, uint32_t b) { return order(a) < order(b); });
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (order(nodes[i - 1]) == order(nodes[i])) {
        return Bad(absl::StrCat("nodes ", Quoted(graph.nodes[nodes[i - 1]].id), " and ",
                                Quoted(graph.nodes[nodes[i]].id),
                                ": expected an order of its own for each node of stream ",
                                Quoted(graph.streams[stream]), ", found ", order(nodes[i]),
                                " for both"));
      }
      before[nodes[i]] = nodes[i - 1];
    }
  }
  return before;
}

// Names a cycle among the nodes that Kahn's algorithm could not reach.
absl::Status Cycle(const Graph& graph, const Flow& flow, const std::vector<uint32_t>& before,
                   const std::vector<uint32_t>& blockers) {
  const auto blocked = [&](uint32_t node) { return blockers[node] > 0; };
  uint32_t node = 0;
  while (!blocked(node)) ++node;
  std::vector<uint32_t> walk;
  std::vector<uint32_t> seen(flow.nodes, kNone);
  while (seen[node] == kNone) {
    seen[node] = static_cast<uint32_t>(walk.size());
    walk.push_back(node);
    const auto predecessors = flow.predecessors[node];
    const auto next = std::find_if(predecessors.begin(), predecessors.end(), blocked);
    node = next != predecessors.end() ? *next : before[node];
  }
  walk.erase(walk.begin(), walk.begin() + seen[node]);
  std::reverse(walk.begin(), walk.end());
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(walk.size(), kShown); ++i) {
    absl::StrAppend(&text, Quoted(graph.nodes[walk[i]].id), " -> ");
  }
  if (walk.size() > kShown) absl::StrAppend(&text, "(", walk.size() - kShown, " more) -> ");
  bool by_stream = false;
  for (size_t i = 0; i < walk.size(); ++i) {
    by_stream |= before[walk[i]] == walk[(i + walk.size() - 1) % walk.size()];
  }
  return Bad(absl::StrCat("nodes: expected no cycle of tensors",
                          by_stream ? " and orders in streams" : "", ", found ", text,
                          Quoted(graph.nodes[walk[0]].id)));
}

// Kahn's algorithm; of the nodes that may come next, the first in the file.
absl::Status SortTopologically(const Graph& graph, const std::vector<uint32_t>& before,
                               Flow& flow) {
  std::vector<uint32_t> blockers(flow.nodes);
  std::vector<uint32_t> after(flow.nodes, kNone);
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t node = 0; node < flow.nodes; ++node) {
    blockers[node] = static_cast<uint32_t>(flow.predecessors[node].size());
    if (before[node] != kNone) {
      ++blockers[node];
      after[before[node]] = node;
    }
    if (blockers[node] == 0) ready.push(node);
  }
  const auto release = [&](uint32_t node) {
    if (--blockers[node] == 0) ready.push(node);
  };
  while (!ready.empty()) {
    const uint32_t node = ready.top();
    ready.pop();
    flow.sequence.push_back(node);
    for (const uint32_t next : flow.successors[node]) release(next);
    if (after[node] != kNone) release(after[node]);
  }
  if (flow.sequence.size() == flow.nodes) return absl::OkStatus();
  return Cycle(graph, flow, before, blockers);
}

absl::Status CheckGivenOrder(const Graph& graph, const Flow& flow,
                             const std::vector<uint32_t>& before) {
  std::vector<uint32_t> place(flow.nodes, kNone);
  for (uint32_t i = 0; i < graph.order.size(); ++i) {
    if (place[graph.order[i]] != kNone) {
      return Bad(absl::StrCat("order[", i, "]: expected each node once, found ",
                              Quoted(graph.nodes[graph.order[i]].id), " again"));
    }
    place[graph.order[i]] = i;
  }
  for (uint32_t node = 0; node < flow.nodes; ++node) {
    if (place[node] == kNone) {
      return Bad(absl::StrCat("order: expected every node, found no ", NodeName(graph, node)));
    }
  }
  for (uint32_t node = 0; node < flow.nodes; ++node) {
    for (const uint32_t earlier : flow.predecessors[node]) {
      if (place[earlier] < place[node]) continue;
      return Bad(absl::StrCat("order: expected ", Quoted(graph.nodes[earlier].id), " before ",
                              Quoted(graph.nodes[node].id),
                              ", which needs a tensor of it, found it after"));
    }
    if (before[node] != kNone && place[before[node]] > place[node]) {
      return Bad(absl::StrCat("order: expected ", Quoted(graph.nodes[before[node]].id), " before ",
                              Quoted(graph.nodes[node].id), ", as in their stream ",
                              Quoted(graph.streams[graph.nodes[node].stream]), ", found it after"));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeSequence(const Graph& graph, Flow& flow) {
  const absl::StatusOr<std::vector<uint32_t>> before = StreamPredecessors(graph);
  if (!before.ok()) return before.status();
  if (absl::Status status = SortTopologically(graph, *before, flow); !status.ok()) return status;
  flow.order_given =
      !graph.order.empty() || std::all_of(graph.nodes.begin(), graph.nodes.end(),
                                          [](const Node& node) { return node.order.has_value(); });
  if (graph.order.empty()) return absl::OkStatus();
  if (absl::Status status = CheckGivenOrder(graph, flow, *before); !status.ok()) return status;
  flow.sequence = graph.order;
  return absl::OkStatus();
}

// For every tensor the one whose memory it uses in the end.
absl::StatusOr<std::vector<uint32_t>> AliasRoots(const Graph& graph) {
  const uint32_t count = static_cast<uint32_t>(graph.tensors.size());
  std::vector<uint32_t> root(count, kNone);
  std::vector<uint32_t> chain;
  for (uint32_t tensor = 0; tensor < count; ++tensor) {
    chain.clear();
    uint32_t at = tensor;
    while (root[at] == kNone && graph.tensors[at].alias_of != kNone) {
      chain.push_back(at);
      if (chain.size() > count) {
        return Bad(absl::StrCat(TensorName(graph, tensor),
                                ": expected an alias_of that ends at a tensor with memory of its "
                                "own, found a cycle"));
      }
      at = graph.tensors[at].alias_of;
    }
    const uint32_t end = root[at] == kNone ? at : root[at];
    root[at] = end;
    for (const uint32_t alias : chain) root[alias] = end;
  }
  return root;
}

absl::Status MakeStorages(const Graph& graph, Flow& flow) {
  const absl::StatusOr<std::vector<uint32_t>> roots = AliasRoots(graph);
  if (!roots.ok()) return roots.status();
  const uint32_t count = static_cast<uint32_t>(graph.tensors.size());
  flow.storage_of.assign(count, kNone);
  std::vector<std::pair<uint32_t, uint32_t>> members;
  for (uint32_t tensor = 0; tensor < count; ++tensor) {
    uint32_t& of_root = flow.storage_of[(*roots)[tensor]];
    if (of_root == kNone) {
      of_root = static_cast<uint32_t>(flow.storages.size());
      flow.storages.emplace_back();
    }
    flow.storage_of[tensor] = of_root;
    members.emplace_back(of_root, tensor);
  }
  std::sort(members.begin(), members.end());
  std::vector<uint32_t> starts, ends;
  int64_t sum = 0;
  for (size_t i = 0; i < members.size();) {
    const uint32_t index = members[i].first;
    Storage& storage = flow.storages[index];
    starts.clear();
    ends.clear();
    bool from_the_beginning = false;
    for (; i < members.size() && members[i].first == index; ++i) {
      const uint32_t t = members[i].second;
      const Tensor& tensor = graph.tensors[t];
      if (tensor.bytes > kMost - sum) {
        return Bad(absl::StrCat(TensorName(graph, t), ": expected sizes whose sum is below 2^61, ",
                                "found ", tensor.bytes, " bytes"));
      }
      storage.bytes = std::max(storage.bytes, tensor.bytes);
      storage.alignment = std::max(storage.alignment, tensor.alignment);
      storage.persistent |= tensor.persistent;
      if (tensor.offset != kFree) {
        if (storage.offset != kFree && storage.offset != tensor.offset) {
          return Bad(absl::StrCat(TensorName(graph, t), ": expected the offset ", storage.offset,
                                  " of the tensor that it shares memory with, found ",
                                  tensor.offset));
        }
        storage.offset = tensor.offset;
      }
      if (tensor.producer == kNone) {
        from_the_beginning = true;
      } else {
        starts.push_back(tensor.producer);
        ends.push_back(tensor.producer);
      }
      ends.insert(ends.end(), tensor.consumers.begin(), tensor.consumers.end());
    }
    if (storage.offset != kFree &&
        (storage.offset % storage.alignment != 0 || storage.offset > kMost - storage.bytes)) {
      return Bad(absl::StrCat(TensorName(graph, members[i - 1].second),
                              ": expected an offset that is a multiple of ", storage.alignment,
                              " and ends below 2^61, found ", storage.offset));
    }
    sum += storage.bytes + storage.alignment;
    if (sum > kMost) {
      return Bad(absl::StrCat(TensorName(graph, members[i - 1].second),
                              ": expected sizes and alignments whose sum is below 2^61, found ",
                              storage.bytes, " bytes aligned to ", storage.alignment));
    }
    const auto tidy = [](std::vector<uint32_t>& list) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    if (from_the_beginning) starts.clear();
    tidy(starts);
    tidy(ends);
    flow.starts.Add(starts);
    flow.ends.Add(ends);
  }
  return absl::OkStatus();
}

absl::Status MakeGroups(const Graph& graph, Flow& flow) {
  std::vector<uint32_t> group_of(flow.storages.size(), kNone);
  for (uint32_t g = 0; g < graph.groups.size(); ++g) {
    std::vector<uint32_t> group;
    int64_t length = 0;
    int64_t alignment = 1;  // what is known of the group's offset: its remainder by this
    int64_t remainder = 0;
    int64_t offset = kFree;
    for (const uint32_t tensor : graph.groups[g]) {
      const uint32_t storage = flow.storage_of[tensor];
      const Storage& s = flow.storages[storage];
      if (group_of[storage] != kNone) {
        return Bad(absl::StrCat("groups[", g,
                                "]: expected memory that is in one group once, found ",
                                TensorName(graph, tensor), " of groups[", group_of[storage], "]"));
      }
      group_of[storage] = g;
      const int64_t mine = (s.alignment - length % s.alignment) % s.alignment;
      const int64_t common = std::min(alignment, s.alignment);
      if (mine % common != remainder % common) {
        return Bad(absl::StrCat("groups[", g, "]: expected alignments that one place can keep, ",
                                "found ", TensorName(graph, tensor), " aligned to ", s.alignment,
                                " and ", length, " bytes behind the group's beginning"));
      }
      if (s.alignment > alignment) {
        alignment = s.alignment;
        remainder = mine;
      }
      if (s.offset != kFree) {
        const int64_t given = s.offset - length;
        if (given < 0 || (offset != kFree && offset != given)) {
          return Bad(absl::StrCat("groups[", g, "]: expected offsets that lie side by side, found ",
                                  TensorName(graph, tensor), " at ", s.offset));
        }
        offset = given;
      }
      length += s.bytes;
      group.push_back(storage);
    }
    if (offset != kFree && offset % alignment != remainder) {
      return Bad(absl::StrCat("groups[", g, "]: expected offsets that keep the alignment ",
                              alignment, ", found ", TensorName(graph, graph.groups[g][0]), " at ",
                              offset));
    }
    if (!group.empty()) flow.groups.push_back(std::move(group));
  }
  return absl::OkStatus();
}

void RoundSizes(Flow& flow) {
  int64_t common = kMost;
  for (const Storage& storage : flow.storages) {
    if (storage.bytes > 0) common = std::min(common, storage.alignment);
  }
  if (common == kMost) return;
  flow.alignment = common;
  for (Storage& storage : flow.storages) {
    storage.bytes = (storage.bytes + common - 1) / common * common;
  }
}

}  // namespace

// Messages are of one line.
std::string Quoted(const Id& id) {
  if (id.number) return id.text;
  const bool plain = std::all_of(id.text.begin(), id.text.end(),
                                 [](unsigned char c) { return c >= ' ' && c != 0x7f; });
  return absl::StrCat("'", plain ? id.text : absl::Utf8SafeCEscape(id.text), "'");
}

absl::StatusOr<Flow> MakeFlow(const Graph& graph) {
  Flow flow;
  flow.nodes = static_cast<uint32_t>(graph.nodes.size());
  flow.streams = static_cast<uint32_t>(graph.streams.size());
  flow.stream.reserve(flow.nodes);
  for (const Node& node : graph.nodes) flow.stream.push_back(node.stream);
  MakeEdges(graph, flow);
  if (absl::Status status = MakeSequence(graph, flow); !status.ok()) return status;
  if (absl::Status status = MakeStorages(graph, flow); !status.ok()) return status;
  if (absl::Status status = MakeGroups(graph, flow); !status.ok()) return status;
  RoundSizes(flow);
  return flow;
}

std::vector<uint32_t> Places(std::span<const uint32_t> sequence) {
  std::vector<uint32_t> place(sequence.size());
  for (uint32_t i = 0; i < sequence.size(); ++i) place[sequence[i]] = i;
  return place;
}

std::vector<Span> Lifetimes(const Flow& flow, std::span<const uint32_t> sequence) {
  const std::vector<uint32_t> place = Places(sequence);
  std::vector<Span> spans;
  spans.reserve(flow.storages.size());
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    // What is there from the beginning lives in a step of its own before the first node.
    Span span{flow.starts[s].empty() ? -1 : static_cast<int64_t>(flow.nodes), 0};
    for (const uint32_t node : flow.starts[s]) {
      span.lower = std::min<int64_t>(span.lower, place[node]);
    }
    for (const uint32_t node : flow.ends[s])
      span.upper = std::max<int64_t>(span.upper, place[node] + 1);
    if (flow.storages[s].persistent) span = {-1, flow.nodes};
    span.upper = std::max(span.upper, span.lower + 1);
    spans.push_back(span);
  }
  return spans;
}

std::vector<int64_t> Loads(const Flow& flow, std::span<const uint32_t> sequence) {
  // The first entry is the instant before the first node.
  std::vector<int64_t> loads(sequence.size() + 2, 0);
  const std::vector<Span> spans = Lifetimes(flow, sequence);
  for (uint32_t s = 0; s < spans.size(); ++s) {
    loads[spans[s].lower + 1] += flow.storages[s].bytes;
    loads[spans[s].upper + 1] -= flow.storages[s].bytes;
  }
  std::partial_sum(loads.begin(), loads.end(), loads.begin());
  loads.pop_back();
  return loads;
}

int64_t Peak(const Flow& flow, std::span<const uint32_t> sequence) {
  const std::vector<int64_t> loads = Loads(flow, sequence);
  return *std::max_element(loads.begin(), loads.end());
}

}  // namespace reprise::planner::graph
