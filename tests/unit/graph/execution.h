// Random graphs whose tensors share memory, and a machine that runs a graph in a plan's memory:
// every byte has a label of what was written there last, and every read looks at the labels.
#ifndef REPRISE_TESTS_UNIT_GRAPH_EXECUTION_H_
#define REPRISE_TESTS_UNIT_GRAPH_EXECUTION_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/graph/graph.h"
#include "tests/unit/graph/random.h"

namespace reprise::planner::graph {

// Nodes are numbered so that tensors lead from lower to higher ones. With `stated` false no alias
// says whether it is a view or a write.
class SharingGraphs {
 public:
  SharingGraphs(uint64_t seed, int nodes, int streams, int tensors, bool stated)
      : random_(seed), stated_(stated) {
    for (int s = 0; s < streams; ++s) graph_.streams.push_back({absl::StrCat(s), true});
    const bool ordered = Below(3) == 0;
    for (int i = 0; i < nodes; ++i) {
      graph_.nodes.push_back(MakeNode(i, static_cast<uint32_t>(Below(streams))));
      if (!ordered) graph_.nodes.back().order.reset();
    }
    for (int t = 0; t < tensors; ++t) Add();
    if (Below(4) == 0) AddGroup();
  }

  Graph Take() { return std::move(graph_); }

 private:
  uint32_t Below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  std::vector<uint32_t> Readers(uint32_t producer) {
    std::vector<uint32_t> readers;
    const uint32_t from = producer == kNone ? 0 : producer;
    for (uint32_t c = Below(3); c > 0; --c) {
      readers.push_back(from + Below(graph_.nodes.size() - from));
    }
    return readers;
  }

  void Add() {
    Tensor tensor;
    tensor.id = {absl::StrCat("t", graph_.tensors.size()), false};
    tensor.bytes = 1 + Below(6);
    tensor.output = Below(12) == 0;
    tensor.persistent = Below(24) == 0;
    if (Below(4) == 0) tensor.alignment = int64_t{1} << Below(4);
    if (graph_.tensors.empty() || Below(2) == 0) {
      tensor.producer = Below(8) == 0 ? kNone : Below(graph_.nodes.size());
      tensor.consumers = Readers(tensor.producer);
    } else {
      MakeAlias(tensor);
    }
    graph_.tensors.push_back(std::move(tensor));
  }

  void MakeAlias(Tensor& tensor) {
    tensor.alias_of = Below(graph_.tensors.size());
    Tensor& target = graph_.tensors[tensor.alias_of];
    const uint32_t maker = target.producer == kNone ? 0 : target.producer;
    const int64_t size = target.bytes;
    tensor.bytes = 1 + Below(static_cast<size_t>(size));
    tensor.alias_offset = Below(static_cast<size_t>(size - tensor.bytes + 1));
    tensor.alignment = 1;
    const uint32_t kind = Below(5);
    if (kind < 2) {
      tensor.alias = Alias::kWrite;
    } else {
      tensor.alias = Alias::kView;
    }
    if (kind == 4 && maker > 0) {  // a part
      tensor.producer = Below(maker);
      tensor.consumers = Readers(tensor.producer);
      tensor.consumers.push_back(maker);
    } else {
      tensor.producer = maker + Below(graph_.nodes.size() - maker);
      if (tensor.alias == Alias::kView && Below(4) == 0) tensor.producer = kNone;
      tensor.consumers = Readers(tensor.producer == kNone ? maker : tensor.producer);
      if (tensor.producer != kNone && Below(3) > 0) target.consumers.push_back(tensor.producer);
    }
    if (stated_) return;
    tensor.alias = Alias::kNotStated;
    if (Below(4) > 0) tensor.alias_offset = 0;
  }

  void AddGroup() {
    std::vector<uint32_t> group;
    for (uint32_t t = 0; t < graph_.tensors.size() && group.size() < 3; ++t) {
      if (graph_.tensors[t].alias_of == kNone && Below(2) == 0) group.push_back(t);
    }
    graph_.groups.push_back(std::move(group));
  }

