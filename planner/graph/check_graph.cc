#include "planner/graph/check_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/graph/check_values.h"

namespace reprise::planner::graph {
namespace {

// Offsets above this are none: their sums must not overflow.
constexpr int64_t kHighest = int64_t{1} << 62;

// A tensor and all that share memory with it.
struct Memory {
  uint32_t tensor = 0;  // the first of them, for messages
  int64_t lower = 0;    // addresses [lower, upper)
  int64_t upper = 0;
  int64_t alignment = 1;
  int64_t size = 0;             // bytes, rounded up
  bool always = false;          // persistent
  bool to_the_end = false;      // an output
  bool from_the_start = false;  // some of its bytes have no producer
  bool in_group = false;
  std::vector<uint32_t> writers;  // the first ones
  std::vector<uint32_t> users;    // writers and readers
  int64_t birth = 0;              // in steps of the order; [birth, death]
  int64_t death = 0;
};

class Checker {
 public:
  Checker(const Graph& graph, const std::vector<int64_t>& offsets,
          const std::vector<uint32_t>& order, size_t most)
      : graph_(graph),
        offsets_(offsets),
        order_(order),
        most_(most),
        sharing_(graph),
        dependencies_(DataDependencies(graph, sharing_)) {}

  GraphCheck Run() {
    if (CheckOrder()) {
      CheckPlaces();
    }
    result_.valid = result_.violations.empty();
    return std::move(result_);
  }

 private:
  bool Full() const { return result_.violations.size() >= most_; }

  void Report(const Id& first, const Id& second, std::string message) {
    if (!Full()) result_.violations.push_back({first, second, std::move(message)});
  }

  const Id& Name(uint32_t tensor) const { return graph_.tensors[tensor].id; }

  bool CheckOrder() {
    step_.assign(graph_.nodes.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) {
      const Id& id = graph_.nodes[order_[i]].id;
      if (step_[order_[i]] >= 0) {
        Report(id, id, absl::StrCat("node ", Quoted(id), " is twice in the order"));
      }
      step_[order_[i]] = static_cast<int64_t>(i);
    }
    for (size_t node = 0; node < step_.size(); ++node) {
      const Id& id = graph_.nodes[node].id;
      if (step_[node] < 0) {
        Report(id, id, absl::StrCat("node ", Quoted(id), " is not in the order"));
      }
    }
    if (!result_.violations.empty()) return false;
    for (const auto& [maker, reader] : dependencies_) {
      if (step_[reader] > step_[maker]) continue;
      const Id& from = graph_.nodes[maker].id;
      const Id& to = graph_.nodes[reader].id;
      Report(from, to,
             absl::StrCat("node ", Quoted(to), " reads what node ", Quoted(from),
                          " makes, but comes before it"));
    }
    return result_.violations.empty();
  }

  void CheckPlaces() {
    if (!CheckOffsets()) return;
    CheckGroups();
    GatherMemories();
    result_.max_load = MaxLoad();
    timeline_.emplace(graph_, order_, dependencies_);
    CheckValues(graph_, sharing_, *timeline_,
                [&](uint32_t first, uint32_t second, const std::string& message) {
                  Report(Name(first), Name(second), message);
                  return !Full();
                });
    CheckOverlaps();
  }

  // False: some offset is none, so that there is nothing more to say.
  bool CheckOffsets() {
    bool addresses = true;
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      const int64_t offset = offsets_[t];
      const auto report = [&](const std::string& what) {
        Report(tensor.id, tensor.id,
               absl::StrCat("tensor ", Quoted(tensor.id), " at ", offset, ": ", what));
      };
      if (offset < 0 || offset > kHighest) {
        report("no address");
        addresses = false;
        continue;
      }
      if (offset % tensor.alignment != 0) {
        report(absl::StrCat("not a multiple of ", tensor.alignment));
      }
      if (tensor.offset != kFree && tensor.offset != offset) {
        report(absl::StrCat("its offset is given as ", tensor.offset));
      }
      if (tensor.alias_of != kNone && offsets_[tensor.alias_of] != offset - tensor.alias_offset) {
        report(
            absl::StrCat("it uses the memory of ", Quoted(Name(tensor.alias_of)), " at ",
                         offsets_[tensor.alias_of],
                         tensor.alias_offset > 0 ? absl::StrCat(" + ", tensor.alias_offset) : ""));
      }
    }
    return addresses;
  }

  // The strictest alignment of what shares memory, by base.
  std::vector<int64_t> Alignments() const {
    std::vector<int64_t> alignments(graph_.tensors.size(), 1);
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      int64_t& alignment = alignments[sharing_.base[t]];
      alignment = std::max(alignment, graph_.tensors[t].alignment);
    }
    return alignments;
  }

  static int64_t Padded(int64_t bytes, int64_t alignment) {
    return (bytes + alignment - 1) & ~(alignment - 1);
  }

