#include "planner/graph/check_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

// A tensor and all that share memory with it.
struct Memory {
  uint32_t tensor = 0;  // the first of them, for messages
  int64_t lower = 0;    // addresses [lower, upper)
  int64_t upper = 0;
  int64_t alignment = 1;
  int64_t size = 0;             // bytes, rounded up
  bool always = false;          // persistent
  bool from_the_start = false;  // some part has no producer
  std::vector<uint32_t> writers;
  std::vector<uint32_t> users;  // writers and readers
  int64_t birth = 0;            // in steps of the order; [birth, death]
  int64_t death = 0;
};

class Checker {
 public:
  Checker(const Graph& graph, const std::vector<int64_t>& offsets,
          const std::vector<uint32_t>& order, size_t most)
      : graph_(graph), offsets_(offsets), order_(order), most_(most) {}

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
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.producer == kNone) continue;
      for (const uint32_t consumer : tensor.consumers) {
        if (consumer == tensor.producer || step_[consumer] > step_[tensor.producer]) continue;
        const Id& from = graph_.nodes[tensor.producer].id;
        const Id& to = graph_.nodes[consumer].id;
        Report(from, to,
               absl::StrCat("node ", Quoted(to), " reads tensor ", Quoted(tensor.id),
                            ", but comes before node ", Quoted(from)));
      }
    }
    return result_.violations.empty();
  }

  void CheckPlaces() {
    if (!CheckOffsets()) return;
    CheckGroups();
    GatherMemories();
    result_.max_load = MaxLoad();
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
      if (offset < 0 || tensor.bytes > INT64_MAX - offset) {
        report("its end is no address");
        addresses = false;
      }
      if (offset % tensor.alignment != 0) {
        report(absl::StrCat("not a multiple of ", tensor.alignment));
      }
      if (tensor.offset != kFree && tensor.offset != offset) {
        report(absl::StrCat("its offset is given as ", tensor.offset));
      }
      if (tensor.alias_of != kNone && offsets_[tensor.alias_of] != offset) {
        report(absl::StrCat("it uses the memory of ", Quoted(Name(tensor.alias_of)), " at ",
                            offsets_[tensor.alias_of]));
      }
    }
    return addresses;
  }

  void CheckGroups() {
    std::vector<int64_t> bytes(graph_.tensors.size(), 0);
    std::vector<uint32_t> root = Roots();
    for (uint32_t t = 0; t < root.size(); ++t) {
      bytes[root[t]] = std::max(bytes[root[t]], graph_.tensors[t].bytes);
    }
    for (const std::vector<uint32_t>& group : graph_.groups) {
      for (size_t i = 1; i < group.size(); ++i) {
        const int64_t end = offsets_[group[i - 1]] + bytes[root[group[i - 1]]];
        if (offsets_[group[i]] == end) continue;
        Report(Name(group[i - 1]), Name(group[i]),
               absl::StrCat("tensor ", Quoted(Name(group[i])), " at ", offsets_[group[i]],
                            ": expected at ", end, ", right behind ", Quoted(Name(group[i - 1])),
                            " of its group"));
      }
    }
  }

  std::vector<uint32_t> Roots() const {
    std::vector<uint32_t> root(graph_.tensors.size());
    for (uint32_t t = 0; t < root.size(); ++t) {
      root[t] = t;
      for (size_t hops = 0; graph_.tensors[root[t]].alias_of != kNone && hops < root.size();
           ++hops) {
        root[t] = graph_.tensors[root[t]].alias_of;
      }
    }
    return root;
  }

  void GatherMemories() {
    const std::vector<uint32_t> root = Roots();
    std::map<uint32_t, Memory> memories;
    for (uint32_t t = 0; t < root.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      const auto [at, added] = memories.try_emplace(root[t]);
      Memory& memory = at->second;
      if (added) {
        memory.tensor = root[t];
        memory.lower = memory.upper = offsets_[t];
      }
      memory.upper = std::max(memory.upper, offsets_[t] + tensor.bytes);
      memory.alignment = std::max(memory.alignment, tensor.alignment);
      memory.always |= tensor.persistent;
      if (tensor.producer == kNone) {
        memory.from_the_start = true;
      } else {
        memory.writers.push_back(tensor.producer);
        memory.users.push_back(tensor.producer);
      }
      for (const uint32_t consumer : tensor.consumers) memory.users.push_back(consumer);
    }
    // Sizes count as rounded up to what all alignments are multiples of.
    int64_t unit = 0;
    for (const auto& [tensor, memory] : memories) {
      if (memory.lower == memory.upper) continue;
      unit = unit == 0 ? memory.alignment : std::min(unit, memory.alignment);
    }
    for (auto& [tensor, memory] : memories) {
      if (memory.lower == memory.upper) continue;
      memory.size = (memory.upper - memory.lower + unit - 1) / unit * unit;
      result_.makespan = std::max(result_.makespan, memory.lower + memory.size);
      memory.birth = memory.death = -1;
      const bool before = memory.from_the_start || memory.always;
      if (!before) {
        memory.birth = static_cast<int64_t>(order_.size());
        for (const uint32_t node : memory.writers)
          memory.birth = std::min(memory.birth, step_[node]);
      }
      for (const uint32_t node : memory.users) memory.death = std::max(memory.death, step_[node]);
      if (memory.always) memory.death = static_cast<int64_t>(order_.size()) - 1;
      memories_.push_back(std::move(memory));
    }
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

  // From every node to all that must come after it.
  void FindDescendants() {
    const size_t n = graph_.nodes.size();
    words_ = (n + 63) / 64;
    after_.assign(n * words_, 0);
    std::vector<std::vector<uint32_t>> next(n);
    std::vector<uint32_t> last(graph_.streams.size(), kNone);
    for (const uint32_t node : order_) {
      uint32_t& before = last[graph_.nodes[node].stream];
      if (before != kNone) next[before].push_back(node);
      before = node;
    }
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.producer == kNone) continue;
      for (const uint32_t consumer : tensor.consumers) {
        if (consumer != tensor.producer) next[tensor.producer].push_back(consumer);
      }
    }
    for (size_t i = n; i-- > 0;) {
      uint64_t* const mine = &after_[order_[i] * words_];
      for (const uint32_t node : next[order_[i]]) {
        mine[node / 64] |= uint64_t{1} << (node % 64);
        const uint64_t* const theirs = &after_[node * words_];
        for (size_t w = 0; w < words_; ++w) mine[w] |= theirs[w];
      }
    }
  }

  bool MustFollow(uint32_t node, uint32_t earlier) const {
    return (after_[earlier * words_ + node / 64] >> (node % 64)) & 1;
  }

  bool EndsBefore(const Memory& first, const Memory& second) const {
    if (first.always || second.always || second.from_the_start) return false;
    if (graph_.streams.size() <= 1) return first.death < second.birth;
    for (const uint32_t user : first.users) {
      for (const uint32_t writer : second.writers) {
        if (!MustFollow(writer, user)) return false;
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

  // Many streams: every pair that shares addresses, found by a sweep over addresses.
  void SweepOverAddresses() {
    FindDescendants();
    std::vector<const Memory*> sorted;
    for (const Memory& memory : memories_) sorted.push_back(&memory);
    std::sort(sorted.begin(), sorted.end(), [](const Memory* a, const Memory* b) {
      return a->lower != b->lower ? a->lower < b->lower : a->tensor < b->tensor;
    });
    std::vector<const Memory*> open;
    for (const Memory* memory : sorted) {
      std::erase_if(open, [&](const Memory* other) { return other->upper <= memory->lower; });
      for (const Memory* other : open) {
        if (EndsBefore(*other, *memory) || EndsBefore(*memory, *other)) continue;
        ReportOverlap(*other, *memory);
        if (Full()) return;
      }
      open.push_back(memory);
    }
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
  size_t words_ = 0;
  std::vector<uint64_t> after_;  // bits, a row per node
};

}  // namespace

GraphCheck CheckGraph(const Graph& graph, const std::vector<int64_t>& offsets,
                      const std::vector<uint32_t>& order, size_t most) {
  return Checker(graph, offsets, order, most).Run();
}

}  // namespace reprise::planner::graph
