#include "planner/graph/loop.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "planner/graph/check_loop.h"
#include "planner/solve.h"

namespace reprise::planner::graph {
namespace {

absl::Status Refuse(const std::string& where, const std::string& expected,
                    const std::string& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected ", expected, ", found ", found));
}

std::string TensorCalled(const Graph& graph, uint32_t tensor) {
  return absl::StrCat("tensor ", Quoted(graph.tensors[tensor].id));
}

absl::Status ValidateBody(const Graph& graph) {
  std::vector<uint8_t> inside(graph.nodes.size());
  for (const uint32_t node : graph.loop->body) {
    if (inside[node]++ > 0) {
      return Refuse("loop.body", "each node once",
                    absl::StrCat("node ", Quoted(graph.nodes[node].id), " again"));
    }
  }
  for (uint32_t node = 0; node < inside.size(); ++node) {
    if (inside[node] > 0) continue;
    return Refuse("loop.body", "all nodes: the graph is the body",
                  absl::StrCat("all but node ", Quoted(graph.nodes[node].id)));
  }
  return absl::OkStatus();
}

// A tensor that overwrites bytes of `tensor`, or may do so, as the file does not say that it is a
// view; or kNone.
uint32_t Overwriter(const Graph& graph, uint32_t tensor) {
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    if (t == tensor || graph.tensors[t].alias == Alias::kView) continue;
    for (uint32_t of = graph.tensors[t].alias_of; of != kNone; of = graph.tensors[of].alias_of) {
      if (of == tensor) return t;
    }
  }
  return kNone;
}

// What has no producer and is not carried has the value of before in every iteration.
absl::Status ValidateConstants(const Graph& graph, const PreparedGraph& flow) {
  std::vector<uint8_t> carried(graph.tensors.size());
  for (const auto& [from, to] : graph.loop->carried) carried[to] = 1;
  std::vector<uint32_t> writer_of(flow.storages.size(), kNone);
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.alias_of != kNone && tensor.alias != Alias::kView) writer_of[flow.storage_of[t]] = t;
  }
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer != kNone && tensor.alias_of == kNone &&
        flow.starts[flow.storage_of[t]].empty()) {
      return Refuse("loop", "parts that a node produces of what a node produces",
                    TensorCalled(graph, t) + ", of which a part is there from before");
    }
    if (tensor.producer != kNone || tensor.alias_of != kNone || carried[t] != 0) continue;
    const uint32_t writer = writer_of[flow.storage_of[t]];
    if (writer == kNone) continue;
    const bool stated = graph.tensors[writer].alias == Alias::kWrite;
    return Refuse("loop",
                  absl::StrCat(TensorCalled(graph, t),
                               ", which is the same in all iterations, not to be overwritten"),
                  absl::StrCat(TensorCalled(graph, writer),
                               stated ? ", which overwrites it"
                                      : "; add \"in_place\": false if it is a view"));
  }
  return absl::OkStatus();
}

// One pair [from, to]. In place: both are all of one storage.
absl::Status ValidateCarried(const Graph& graph, const PreparedGraph& flow, size_t pair) {
  const auto [from, to] = graph.loop->carried[pair];
  const std::string where = absl::StrCat("loop.carried[", pair, "]");
  if (graph.tensors[from].producer == kNone) {
    return Refuse(where + "[0]", "a tensor that a node produces", TensorCalled(graph, from));
  }
  if (graph.tensors[to].producer != kNone) {
    return Refuse(where + "[1]", "a tensor without producer", TensorCalled(graph, to));
  }
  for (const uint32_t t : {from, to}) {
    const Storage& storage = flow.storages[flow.storage_of[t]];
    const int64_t bytes = planner::RoundUp(graph.tensors[t].bytes, flow.alignment);
    const bool whole =
        flow.position[t] == 0 &&
        (bytes == storage.bytes || (graph.tensors[t].alias_of != kNone && bytes == 0));
    if (!whole) {
      return Refuse(where, "tensors that are all of their memory", TensorCalled(graph, t));
    }
    // An output that is there from the beginning counts as persistent, too.
    const bool output = storage.output && flow.starts[flow.storage_of[t]].empty();
    if (graph.tensors[t].persistent || (storage.persistent && !output)) {
      return Refuse(where, "tensors that are not persistent", TensorCalled(graph, t));
    }
  }
  const uint32_t first = flow.storage_of[from], second = flow.storage_of[to];
  if (flow.storages[first].bytes != flow.storages[second].bytes) {
    return Refuse(
        where, "tensors of one size",
        absl::StrCat(base::Counted(static_cast<uint64_t>(graph.tensors[from].bytes), "byte"),
                     " and ", graph.tensors[to].bytes));
  }
  if (const uint32_t writer = Overwriter(graph, from); writer != kNone) {
    return Refuse(
        where + "[0]", "a tensor that is not overwritten",
        TensorCalled(graph, from) + ", which " + TensorCalled(graph, writer) + " may overwrite");
  }
  if (first != second && flow.starts[first].empty()) {
    return Refuse(where + "[0]", "memory that the iteration writes first",
                  TensorCalled(graph, from) + ", whose memory has a value from before");
  }
  return absl::OkStatus();
}

