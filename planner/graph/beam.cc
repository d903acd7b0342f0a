#include "planner/graph/beam.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/hash.h"

namespace reprise::planner::graph {
namespace {

// A node that may run next, and where that leads: bytes above the state's load.
struct Ready {
  uint32_t node;
  bool stale = true;   // what follows is to be found anew
  int64_t opened = 0;  // by the node alone
  int64_t hill = 0;    // the highest load of the chain that it begins
  int64_t valley = 0;  // the load behind that
};

struct State {
  std::vector<uint64_t> done;  // bits, of nodes
  std::vector<Ready> ready;    // the nodes whose predecessors are done
  int64_t load = 0;
  int64_t peak = 0;
  uint64_t hash = 0;
  uint32_t trail = kNone;  // the last node that ran, in Beam::trail_
  uint32_t count = 0;
};

// A state's successor that is not built yet.
struct Child {
  uint32_t parent;
  uint32_t node;
  int64_t peak;
  int64_t hill;  // that, and that of the chain that it begins
  uint64_t hash;
  int64_t rank;
};

struct Step {
  uint32_t node;
  uint32_t before;
};

// How far a chain is followed.
constexpr uint32_t kDepth = 8;

// How many nodes are looked at anew when one runs, unless they share a storage with it.
constexpr size_t kMostTouched = 64;

uint64_t Mix(uint64_t x) { return base::MixBits(x + base::kGoldenRatio); }

class Beam {
 public:
  Beam(const MemoryModel& model, const BeamOptions& options, const std::function<bool()>& stop)
      : model_(model),
        options_(options),
        stop_(stop),
        words_((model.nodes + 63) / 64),
        mark_(model.nodes, 0) {}

  BeamOutcome Run() {
    BeamOutcome outcome;
    layers_.resize(model_.nodes + 1);
    State first;
    first.done.assign(words_, 0);
    for (uint32_t node = 0; node < model_.nodes; ++node) {
      if (model_.predecessors[node].empty()) first.ready.push_back({node});
    }
    first.load = model_.initial;
    first.peak = std::max(model_.initial, model_.floor);
    if (first.peak >= options_.limit) return {{}, INT64_MAX, true};
    Settle(std::move(first));
    bool whole = true;
    for (uint32_t size = 0; size < model_.nodes; ++size) {
      std::vector<State> layer = std::move(layers_[size]);
      layers_[size] = {};
      if (layer.empty()) continue;
      if (stopped_ || stop_()) return {};
      // Forced steps brought these here from several layers: once more, the best only.
      if (Thin(layer)) whole = false;
      for (Child& child : Expand(layer, whole)) {
        Settle(Apply(layer[child.parent], child.node));
        if (stopped_) return {};
      }
    }
    if (stopped_) return {};
    const std::vector<State>& last = layers_[model_.nodes];
    const auto best = std::min_element(
        last.begin(), last.end(), [](const State& a, const State& b) { return a.peak < b.peak; });
    outcome.exhausted = whole;
    if (best == last.end()) return outcome;
    outcome.peak = best->peak;
    for (uint32_t at = best->trail; at != kNone; at = trail_[at].before) {
      outcome.order.push_back(trail_[at].node);
    }
    std::reverse(outcome.order.begin(), outcome.order.end());
    return outcome;
  }

 private:
  bool Done(const State& state, uint32_t node) const {
    return ((state.done[node / 64] >> (node % 64)) & 1) != 0 ||
           std::find(chain_.begin(), chain_.end(), node) != chain_.end();
  }

  // Asks whether to stop once so much work has been done, because a single node may be much.
  bool Stopped() {
    constexpr size_t kWork = size_t{1} << 22;
    if (work_ < kWork) return stopped_;
    work_ = 0;
    return stopped_ = stopped_ || stop_();
  }

