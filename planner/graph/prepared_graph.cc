#include "planner/graph/prepared_graph.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "planner/graph/aliases.h"
#include "planner/graph/sequence.h"

namespace reprise::planner::graph {
namespace {

// Makespans stay below this, so that sums of two offsets never overflow.
constexpr int64_t kMaxMakespan = int64_t{1} << 61;

// Tables of nodes and streams have 4 bytes for each pair.
constexpr uint64_t kMostNodesTimesStreams = uint64_t{1} << 27;

std::string TensorName(const Graph& graph, uint32_t tensor) {
  return absl::StrCat("tensor ", Quoted(graph.tensors[tensor].id));
}

int64_t RoundUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Precedences between streams hold only where dependencies and the order within streams lead from
// the one node to the other. Where it takes the order that the streams have, that becomes edges.
absl::Status OrderBetweenStreams(const Graph& graph, const Aliases& aliases,
                                 const std::vector<Precedence>& overwritten,
                                 const std::vector<uint32_t>& sequence, Edges& edges) {
  std::vector<Precedence> between;
  std::vector<IndexPair> pairs, within;
  for (const Precedence& precedence : overwritten) {
    const IndexPair pair(precedence.before, precedence.after);
    if (graph.nodes[pair.first].stream == graph.nodes[pair.second].stream) {
      within.push_back(pair);
    } else {
      between.push_back(precedence);
      pairs.push_back(pair);
    }
  }
  Edges lasting(graph);
  lasting.Add(aliases.views);
  lasting.AddPairs(within);
  std::vector<bool> reached = Reaches(sequence, lasting.successors(), pairs);
  if (std::find(reached.begin(), reached.end(), false) == reached.end()) return absl::OkStatus();
  std::vector<IndexPair> streams;
  std::vector<uint32_t> last(graph.streams.size(), kNone);
  for (const uint32_t node : sequence) {
    uint32_t& before = last[graph.nodes[node].stream];
    if (before != kNone) streams.emplace_back(before, node);
    before = node;
  }
  lasting.AddPairs(streams);
  edges.AddPairs(streams);
  reached = Reaches(sequence, lasting.successors(), pairs);
  const auto bad = std::find(reached.begin(), reached.end(), false);
  if (bad == reached.end()) return absl::OkStatus();
  const Precedence& precedence = between[bad - reached.begin()];
  const auto stream = [&](uint32_t node) {
    return Quoted(graph.streams[graph.nodes[node].stream]);
  };
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(graph, precedence), ", found nothing that makes stream ", stream(precedence.after),
      " wait for stream ", stream(precedence.before), Remedy(graph, precedence)));
}

absl::Status MakeSequence(const Graph& graph, const Aliases& aliases, PreparedGraph& flow) {
  Edges edges(graph);
  edges.Add(aliases.views);
  edges.Add(aliases.writes);
  const std::vector<uint32_t> none(flow.nodes, kNone);
  const absl::StatusOr<std::vector<uint32_t>> order = SortTopologically(graph, edges, none);
  if (!order.ok()) return order.status();
  absl::StatusOr<std::vector<Precedence>> overwritten =
      FindHazards(graph, aliases, *order, edges.successors());
  if (!overwritten.ok()) return overwritten.status();
  edges.Add(*overwritten);

  const absl::StatusOr<std::vector<uint32_t>> before = StreamPredecessors(graph);
  if (!before.ok()) return before.status();
  absl::StatusOr<std::vector<uint32_t>> sequence = SortTopologically(graph, edges, *before);
  if (!sequence.ok()) return sequence.status();
  flow.order_given =
      !graph.order.empty() || std::all_of(graph.nodes.begin(), graph.nodes.end(),
                                          [](const Node& node) { return node.order.has_value(); });
  if (!graph.order.empty()) {
    if (absl::Status status = CheckGivenOrder(graph, edges, *before); !status.ok()) return status;
    *sequence = graph.order;
  }
  overwritten->insert(overwritten->end(), aliases.writes.begin(), aliases.writes.end());
  if (flow.streams > 1 && !overwritten->empty()) {
    if (absl::Status status = OrderBetweenStreams(graph, aliases, *overwritten, *sequence, edges);
        !status.ok()) {
      return status;
    }
  }
  flow.sequence = *std::move(sequence);
  flow.successors = edges.successors();
  flow.predecessors = edges.predecessors();
  return absl::OkStatus();
}

// What one tensor means for the storage that it lies in.
absl::Status AddToStorage(const Graph& graph, const Aliases& aliases, uint32_t t,
                          Storage& storage) {
  const Tensor& tensor = graph.tensors[t];
  storage.bytes = std::max(storage.bytes, aliases.position[t] + aliases.size[t]);
  storage.alignment = std::max(storage.alignment, tensor.alignment);
  storage.persistent |= tensor.persistent;
  storage.output |= tensor.output;
  if (tensor.offset == kFree) return absl::OkStatus();
  const int64_t offset = tensor.offset - aliases.position[t];
  if (offset < 0 || (storage.offset != kFree && storage.offset != offset)) {
    return absl::InvalidArgumentError(
        absl::StrCat(TensorName(graph, t), ": expected an offset that agrees with those of ",
                     "the tensors that it shares memory with, found ", tensor.offset));
  }
  storage.offset = offset;
  return absl::OkStatus();
}