  std::mt19937_64 random_;
  bool stated_;
  Graph graph_;
};

// Runs a graph. What aliases mean is found here once more, the slow way.
class Machine {
 public:
  // `order` may be empty: then streams have none. `truth` is the seed that says what aliases are
  // that state nothing.
  Machine(const Graph& graph, const std::vector<int64_t>& offsets,
          const std::vector<uint32_t>& order, uint64_t truth)
      : graph_(graph), offsets_(offsets) {
    std::mt19937_64 random(truth);
    for (const Tensor& tensor : graph.tensors) {
      alias_.push_back(tensor.alias);
      keeps_.push_back(tensor.alias != Alias::kNotStated || random() % 2 == 0);
      if (tensor.alias == Alias::kNotStated) {
        const bool write = tensor.producer != kNone && random() % 2 == 0;
        alias_.back() = write ? Alias::kWrite : Alias::kView;
      }
    }
    int64_t end = 0;
    for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
      end = std::max(end, offsets[t] + graph.tensors[t].bytes);
    }
    memory_.resize(static_cast<size_t>(end));
    const size_t n = graph.nodes.size();
    waits_.resize(n);
    reads_.resize(n);
    writes_.resize(n);
    for (uint32_t t = 0; t < graph.tensors.size(); ++t) AddTensor(t);
    std::vector<uint32_t> last(graph.streams.size(), kNone);
    for (const uint32_t node : order) {
      uint32_t& before = last[graph.nodes[node].stream];
      if (before != kNone) waits_[node].push_back(before);
      before = node;
    }
  }

  // An execution in sequence that keeps all dependencies; for machines without an order.
  std::vector<uint32_t> DrawOrder(uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> state(waits_.size(), 0);
    std::vector<uint32_t> order, choices;
    while (order.size() < state.size()) {
      choices.clear();
      for (uint32_t node = 0; node < state.size(); ++node) {
        if (state[node] == 0 && MayStart(node, state)) choices.push_back(node);
      }
      if (choices.empty()) return {};
      order.push_back(choices[random() % choices.size()]);
      state[order.back()] = 2;
    }
    return order;
  }