// Buffers and what they are: a storage that is not carried, or the two of a pair.
struct LoopInstance {
  Instance instance;
  std::vector<uint32_t> buffer_of;  // per storage; kNone: takes no memory
  std::vector<uint8_t> is_read;     // per storage: the second of a pair, one iteration late
  std::vector<uint32_t> tensor_of;  // per buffer, for messages
};

LoopInstance MakeLoopInstance(const Graph& graph, const PreparedGraph& flow) {
  const auto count = static_cast<uint32_t>(flow.storages.size());
  const auto period = static_cast<int64_t>(flow.nodes);
  LoopInstance loop;
  loop.buffer_of.assign(count, kNone);
  loop.is_read.assign(count, 0);
  std::vector<uint32_t> next(count, kNone);  // what the storage becomes in the next iteration
  for (const auto& [from, to] : graph.loop->carried) {
    if (flow.storage_of[from] == flow.storage_of[to]) continue;
    next[flow.storage_of[from]] = flow.storage_of[to];
    loop.is_read[flow.storage_of[to]] = 1;
  }
  std::vector<uint32_t> tensor_of(count, kNone);
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    uint32_t& first = tensor_of[flow.storage_of[t]];
    if (first == kNone || graph.tensors[t].alias_of == kNone) first = t;
  }
  const std::vector<Span> spans = Lifetimes(flow, flow.sequence);
  for (uint32_t s = 0; s < count; ++s) {
    const Storage& storage = flow.storages[s];
    if (storage.bytes == 0 || loop.is_read[s]) continue;
    Buffer buffer{spans[s].lower, spans[s].upper, storage.bytes};
    int64_t alignment = storage.alignment;
    int64_t offset = storage.offset;
    if (spans[s].lower < 0) buffer = {0, period, storage.bytes};
    if (next[s] != kNone) {
      const Storage& read = flow.storages[next[s]];
      buffer.upper = period + std::max<int64_t>(spans[next[s]].upper, 0);
      alignment = std::max(alignment, read.alignment);
      if (offset == kFree) offset = read.offset;
      loop.buffer_of[next[s]] = static_cast<uint32_t>(loop.instance.buffers.size());
    }
    loop.buffer_of[s] = static_cast<uint32_t>(loop.instance.buffers.size());
    loop.instance.buffers.push_back(buffer);
    loop.instance.alignments.push_back(alignment);
    loop.instance.fixed_offsets.push_back(offset);
    loop.tensor_of.push_back(tensor_of[s]);
  }
  loop.instance.alignment = flow.alignment;
  return loop;
}

std::vector<std::vector<int64_t>> SlotsOfTensors(const Graph& graph, const PreparedGraph& flow,
                                                 const LoopInstance& loop,
                                                 const PeriodicPlan& solved) {
  std::vector<std::vector<int64_t>> slots;
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const uint32_t s = flow.storage_of[t];
    const uint32_t buffer = loop.buffer_of[s];
    std::vector<int64_t> mine;
    if (buffer == kNone) {
      mine.push_back(std::max<int64_t>(flow.storages[s].offset, 0) + flow.position[t]);
    } else {
      const uint32_t first = solved.first_slot[buffer];
      const uint32_t count = solved.first_slot[buffer + 1] - first;
      for (uint32_t i = 0; i < count; ++i) {
        // What is read now was made one iteration ago.
        const uint32_t slot = loop.is_read[s] ? (i + count - 1) % count : i;
        mine.push_back(solved.plan.offsets[first + slot] + flow.position[t]);
      }
    }
    slots.push_back(std::move(mine));
  }
  return slots;
}