absl::Status CheckStorage(const Graph& graph, uint32_t t, const Storage& storage, int64_t& sum) {
  if (storage.offset != kFree &&
      (storage.offset % storage.alignment != 0 || storage.offset > kMaxMakespan - storage.bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(TensorName(graph, t), ": expected an offset that is a multiple of ",
                     storage.alignment, " and ends below 2^61, found ", storage.offset));
  }
  const int64_t more = storage.bytes + storage.alignment;
  if (more > kMaxMakespan - sum) {
    return absl::InvalidArgumentError(absl::StrCat(
        TensorName(graph, t), ": expected sizes and alignments whose sum is below 2^61, found ",
        base::Counted(static_cast<uint64_t>(storage.bytes), "byte"), " aligned to ",
        storage.alignment));
  }
  sum += more;
  return absl::OkStatus();
}

absl::Status MakeStorages(const Graph& graph, const Aliases& aliases, PreparedGraph& flow) {
  const uint32_t count = static_cast<uint32_t>(graph.tensors.size());
  std::vector<uint32_t> of_root(count, kNone);
  std::vector<IndexPair> members;
  for (uint32_t t = 0; t < count; ++t) {
    uint32_t& storage = of_root[aliases.root[t]];
    if (storage == kNone) {
      storage = static_cast<uint32_t>(flow.storages.size());
      flow.storages.emplace_back();
    }
    flow.storage_of.push_back(storage);
    members.emplace_back(storage, t);
  }
  flow.position = aliases.position;
  const Lists tensors = ToLists(members, static_cast<uint32_t>(flow.storages.size()));
  std::vector<uint32_t> starts, ends;
  int64_t sum = 0;
  for (uint32_t s = 0; s < tensors.size(); ++s) {
    starts.clear();
    ends.clear();
    bool from_the_beginning = false;
    for (const uint32_t t : tensors[s]) {
      const Tensor& tensor = graph.tensors[t];
      const absl::Status status = AddToStorage(graph, aliases, t, flow.storages[s]);
      if (!status.ok()) return status;
      ends.insert(ends.end(), tensor.consumers.begin(), tensor.consumers.end());
      if (tensor.producer != kNone) ends.push_back(tensor.producer);
      // All others come after one of these.
      if (aliases.use[t] != Use::kOwn && aliases.use[t] != Use::kPart) continue;
      if (tensor.producer != kNone) starts.push_back(tensor.producer);
      from_the_beginning |= tensor.producer == kNone;
    }
    Storage& storage = flow.storages[s];
    if (absl::Status status = CheckStorage(graph, tensors[s].back(), storage, sum); !status.ok()) {
      return status;
    }
    const auto tidy = [](std::vector<uint32_t>& list) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    if (from_the_beginning) starts.clear();
    storage.persistent |= storage.output && starts.empty();
    tidy(starts);
    tidy(ends);
    flow.starts.Add(starts);
    flow.ends.Add(ends);
  }
  return absl::OkStatus();
}

// Where a storage is larger than a member of a group, what follows it is not next to the member.
absl::Status CheckMember(const Graph& graph, const Aliases& aliases, const PreparedGraph& flow,
                         uint32_t g, size_t i) {
  const std::vector<uint32_t>& group = graph.groups[g];
  const uint32_t t = group[i];
  const Storage& storage = flow.storages[flow.storage_of[t]];
  const int64_t end = aliases.position[t] + aliases.size[t];
  const bool begins_late = group.size() > 1 && aliases.position[t] > 0;
  const bool ends_early = i + 1 < group.size() && RoundUp(end, storage.alignment) <
                                                      RoundUp(storage.bytes, storage.alignment);
  if (!begins_late && !ends_early) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "groups[", g, "]: expected members without a larger alias, found ", TensorName(graph, t),
      " with bytes ", aliases.position[t], " to ", end, " of a storage of ", storage.bytes));
}

