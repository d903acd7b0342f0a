#include "planner/graph/sequence.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>

#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

std::string NodeName(const Graph& graph, uint32_t node) {
  return absl::StrCat("node ", Quoted(graph.nodes[node].id));
}

bool ByNodes(const Precedence& a, const Precedence& b) {
  return a.before != b.before ? a.before < b.before : a.after < b.after;
}

// "'a' -> 'b' -> 'a'" of a cycle.
std::string ShowWalk(const Graph& graph, const std::vector<uint32_t>& walk) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(walk.size(), kShown); ++i) {
    absl::StrAppend(&text, Quoted(graph.nodes[walk[i]].id), " -> ");
  }
  if (walk.size() > kShown) absl::StrAppend(&text, "(", walk.size() - kShown, " more) -> ");
  return absl::StrCat(text, Quoted(graph.nodes[walk[0]].id));
}

// Names a cycle among the nodes that Kahn's algorithm could not reach.
absl::Status Cycle(const Graph& graph, const Edges& edges, const std::vector<uint32_t>& before,
                   const std::vector<uint32_t>& blockers) {
  const auto blocked = [&](uint32_t node) { return blockers[node] > 0; };
  uint32_t node = 0;
  while (!blocked(node)) ++node;
  std::vector<uint32_t> walk;
  std::vector<uint32_t> seen(graph.nodes.size(), kNone);
  while (seen[node] == kNone) {
    seen[node] = static_cast<uint32_t>(walk.size());
    walk.push_back(node);
    const auto predecessors = edges.predecessors()[node];
    const auto next = std::find_if(predecessors.begin(), predecessors.end(), blocked);
    node = next != predecessors.end() ? *next : before[node];
  }
  walk.erase(walk.begin(), walk.begin() + seen[node]);
  std::reverse(walk.begin(), walk.end());
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());
  bool by_stream = false;
  const Precedence* reason = nullptr;
  for (size_t i = 0; i < walk.size(); ++i) {
    const uint32_t previous = walk[(i + walk.size() - 1) % walk.size()];
    const Precedence* const found = edges.Reason(previous, walk[i]);
    const bool in_stream = before[walk[i]] == previous;
    by_stream |= in_stream;
    if (reason == nullptr && !in_stream) reason = found;
  }
  if (reason != nullptr) {
    std::rotate(walk.begin(), std::find(walk.begin(), walk.end(), reason->after), walk.end());
    return absl::InvalidArgumentError(absl::StrCat(Describe(graph, *reason), ", found ",
                                                   ShowWalk(graph, walk), Remedy(graph, *reason)));
  }
  return absl::InvalidArgumentError(absl::StrCat("nodes: expected no cycle of tensors",
                                                 by_stream ? " and orders in streams" : "",
                                                 ", found ", ShowWalk(graph, walk)));
}

}  // namespace

Edges::Edges(const Graph& graph) : graph_(graph) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer == kNone) continue;
    for (const uint32_t consumer : tensor.consumers) {
      if (consumer != tensor.producer) by_tensors_.emplace_back(tensor.producer, consumer);
    }
  }
  std::sort(by_tensors_.begin(), by_tensors_.end());
  Build();
}

void Edges::Add(const std::vector<Precedence>& precedences) {
  reasons_.insert(reasons_.end(), precedences.begin(), precedences.end());
  std::stable_sort(reasons_.begin(), reasons_.end(), ByNodes);
  Build();
}

void Edges::AddPairs(const std::vector<IndexPair>& pairs) {
  others_.insert(others_.end(), pairs.begin(), pairs.end());
  Build();
}

void Edges::Build() {
  std::vector<IndexPair> all = by_tensors_;
  all.insert(all.end(), others_.begin(), others_.end());
  for (const Precedence& reason : reasons_) all.emplace_back(reason.before, reason.after);
  successors_ = ToLists(std::move(all), static_cast<uint32_t>(graph_.nodes.size()));
  predecessors_ = Reversed(successors_);
}