  void CheckGroups() {
    const std::vector<int64_t> alignments = Alignments();
    for (const std::vector<uint32_t>& group : graph_.groups) {
      for (size_t i = 1; i < group.size(); ++i) {
        const uint32_t before = group[i - 1];
        const int64_t end =
            offsets_[before] + Padded(sharing_.bytes[before], alignments[sharing_.base[before]]);
        if (offsets_[group[i]] == end) continue;
        Report(Name(before), Name(group[i]),
               absl::StrCat("tensor ", Quoted(Name(group[i])), " at ", offsets_[group[i]],
                            ": expected at ", end, ", right behind ", Quoted(Name(before)),
                            " of its group"));
      }
    }
  }

  void GatherMemories() {
    std::map<uint32_t, Memory> memories;
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      const uint32_t base = sharing_.base[t];
      const auto [at, added] = memories.try_emplace(base);
      Memory& memory = at->second;
      if (added) {
        memory.tensor = base;
        memory.lower = memory.upper = offsets_[base];
      }
      memory.upper = std::max(memory.upper, offsets_[base] + sharing_.start[t] + sharing_.bytes[t]);
      memory.alignment = std::max(memory.alignment, tensor.alignment);
      memory.always |= tensor.persistent;
      memory.to_the_end |= tensor.output;
      if (tensor.producer != kNone) memory.users.push_back(tensor.producer);
      memory.users.insert(memory.users.end(), tensor.consumers.begin(), tensor.consumers.end());
      if (sharing_.kind[t] != Sharing::kNew) continue;
      memory.from_the_start |= tensor.producer == kNone;
      if (tensor.producer != kNone) memory.writers.push_back(tensor.producer);
    }
    for (const std::vector<uint32_t>& group : graph_.groups) {
      for (const uint32_t t : group) memories[sharing_.base[t]].in_group = true;
    }
    // Sizes count as rounded up to what all alignments are multiples of, in groups to their own.
    int64_t unit = 0;
    for (const auto& [tensor, memory] : memories) {
      if (memory.lower == memory.upper) continue;
      unit = unit == 0 ? memory.alignment : std::min(unit, memory.alignment);
    }
    for (auto& [tensor, memory] : memories) {
      if (memory.lower == memory.upper) continue;
      memory.size = Padded(memory.upper - memory.lower, memory.in_group ? memory.alignment : unit);
      result_.makespan = std::max(result_.makespan, memory.lower + memory.size);
      FindLifetime(memory);
      memories_.push_back(std::move(memory));
    }
  }

  void FindLifetime(Memory& memory) const {
    const int64_t end = static_cast<int64_t>(order_.size());
    memory.birth = memory.death = -1;
    if (!memory.from_the_start && !memory.always) {
      memory.birth = end;
      for (const uint32_t node : memory.writers) memory.birth = std::min(memory.birth, step_[node]);
    }
    for (const uint32_t node : memory.users) memory.death = std::max(memory.death, step_[node]);
    if (memory.always || memory.to_the_end) memory.death = std::max<int64_t>(end - 1, -1);
    if (graph_.streams.size() > 1) {
      Keep(memory.writers, [](int64_t a, int64_t b) { return a < b; });
      Keep(memory.users, [](int64_t a, int64_t b) { return a > b; });
    }
  }

  // Of the nodes of each stream the first, or the last.
  template <typename Better>
  void Keep(std::vector<uint32_t>& nodes, Better better) const {
    std::sort(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) {
      const uint32_t x = graph_.nodes[a].stream, y = graph_.nodes[b].stream;
      return x != y ? x < y : better(step_[a], step_[b]);
    });
    nodes.erase(std::unique(nodes.begin(), nodes.end(),
                            [&](uint32_t a, uint32_t b) {
                              return graph_.nodes[a].stream == graph_.nodes[b].stream;
                            }),
                nodes.end());
  }

  int64_t MaxLoad() const {
    std::map<int64_t, int64_t> change;
    for (const Memory& memory : memories_) {
      change[memory.birth] += memory.size;
      change[memory.death + 1] -= memory.size;
    }
    int64_t load = 0, most = 0;
    for (const auto& [step, bytes] : change) most = std::max(most, load += bytes);
    return most;
  }

  bool EndsBefore(const Memory& first, const Memory& second) const {
    if (first.always || first.to_the_end || second.always || second.from_the_start) return false;
    if (graph_.streams.size() <= 1) return first.death < second.birth;
    for (const uint32_t user : first.users) {
      for (const uint32_t writer : second.writers) {
        if (!timeline_->Precedes(user, writer)) return false;
      }
    }
    return true;
  }

  void ReportOverlap(const Memory& a, const Memory& b) {
    const Memory& first = a.tensor < b.tensor ? a : b;
    const Memory& second = a.tensor < b.tensor ? b : a;
    const int64_t lower = std::max(a.lower, b.lower);
    const int64_t upper = std::min(a.upper, b.upper);
    Report(Name(first.tensor), Name(second.tensor),
           absl::StrCat("tensors ", Quoted(Name(first.tensor)), " and ",
                        Quoted(Name(second.tensor)), " share the bytes [", lower, ", ", upper,
                        "), and neither must end before the other begins"));
  }

  // One stream: memories that live at one time must not share addresses. A sweep over time over an
  // ordered set of what lives, where a newcomer must fit between its neighbours.
  void SweepOverTime() {
    struct Event {
      int64_t step;
      bool birth;  // deaths at a step come after births: lifetimes are closed
      uint32_t memory;
    };
    std::vector<Event> events;
    for (uint32_t m = 0; m < memories_.size(); ++m) {
      events.push_back({memories_[m].birth, true, m});
      events.push_back({memories_[m].death, false, m});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      if (a.step != b.step) return a.step < b.step;
      if (a.birth != b.birth) return a.birth;
      return a.memory < b.memory;
    });
    std::set<std::pair<int64_t, uint32_t>> live;  // disjoint, by address
    for (const Event& event : events) {
      const Memory& memory = memories_[event.memory];
      if (!event.birth) {
        live.erase({memory.lower, event.memory});
        continue;
      }
      const auto next = live.lower_bound({memory.lower, 0});
      bool clash = false;
      if (next != live.end() && memories_[next->second].lower < memory.upper) {
        ReportOverlap(memory, memories_[next->second]);
        clash = true;
      }
      if (next != live.begin() && memories_[std::prev(next)->second].upper > memory.lower) {
        ReportOverlap(memory, memories_[std::prev(next)->second]);
        clash = true;
      }
      if (Full()) return;
      if (!clash) live.insert({memory.lower, event.memory});
    }
  }

  // Many streams: memories that share a byte end one before the other. A sweep over addresses over
  // those that hold the byte, by birth: as each has a writer that is a user, "ends before" is
  // transitive, and a newcomer need only fit between its neighbours.
  void SweepOverAddresses() {
    std::vector<uint32_t> begins(memories_.size());
    std::iota(begins.begin(), begins.end(), 0);
    std::vector<uint32_t> ends = begins;
    std::sort(begins.begin(), begins.end(), [this](uint32_t a, uint32_t b) {
      return std::pair(memories_[a].lower, a) < std::pair(memories_[b].lower, b);
    });
    std::sort(ends.begin(), ends.end(), [this](uint32_t a, uint32_t b) {
      return std::pair(memories_[a].upper, a) < std::pair(memories_[b].upper, b);
    });
    std::set<std::pair<int64_t, uint32_t>> open;  // by birth
    auto end = ends.begin();
    for (const uint32_t m : begins) {
      const Memory& memory = memories_[m];
      for (; memories_[*end].upper <= memory.lower; ++end) {
        open.erase({memories_[*end].birth, *end});
      }
      const auto next = open.lower_bound({memory.birth, m});
      bool clash = false;
      if (next != open.end() && !Apart(memory, memories_[next->second])) {
        ReportOverlap(memory, memories_[next->second]);
        clash = true;
      }
      if (next != open.begin() && !Apart(memories_[std::prev(next)->second], memory)) {
        ReportOverlap(memory, memories_[std::prev(next)->second]);
        clash = true;
      }
      if (Full()) return;
      if (!clash) open.insert({memory.birth, m});
    }
  }

  // `first` is not born after `second`.
  bool Apart(const Memory& first, const Memory& second) const {
    return first.death < second.birth && EndsBefore(first, second);
  }

  void CheckOverlaps() {
    if (graph_.streams.size() <= 1) {
      SweepOverTime();
    } else {
      SweepOverAddresses();
    }
  }

  const Graph& graph_;
  const std::vector<int64_t>& offsets_;
  const std::vector<uint32_t>& order_;
  size_t most_;
  GraphCheck result_;
  std::vector<int64_t> step_;  // of every node
  std::vector<Memory> memories_;
  Sharing sharing_;
  std::vector<std::pair<uint32_t, uint32_t>> dependencies_;
  std::optional<Timeline> timeline_;
};

}  // namespace

GraphCheck CheckGraph(const Graph& graph, const std::vector<int64_t>& offsets,
                      const std::vector<uint32_t>& order, size_t most) {
  return Checker(graph, offsets, order, most).Run();
}

absl::Status AsPlanned(const GraphCheck& check, const GraphPlan& plan) {
  if (check.valid && check.makespan == plan.makespan && check.max_load == plan.max_load) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("strategy '", plan.strategy, "' made an invalid plan: ",
                   check.violations.empty()
                       ? absl::StrCat("makespan ", check.makespan, " is not ", plan.makespan,
                                      " or max load ", check.max_load, " not ", plan.max_load)
                       : check.violations[0].message));
}

}  // namespace reprise::planner::graph