absl::Status MakeGroups(const Graph& graph, const Aliases& aliases, PreparedGraph& flow) {
  std::vector<uint32_t> group_of(flow.storages.size(), kNone);
  for (uint32_t g = 0; g < graph.groups.size(); ++g) {
    std::vector<uint32_t> group;
    int64_t length = 0;
    int64_t alignment = 1;  // what is known of the group's offset: its remainder by this
    int64_t remainder = 0;
    int64_t offset = kFree;
    for (size_t i = 0; i < graph.groups[g].size(); ++i) {
      const uint32_t tensor = graph.groups[g][i];
      const uint32_t storage = flow.storage_of[tensor];
      Storage& s = flow.storages[storage];
      if (group_of[storage] != kNone) {
        return absl::InvalidArgumentError(
            absl::StrCat("groups[", g, "]: expected memory that is in one group once, found ",
                         TensorName(graph, tensor), " of groups[", group_of[storage], "]"));
      }
      group_of[storage] = g;
      if (absl::Status status = CheckMember(graph, aliases, flow, g, i); !status.ok())
        return status;
      s.bytes = RoundUp(s.bytes, s.alignment);
      const int64_t mine = (s.alignment - length % s.alignment) % s.alignment;
      const int64_t common = std::min(alignment, s.alignment);
      if (mine % common != remainder % common) {
        return absl::InvalidArgumentError(absl::StrCat(
            "groups[", g, "]: expected alignments that one place can keep, ", "found ",
            TensorName(graph, tensor), " aligned to ", s.alignment, " and ",
            base::Counted(static_cast<uint64_t>(length), "byte"), " behind the group's beginning"));
      }
      if (s.alignment > alignment) {
        alignment = s.alignment;
        remainder = mine;
      }
      if (s.offset != kFree) {
        const int64_t given = s.offset - length;
        if (given < 0 || (offset != kFree && offset != given)) {
          return absl::InvalidArgumentError(
              absl::StrCat("groups[", g, "]: expected offsets that lie side by side, found ",
                           TensorName(graph, tensor), " at ", s.offset));
        }
        offset = given;
      }
      length += s.bytes;
      group.push_back(storage);
    }
    if (offset != kFree && offset % alignment != remainder) {
      return absl::InvalidArgumentError(
          absl::StrCat("groups[", g, "]: expected offsets that keep the alignment ", alignment,
                       ", found ", TensorName(graph, graph.groups[g][0]), " at ", offset));
    }
    if (!group.empty()) flow.groups.push_back(std::move(group));
  }
  return absl::OkStatus();
}

void RoundSizes(PreparedGraph& flow) {
  int64_t common = kMaxMakespan;
  for (const Storage& storage : flow.storages) {
    if (storage.bytes > 0) common = std::min(common, storage.alignment);
  }
  if (common == kMaxMakespan) return;
  flow.alignment = common;
  for (Storage& storage : flow.storages) {
    storage.bytes = RoundUp(storage.bytes, common);
  }
}

}  // namespace

// Messages are of one line.
std::string Quoted(const Id& id) {
  constexpr size_t kLongest = 80;
  const std::string text = base::Shortened(base::Printable(id.text), kLongest);
  return id.number ? text : absl::StrCat("'", text, "'");
}

absl::StatusOr<PreparedGraph> PrepareGraph(const Graph& graph) {
  PreparedGraph flow;
  flow.nodes = static_cast<uint32_t>(graph.nodes.size());
  flow.streams = static_cast<uint32_t>(graph.streams.size());
  if (flow.streams > 1 && uint64_t{flow.nodes} * flow.streams > kMostNodesTimesStreams) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nodes: expected at most ", kMostNodesTimesStreams, " nodes times streams, found ",
        base::Counted(flow.nodes, "node"), " in ", flow.streams, " streams"));
  }
  flow.stream.reserve(flow.nodes);
  for (const Node& node : graph.nodes) flow.stream.push_back(node.stream);
  const absl::StatusOr<Aliases> aliases = ResolveAliases(graph);
  if (!aliases.ok()) return aliases.status();
  if (absl::Status status = MakeSequence(graph, *aliases, flow); !status.ok()) return status;
  if (absl::Status status = MakeStorages(graph, *aliases, flow); !status.ok()) return status;
  if (absl::Status status = MakeGroups(graph, *aliases, flow); !status.ok()) return status;
  RoundSizes(flow);
  return flow;
}

std::vector<uint32_t> Places(std::span<const uint32_t> sequence) {
  std::vector<uint32_t> place(sequence.size());
  for (uint32_t i = 0; i < sequence.size(); ++i) place[sequence[i]] = i;
  return place;
}

std::vector<Span> Lifetimes(const PreparedGraph& flow, std::span<const uint32_t> sequence) {
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
    if (flow.storages[s].persistent) span.lower = -1;
    if (flow.storages[s].persistent || flow.storages[s].output) span.upper = flow.nodes;
    span.upper = std::max(span.upper, span.lower + 1);
    spans.push_back(span);
  }
  return spans;
}

std::vector<int64_t> Loads(const PreparedGraph& flow, std::span<const uint32_t> sequence) {
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

int64_t Peak(const PreparedGraph& flow, std::span<const uint32_t> sequence) {
  const std::vector<int64_t> loads = Loads(flow, sequence);
  return *std::max_element(loads.begin(), loads.end());
}

}  // namespace reprise::planner::graph