const Precedence* Edges::Reason(uint32_t before, uint32_t after) const {
  if (std::binary_search(by_tensors_.begin(), by_tensors_.end(), IndexPair(before, after))) {
    return nullptr;
  }
  Precedence wanted;
  wanted.before = before;
  wanted.after = after;
  const auto found = std::lower_bound(reasons_.begin(), reasons_.end(), wanted, ByNodes);
  const bool there = found != reasons_.end() && !ByNodes(wanted, *found);
  return there ? &*found : nullptr;
}

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
      return absl::InvalidArgumentError(
          absl::StrCat(NodeName(graph, node), ": expected an order, as other nodes of stream ",
                       Quoted(graph.streams[stream]), " have one, found none"));
    }
    const auto order = [&](uint32_t node) { return *graph.nodes[node].order; };
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](uint32_t a, uint32_t b) { return order(a) < order(b); });
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (order(nodes[i - 1]) == order(nodes[i])) {
        return absl::InvalidArgumentError(
            absl::StrCat("nodes ", Quoted(graph.nodes[nodes[i - 1]].id), " and ",
                         Quoted(graph.nodes[nodes[i]].id),
                         ": expected an order of its own for each node of stream ",
                         Quoted(graph.streams[stream]), ", found ", order(nodes[i]), " for both"));
      }
      before[nodes[i]] = nodes[i - 1];
    }
  }
  return before;
}

// Kahn's algorithm.
absl::StatusOr<std::vector<uint32_t>> SortTopologically(const Graph& graph, const Edges& edges,
                                                        const std::vector<uint32_t>& before) {
  const uint32_t nodes = static_cast<uint32_t>(graph.nodes.size());
  std::vector<uint32_t> sequence;
  std::vector<uint32_t> blockers(nodes);
  std::vector<uint32_t> after(nodes, kNone);
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t node = 0; node < nodes; ++node) {
    blockers[node] = static_cast<uint32_t>(edges.predecessors()[node].size());
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
    sequence.push_back(node);
    for (const uint32_t next : edges.successors()[node]) release(next);
    if (after[node] != kNone) release(after[node]);
  }
  if (sequence.size() == nodes) return sequence;
  return Cycle(graph, edges, before, blockers);
}

absl::Status CheckGivenOrder(const Graph& graph, const Edges& edges,
                             const std::vector<uint32_t>& before) {
  std::vector<uint32_t> place(graph.nodes.size(), kNone);
  for (uint32_t i = 0; i < graph.order.size(); ++i) {
    if (place[graph.order[i]] != kNone) {
      return absl::InvalidArgumentError(
          absl::StrCat("order[", i, "]: expected each node once, found ",
                       Quoted(graph.nodes[graph.order[i]].id), " again"));
    }
    place[graph.order[i]] = i;
  }
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    if (place[node] == kNone) {
      return absl::InvalidArgumentError(
          absl::StrCat("order: expected every node, found no ", NodeName(graph, node)));
    }
  }
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    for (const uint32_t earlier : edges.predecessors()[node]) {
      if (place[earlier] < place[node]) continue;
      if (const Precedence* reason = edges.Reason(earlier, node)) {
        return absl::InvalidArgumentError(absl::StrCat("order: ", Describe(graph, *reason),
                                                       ", found it after", Remedy(graph, *reason)));
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "order: expected ", Quoted(graph.nodes[earlier].id), " before ",
          Quoted(graph.nodes[node].id), ", which needs a tensor of it, found it after"));
    }
    if (before[node] != kNone && place[before[node]] > place[node]) {
      return absl::InvalidArgumentError(
          absl::StrCat("order: expected ", Quoted(graph.nodes[before[node]].id), " before ",
                       Quoted(graph.nodes[node].id), ", as in their stream ",
                       Quoted(graph.streams[graph.nodes[node].stream]), ", found it after"));
    }
  }
  return absl::OkStatus();
}

}  // namespace reprise::planner::graph