  // One interleaving. What went wrong; empty: nothing.
  std::string Run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::fill(memory_.begin(), memory_.end(), 0);
    error_.clear();
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      if (Maker(t) == kNone && !IsView(t)) Fill(t, true);
    }
    const size_t n = graph_.nodes.size();
    std::vector<uint8_t> state(n, 0);  // waiting, running, ended
    std::vector<uint32_t> choices;
    for (size_t done = 0; done < 2 * n; ++done) {
      choices.clear();
      for (uint32_t node = 0; node < n; ++node) {
        const bool may = state[node] == 1 || (state[node] == 0 && MayStart(node, state));
        if (may) choices.push_back(node);
      }
      if (choices.empty()) return "no node can start";
      const uint32_t node = choices[random() % choices.size()];
      state[node] == 0 ? Start(node) : End(node);
      ++state[node];
      if (!error_.empty()) return error_;
    }
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      if (graph_.tensors[t].output || graph_.tensors[t].persistent) Look(t, "the end", nullptr);
    }
    return error_;
  }

 private:
  // Of byte `i` of tensor `t`.
  using Label = uint32_t;
  static Label Of(uint32_t t, int64_t i) { return (t + 1) << 8 | static_cast<uint32_t>(i + 1); }

  bool Reads(uint32_t node, uint32_t t) const {
    const auto& readers = graph_.tensors[t].consumers;
    return std::find(readers.begin(), readers.end(), node) != readers.end();
  }

  bool IsBelow(uint32_t t, uint32_t ancestor) const {
    while (t != kNone && t != ancestor) t = graph_.tensors[t].alias_of;
    return t == ancestor;
  }

  // The node that a tensor is there after.
  uint32_t Maker(uint32_t t) const {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.producer != kNone || tensor.alias_of == kNone || IsPart(t)) return tensor.producer;
    return Maker(tensor.alias_of);
  }

  bool IsPart(uint32_t t) const {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.alias_of == kNone || tensor.alias == Alias::kWrite) return false;
    const uint32_t maker = graph_.tensors[tensor.alias_of].producer;
    if (maker == kNone || maker == tensor.producer) return false;
    for (uint32_t x = 0; x < graph_.tensors.size(); ++x) {
      if (IsBelow(x, t) && Reads(maker, x)) return true;
    }
    return false;
  }

  bool IsView(uint32_t t) const {
    return graph_.tensors[t].alias_of != kNone && alias_[t] == Alias::kView && !IsPart(t);
  }

  // The alias that a tensor's producer leaves alone at byte `i`, or kNone.
  uint32_t Kept(uint32_t t, int64_t i) const {
    const uint32_t producer = graph_.tensors[t].producer;
    if (producer == kNone || (graph_.tensors[t].alias_of != kNone && !IsPart(t))) return kNone;
    for (uint32_t x = 0; x < graph_.tensors.size(); ++x) {
      if (x == t || !keeps_[x] || !IsBelow(x, t) || !Reads(producer, x)) continue;
      if (graph_.tensors[x].producer == producer) continue;
      const int64_t at = offsets_[t] + i - offsets_[x];
      if (at >= 0 && at < graph_.tensors[x].bytes) return x;
    }
    return kNone;
  }

  Label Expected(uint32_t t, int64_t i) const {
    if (IsView(t)) {
      const Tensor& tensor = graph_.tensors[t];
      return Expected(tensor.alias_of, i + tensor.alias_offset);
    }
    const uint32_t kept = Kept(t, i);
    return kept == kNone ? Of(t, i) : Expected(kept, offsets_[t] + i - offsets_[kept]);
  }

  void AddTensor(uint32_t t) {
    const Tensor& tensor = graph_.tensors[t];
    labels_.emplace_back();
    written_.emplace_back();
    for (int64_t i = 0; i < tensor.bytes; ++i) {
      labels_.back().push_back(Expected(t, i));
      written_.back().push_back(!IsView(t) && Kept(t, i) == kNone);
    }
    const uint32_t maker = Maker(t);
    const auto wait = [&](uint32_t reader, uint32_t node) {
      if (reader != kNone && node != kNone && reader != node) waits_[reader].push_back(node);
    };
    for (const uint32_t reader : tensor.consumers) {
      wait(reader, maker);
      reads_[reader].push_back(t);
    }
    if (tensor.producer == kNone) return;
    if (IsView(t)) {
      // Only where the file says that it is one, others wait for its target.
      if (tensor.alias == Alias::kView) wait(tensor.producer, Maker(tensor.alias_of));
      reads_[tensor.producer].push_back(t);
    } else {
      writes_[tensor.producer].push_back(t);
    }
  }

  bool MayStart(uint32_t node, const std::vector<uint8_t>& state) const {
    return std::all_of(waits_[node].begin(), waits_[node].end(),
                       [&](uint32_t before) { return state[before] == 2; });
  }

  void Fill(uint32_t t, bool final) {
    for (size_t i = 0; i < labels_[t].size(); ++i) {
      if (written_[t][i]) memory_[offsets_[t] + i] = final ? labels_[t][i] : ~Label{0};
    }
  }

  // `except`: bytes that are being written.
  void Look(uint32_t t, const std::string& who, const std::vector<uint8_t>* except) {
    for (size_t i = 0; i < labels_[t].size(); ++i) {
      const size_t at = offsets_[t] + i;
      if (except != nullptr && (*except)[at] != 0) continue;
      if (memory_[at] == labels_[t][i]) continue;
      error_ = absl::StrCat(who, " finds ", memory_[at] >> 8, " in byte ", i, " of tensor ",
                            Quoted(graph_.tensors[t].id));
      return;
    }
  }

  void Start(uint32_t node) {
    const std::string who = absl::StrCat("the start of node ", node);
    for (const uint32_t t : reads_[node]) {
      // What a node makes and reads itself is not there yet.
      uint32_t written = t;
      while (IsView(written)) written = graph_.tensors[written].alias_of;
      if (graph_.tensors[written].producer != node) Look(t, who, nullptr);
    }
    for (const uint32_t t : writes_[node]) Fill(t, false);
  }

  void End(uint32_t node) {
    std::vector<uint8_t> mine(memory_.size(), 0);
    for (const uint32_t t : writes_[node]) {
      for (size_t i = 0; i < written_[t].size(); ++i) mine[offsets_[t] + i] |= written_[t][i];
    }
    const std::string who = absl::StrCat("the end of node ", node);
    for (const uint32_t t : reads_[node]) Look(t, who, &mine);
    for (const uint32_t t : writes_[node]) {
      for (size_t i = 0; i < written_[t].size(); ++i) {
        if (written_[t][i] && memory_[offsets_[t] + i] != ~Label{0}) {
          error_ = absl::StrCat(who, " finds that tensor ", Quoted(graph_.tensors[t].id),
                                " was overwritten meanwhile");
          return;
        }
      }
    }
    for (const uint32_t t : writes_[node]) Fill(t, true);
  }

  const Graph& graph_;
  const std::vector<int64_t>& offsets_;
  std::vector<Alias> alias_;  // as it is in truth
  std::vector<bool> keeps_;   // per tensor: whether who makes its target of it leaves it alone
  std::vector<std::vector<Label>> labels_;
  std::vector<std::vector<bool>> written_;
  std::vector<std::vector<uint32_t>> waits_, reads_, writes_;  // per node
  std::vector<Label> memory_;
  std::string error_;
};

}  // namespace reprise::planner::graph

#endif  // REPRISE_TESTS_UNIT_GRAPH_EXECUTION_H_