  // What running `node` opens and then closes, after the state and the chain.
  std::pair<int64_t, int64_t> Cost(const State& state, uint32_t node) {
    int64_t opened = 0, closed = 0;
    for (const uint32_t s : model_.opens[node]) {
      work_ += model_.openers[s].size();
      bool open = false;
      for (const uint32_t other : model_.openers[s]) open |= Done(state, other);
      if (!open) opened += model_.bytes[s];
    }
    for (const uint32_t s : model_.closes[node]) {
      work_ += model_.closers[s].size();
      bool others = true;
      for (const uint32_t other : model_.closers[s]) {
        others &= other == node || Done(state, other);
      }
      if (others) closed += model_.bytes[s];
    }
    return {opened, closed};
  }

  // Follows the chain that a node begins: each waits for the one before, and is the one of those
  // that wait for it alone that leaves the least open. Cut behind its lowest load; then in chain_.
  void Look(const State& state, Ready& ready) {
    ready.stale = false;
    ready.hill = ready.valley = INT64_MAX;
    uint32_t node = ready.node;
    int64_t load = 0, hill = 0;
    size_t steps = 0;
    chain_.clear();
    for (uint32_t depth = 0; depth < kDepth; ++depth) {
      const auto [opened, closed] = Cost(state, node);
      if (depth == 0) ready.opened = opened;
      hill = std::max(hill, load + opened);
      load += opened - closed;
      chain_.push_back(node);
      if (load < ready.valley) {
        ready.hill = hill;
        ready.valley = load;
        steps = chain_.size();
      }
      if (load <= 0) break;
      uint32_t next = kNone;
      int64_t least = INT64_MAX;
      for (const uint32_t successor : model_.successors[node]) {
        if (Stopped()) return;
        bool free = true;
        work_ += model_.predecessors[successor].size();
        for (const uint32_t before : model_.predecessors[successor]) free &= Done(state, before);
        if (!free) continue;
        const auto [more, less] = Cost(state, successor);
        if (more - less >= least) continue;
        least = more - less;
        next = successor;
      }
      if (next == kNone) break;
      node = next;
    }
    chain_.resize(steps);
  }

  // The nodes whose chains may change when `node` runs: those that share a storage with it, and a
  // few in front of them.
  void Touch(const State& state, uint32_t node) {
    ++stamp_;
    touched_.clear();
    const auto touch = [&](uint32_t other) {
      if (mark_[other] == stamp_ || Done(state, other)) return;
      mark_[other] = stamp_;
      touched_.push_back(other);
    };
    const auto touch_users = [&](uint32_t storage) {
      for (const uint32_t other : model_.openers[storage]) touch(other);
      for (const uint32_t other : model_.closers[storage]) touch(other);
    };
    for (const uint32_t storage : model_.opens[node]) touch_users(storage);
    for (const uint32_t storage : model_.closes[node]) touch_users(storage);
    for (const uint32_t other : model_.successors[node]) touch(other);
    for (size_t i = 0; i < touched_.size() && touched_.size() < kMostTouched; ++i) {
      for (const uint32_t before : model_.predecessors[touched_[i]]) touch(before);
    }
  }

  void RunNode(State& state, uint32_t node) {
    const auto [opened, closed] = Cost(state, node);
    state.load += opened;
    state.peak = std::max(state.peak, state.load);
    state.load -= closed;
    state.done[node / 64] |= uint64_t{1} << (node % 64);
    state.hash ^= Mix(node);
    ++state.count;
    trail_.push_back({node, state.trail});
    state.trail = static_cast<uint32_t>(trail_.size() - 1);
    std::erase_if(state.ready, [&](const Ready& ready) { return ready.node == node; });
    Touch(state, node);
    for (Ready& ready : state.ready) ready.stale |= mark_[ready.node] == stamp_;
    for (const uint32_t next : model_.successors[node]) {
      bool ready = true;
      for (const uint32_t before : model_.predecessors[next]) ready &= Done(state, before);
      if (ready) state.ready.push_back({next});
    }
  }

  State Apply(const State& parent, uint32_t node) {
    State state = parent;
    RunNode(state, node);
    return state;
  }