absl::Status CheckLoopOptions(const GraphOptions& options) {
  if (options.order == "reorder" || options.order == "olla_ilp") {
    return absl::FailedPreconditionError(
        absl::StrCat("--order: a graph with a loop keeps its order; expected given or auto, found ",
                     options.order));
  }
  const auto& all = Strategies();
  const bool known = std::any_of(all.begin(), all.end(), [&](const StrategyInfo& info) {
    return info.name == options.solve.strategy;
  });
  if (known) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--strategy: '", options.solve.strategy,
                   "' needs pairs, which a graph with a loop does not have"));
}

}  // namespace

absl::Status ValidateLoop(const Graph& graph, const PreparedGraph& flow) {
  if (flow.streams > 1) {
    return Refuse("loop", "a graph with one stream", absl::StrCat(flow.streams));
  }
  if (!graph.groups.empty()) return Refuse("loop", "a graph without groups", "some");
  if (graph.nodes.empty()) return Refuse("loop.body", "a node", "none");
  if (absl::Status status = ValidateBody(graph); !status.ok()) return status;
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    if (!graph.tensors[t].persistent || graph.tensors[t].producer == kNone) continue;
    return Refuse("loop", "persistent tensors that no node produces", TensorCalled(graph, t));
  }
  if (absl::Status status = ValidateConstants(graph, flow); !status.ok()) return status;
  std::vector<uint8_t> as_from(flow.storages.size()), as_to(flow.storages.size());
  for (size_t pair = 0; pair < graph.loop->carried.size(); ++pair) {
    absl::Status status = ValidateCarried(graph, flow, pair);
    if (!status.ok()) return status;
    const auto [from, to] = graph.loop->carried[pair];
    const uint32_t first = flow.storage_of[from], second = flow.storage_of[to];
    for (const auto& [seen, t] :
         {std::pair(&as_from[first], from), std::pair(&as_to[second], to)}) {
      if ((*seen)++ == 0) continue;
      return Refuse(absl::StrCat("loop.carried[", pair, "]"), "each memory in one pair",
                    TensorCalled(graph, t) + " again");
    }
    const int64_t a = flow.storages[first].offset, b = flow.storages[second].offset;
    if (a != kFree && b != kFree && a != b) {
      return Refuse(absl::StrCat("loop.carried[", pair, "]"), "one given offset",
                    absl::StrCat(a, " and ", b));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphPlan> PlanLoop(const Graph& graph, const GraphOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (absl::Status status = CheckLoopOptions(options); !status.ok()) return status;
  const absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph);
  if (!flow.ok()) return flow.status();
  if (absl::Status status = ValidateLoop(graph, *flow); !status.ok()) return status;
  const LoopInstance loop = MakeLoopInstance(graph, *flow);
  Options solve = options.solve;
  solve.name = [&](uint32_t buffer) { return TensorCalled(graph, loop.tensor_of[buffer]); };
  const absl::StatusOr<PeriodicPlan> solved = SolvePeriodic(loop.instance, flow->nodes, solve);
  if (!solved.ok()) return solved.status();
  GraphPlan plan;
  plan.slots = SlotsOfTensors(graph, *flow, loop, *solved);
  for (const std::vector<int64_t>& slots : plan.slots) plan.offsets.push_back(slots.front());
  plan.order = flow->sequence;
  plan.makespan = solved->plan.makespan;
  plan.max_load = plan.given_max_load = solved->plan.max_load;
  plan.lower_bound = solved->plan.lower_bound;
  plan.strategy = solved->plan.strategy;
  plan.proven_optimal = solved->plan.proven_optimal;
  plan.streams = 1;
  plan.seed = solve.seed;
  const GraphCheck check = CheckLoop(graph, plan.slots, plan.order, 1);
  if (absl::Status status = AsPlanned(check, plan); !status.ok()) return status;
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace reprise::planner::graph