  // Runs what may as well run at once, and puts the state where it belongs.
  void Settle(State state) {
    const auto may_run = [&](const Ready& ready) {
      return ready.valley <= 0 && state.load + ready.hill <= std::max(state.peak, options_.good);
    };
    for (size_t i = 0; i < state.ready.size(); ++i) {
      if (Stopped()) return;
      if (state.ready[i].stale) Look(state, state.ready[i]);
      if (!may_run(state.ready[i])) continue;
      // What was known may be out of date by more than Touch follows.
      Look(state, state.ready[i]);
      if (!may_run(state.ready[i])) continue;
      const std::vector<uint32_t> chain = std::exchange(chain_, {});
      for (const uint32_t node : chain) RunNode(state, node);
      i = SIZE_MAX;  // from the first again
    }
    chain_.clear();
    layers_[state.count].push_back(std::move(state));
  }

  // The best states of a layer, each set once. Whether some set was left out.
  bool Thin(std::vector<State>& layer) {
    std::stable_sort(layer.begin(), layer.end(), [](const State& a, const State& b) {
      return a.peak != b.peak ? a.peak < b.peak : a.load < b.load;
    });
    std::unordered_map<uint64_t, std::vector<size_t>> seen;
    std::vector<State> kept;
    for (State& state : layer) {
      auto& same = seen[state.hash];
      const bool known = std::any_of(same.begin(), same.end(),
                                     [&](size_t i) { return kept[i].done == state.done; });
      if (known) continue;
      same.push_back(kept.size());
      kept.push_back(std::move(state));
    }
    const bool left_out = kept.size() > options_.width;
    if (left_out) kept.resize(options_.width);
    layer = std::move(kept);
    return left_out;
  }

  std::vector<Child> Expand(const std::vector<State>& layer, bool& whole) {
    std::vector<Child> children;
    for (uint32_t p = 0; p < layer.size(); ++p) {
      for (const Ready& ready : layer[p].ready) {
        const int64_t peak = std::max(layer[p].peak, layer[p].load + ready.opened);
        if (peak >= options_.limit) continue;
        const int64_t rank = layer[p].load + ready.valley;
        const int64_t hill = std::max({layer[p].peak, layer[p].load + ready.hill, options_.good});
        children.push_back({p, ready.node, peak, hill, layer[p].hash ^ Mix(ready.node), rank});
      }
    }
    std::stable_sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return a.hill != b.hill ? a.hill < b.hill : a.rank < b.rank;
    });
    // Of equal sets that of the lowest peak is kept; which has the best prospect is another matter.
    std::unordered_map<uint64_t, std::vector<size_t>> seen;
    std::vector<Child> kept;
    for (const Child& child : children) {
      auto& same = seen[child.hash];
      const auto known = std::find_if(same.begin(), same.end(),
                                      [&](size_t i) { return SameSet(layer, kept[i], child); });
      if (known != same.end()) {
        if (child.peak < kept[*known].peak) kept[*known] = child;
        continue;
      }
      if (kept.size() == options_.width) {
        whole = false;
        continue;
      }
      same.push_back(kept.size());
      kept.push_back(child);
    }
    return kept;
  }

  static bool SameSet(const std::vector<State>& layer, const Child& a, const Child& b) {
    const auto& x = layer[a.parent].done;
    const auto& y = layer[b.parent].done;
    for (size_t w = 0; w < x.size(); ++w) {
      const uint64_t in_x = x[w] | (a.node / 64 == w ? uint64_t{1} << (a.node % 64) : 0);
      const uint64_t in_y = y[w] | (b.node / 64 == w ? uint64_t{1} << (b.node % 64) : 0);
      if (in_x != in_y) return false;
    }
    return true;
  }

  const MemoryModel& model_;
  const BeamOptions& options_;
  const std::function<bool()>& stop_;
  size_t words_;
  std::vector<std::vector<State>> layers_;
  std::vector<Step> trail_;
  std::vector<uint32_t> chain_;  // counts as done
  std::vector<uint32_t> mark_;   // of nodes: the stamp with which they were touched
  std::vector<uint32_t> touched_;
  uint32_t stamp_ = 0;
  size_t work_ = 0;  // since it was last asked whether to stop
  bool stopped_ = false;
};

}  // namespace

BeamOutcome SearchOrders(const MemoryModel& model, const BeamOptions& options,
                         const std::function<bool()>& stop) {
  return Beam(model, options, stop).Run();
}

}  // namespace reprise::planner::graph
