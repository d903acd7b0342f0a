#include "planner/graph/low_orders.h"

#include <algorithm>
#include <optional>

namespace reprise::planner::graph {
namespace {

// The capacity of arcs that may not be cut.
constexpr int64_t kEndless = INT64_MAX / 4;

bool Has(const uint64_t* row, uint32_t i) { return ((row[i / 64] >> (i % 64)) & 1) != 0; }
void Put(uint64_t* row, uint32_t i) { row[i / 64] |= uint64_t{1} << (i % 64); }

}  // namespace

// A flow and what it is between: of every vertex whether it is a source or a sink.
struct LowOrders::Flowing {
  enum Side : uint8_t { kOpen, kSource, kSink };
  std::vector<int64_t> residual;  // capacity that is left, per arc
  std::vector<Side> side;
  int64_t value = 0;
};

// A vertex per node, on the sources' side of a cut when it has run, and two per storage: there when
// it has been opened, and when it has been closed. What may not be cut is the arcs from a node to
// those that run before it, from openers to the opened storage, and from the closed storage to its
// closers. Between the two are its bytes.
class LowOrders::Network {
 public:
  explicit Network(uint32_t vertices) : vertices_(vertices) {}

  void AddArc(uint32_t from, uint32_t to, int64_t capacity) {
    arcs_.push_back({from, to, capacity});
  }

  // After the last arc.
  void Finish() {
    first_.assign(vertices_ + 1, 0);
    for (const Arc& arc : arcs_) {
      ++first_[arc.from + 1];
      ++first_[arc.to + 1];
    }
    for (uint32_t v = 0; v < vertices_; ++v) first_[v + 1] += first_[v];
    std::vector<uint32_t> at(first_.begin(), first_.end() - 1);
    head_.resize(2 * arcs_.size());
    twin_.resize(2 * arcs_.size());
    capacity_.resize(2 * arcs_.size(), 0);
    for (const Arc& arc : arcs_) {
      const uint32_t there = at[arc.from]++;
      const uint32_t back = at[arc.to]++;
      head_[there] = arc.to;
      head_[back] = arc.from;
      twin_[there] = back;
      twin_[back] = there;
      capacity_[there] = arc.capacity;
    }
  }

  Flowing Begin() const {
    return {capacity_, std::vector<Flowing::Side>(vertices_, Flowing::kOpen), 0};
  }

  // Along shortest paths until the flow is `enough`, or the largest. Whether it is enough; if not,
  // Reached() tells the sides of a minimum cut.
  bool Augment(Flowing& flowing, int64_t enough) {
    while (flowing.value < enough) {
      const uint32_t end = FindPath(flowing);
      if (end == kNone) return false;
      int64_t least = kEndless;
      for (uint32_t v = end; via_[v] != kNone; v = head_[twin_[via_[v]]]) {
        least = std::min(least, flowing.residual[via_[v]]);
      }
      for (uint32_t v = end; via_[v] != kNone; v = head_[twin_[via_[v]]]) {
        flowing.residual[via_[v]] -= least;
        flowing.residual[twin_[via_[v]]] += least;
      }
      flowing.value += least;
    }
    return true;
  }

  bool Reached(uint32_t vertex) const { return reached_[vertex] != 0; }

 private:
  struct Arc {
    uint32_t from;
    uint32_t to;
    int64_t capacity;
  };

  // Breadth-first from all sources; the sink that was found, whose path is in via_, or kNone.
  uint32_t FindPath(const Flowing& flowing) {
    reached_.assign(vertices_, 0);
    via_.resize(vertices_);
    queue_.clear();
    for (uint32_t v = 0; v < vertices_; ++v) {
      if (flowing.side[v] != Flowing::kSource) continue;
      reached_[v] = 1;
      via_[v] = kNone;
      queue_.push_back(v);
    }
    for (size_t i = 0; i < queue_.size(); ++i) {
      const uint32_t v = queue_[i];
      for (uint32_t arc = first_[v]; arc < first_[v + 1]; ++arc) {
        const uint32_t next = head_[arc];
        if (reached_[next] != 0 || flowing.residual[arc] == 0) continue;
        reached_[next] = 1;
        via_[next] = arc;
        if (flowing.side[next] == Flowing::kSink) return next;
        queue_.push_back(next);
      }
    }
    return kNone;
  }

  uint32_t vertices_;
  std::vector<Arc> arcs_;
  std::vector<uint32_t> first_;  // per vertex: its arcs, there and back
  std::vector<uint32_t> head_;
  std::vector<uint32_t> twin_;  // the same arc from its other end
  std::vector<int64_t> capacity_;
  std::vector<uint8_t> reached_;
  std::vector<uint32_t> queue_;
  std::vector<uint32_t> via_;  // the arc by which a vertex was reached
};

LowOrders::LowOrders(const PreparedGraph& flow)
    : flow_(&flow),
      words_((size_t{flow.nodes} + 63) / 64),
      before_(words_ * flow.nodes, 0),
      behind_(words_ * flow.nodes, 0),
      sets_(flow.nodes) {
  const auto reach = [&](Bits& bits, const Lists& next, uint32_t node) {
    uint64_t* const mine = bits.data() + words_ * node;
    for (const uint32_t other : next[node]) {
      const uint64_t* const theirs = bits.data() + words_ * other;
      Put(mine, other);
      for (size_t w = 0; w < words_; ++w) mine[w] |= theirs[w];
    }
  };
  for (uint32_t i = 0; i < flow.nodes; ++i) {
    reach(before_, flow.predecessors, flow.sequence[i]);
    reach(behind_, flow.successors, flow.sequence[flow.nodes - 1 - i]);
  }
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (flow.storages[s].persistent) always_ += flow.storages[s].bytes;
    if (flow.storages[s].persistent || flow.starts[s].empty()) floor_ += flow.storages[s].bytes;
  }
}

bool LowOrders::Ordered(uint32_t a, uint32_t b) const {
  return a == b || Has(Before(a), b) || Has(Behind(a), b);
}

void LowOrders::Add(uint32_t before, uint32_t behind) {
  if (Has(Behind(before), behind)) return;
  added_.push_back({before, behind});
  std::vector<uint32_t> ups = {before}, downs = {behind};
  for (uint32_t i = 0; i < flow_->nodes; ++i) {
    if (Has(Before(before), i)) ups.push_back(i);
    if (Has(Behind(behind), i)) downs.push_back(i);
  }
  for (const uint32_t up : ups) {
    for (const uint32_t down : downs) {
      Put(behind_.data() + words_ * up, down);
      Put(before_.data() + words_ * down, up);
    }
  }
}

Lists LowOrders::Successors() const {
  Lists successors;
  std::vector<uint32_t> list;
  Bits later(words_);
  for (uint32_t node = 0; node < flow_->nodes; ++node) {
    list.clear();
    std::fill(later.begin(), later.end(), 0);
    for (uint32_t next = 0; next < flow_->nodes; ++next) {
      if (!Has(Behind(node), next)) continue;
      list.push_back(next);
      for (size_t w = 0; w < words_; ++w) later[w] |= Behind(next)[w];
    }
    std::erase_if(list, [&](uint32_t next) { return Has(later.data(), next); });
    successors.Add(list);
  }
  return successors;
}

LowOrders::Network LowOrders::MakeNetwork() const {
  const uint32_t nodes = flow_->nodes;
  const uint32_t count = static_cast<uint32_t>(flow_->storages.size());
  Network network(nodes + 2 * count);
  const Lists successors = Successors();
  for (uint32_t node = 0; node < nodes; ++node) {
    for (const uint32_t next : successors[node]) network.AddArc(next, node, kEndless);
  }
  for (uint32_t s = 0; s < count; ++s) {
    const Storage& storage = flow_->storages[s];
    if (storage.bytes == 0 || storage.persistent || flow_->ends[s].empty()) continue;
    const uint32_t opened = nodes + 2 * s, closed = opened + 1;
    network.AddArc(opened, closed, storage.bytes);
    for (const uint32_t node : flow_->starts[s]) network.AddArc(node, opened, kEndless);
    if (storage.output) continue;
    for (const uint32_t node : flow_->ends[s]) network.AddArc(closed, node, kEndless);
  }
  network.Finish();
  return network;
}

// Puts a node where it has run, with all before it; or where it has not, with all behind it.
void LowOrders::SetSide(Flowing& flowing, uint32_t node, bool done) const {
  const uint64_t* const others = done ? Before(node) : Behind(node);
  const Flowing::Side side = done ? Flowing::kSource : Flowing::kSink;
  flowing.side[node] = side;
  for (uint32_t i = 0; i < flow_->nodes; ++i) {
    if (Has(others, i)) flowing.side[i] = side;
  }
}

// While `node` runs: what it opens is open, and it has closed nothing yet.
LowOrders::Flowing LowOrders::Begin(const Network& network, uint32_t node) const {
  Flowing flowing = network.Begin();
  for (uint32_t i = 0; i < flow_->nodes; ++i) {
    if (Has(Before(node), i)) flowing.side[i] = Flowing::kSource;
  }
  SetSide(flowing, node, false);
  for (uint32_t s = 0; s < flow_->storages.size(); ++s) {
    const auto starts = flow_->starts[s];
    if (starts.empty() || std::find(starts.begin(), starts.end(), node) != starts.end()) {
      flowing.side[flow_->nodes + 2 * s] = Flowing::kSource;
    }
    if (flow_->storages[s].output) flowing.side[flow_->nodes + 2 * s + 1] = Flowing::kSink;
  }
  return flowing;
}

// Removes sets that reach the mark, or that a later precedence rules out.
void LowOrders::Filter(uint32_t node, int64_t mark) {
  Sets& sets = sets_[node];
  const auto ruled_out = [&](const uint64_t* done) {
    for (size_t i = sets.checked; i < added_.size(); ++i) {
      const auto [before, behind] = added_[i];
      if ((behind == node || Has(done, behind)) && !Has(done, before)) return true;
    }
    return false;
  };
  size_t kept = 0;
  for (size_t i = 0; i < sets.loads.size(); ++i) {
    if (sets.loads[i] >= mark || ruled_out(sets.done.data() + words_ * i)) continue;
    std::copy_n(sets.done.begin() + words_ * i, words_, sets.done.begin() + words_ * kept);
    sets.loads[kept++] = sets.loads[i];
  }
  sets.loads.resize(kept);
  sets.done.resize(words_ * kept);
  sets.checked = added_.size();
}

// Every pair of nodes once. Most are answered by a set that is known from other pairs.
LowOrders::Change LowOrders::Round(int64_t mark, const std::function<bool()>& stop) {
  Network network = MakeNetwork();
  Change change = Change::kSame;
  Flowing changed;
  Bits with(words_), without(words_);  // nodes that are in some of the sets; that are not in some
  for (uint32_t node = 0; node < flow_->nodes; ++node) {
    Filter(node, mark);
    Sets& sets = sets_[node];
    std::fill(with.begin(), with.end(), 0);
    std::fill(without.begin(), without.end(), 0);
    const auto look = [&](const uint64_t* done) {
      for (size_t w = 0; w < words_; ++w) {
        with[w] |= done[w];
        without[w] |= ~done[w];
      }
    };
    for (size_t i = 0; i < sets.loads.size(); ++i) look(sets.done.data() + words_ * i);
    // Keeps the set of a flow's minimum cut. False: the flow reaches the mark.
    const auto keep = [&](Flowing& flowing) {
      if (network.Augment(flowing, mark)) return false;
      sets.loads.push_back(flowing.value);
      sets.done.resize(words_ * sets.loads.size(), 0);
      uint64_t* const done = sets.done.data() + words_ * (sets.loads.size() - 1);
      for (uint32_t i = 0; i < flow_->nodes; ++i) {
        if (network.Reached(i)) Put(done, i);
      }
      look(done);
      return true;
    };
    std::optional<Flowing> flowing;
    for (uint32_t other = 0; other < flow_->nodes; ++other) {
      while (!Ordered(node, other) || (sets.loads.empty() && !flowing.has_value())) {
        const bool done = !Has(with.data(), other);
        if (!sets.loads.empty() && !done && Has(without.data(), other)) break;
        if (stop()) return change;
        if (!flowing.has_value()) {
          flowing = Begin(network, node);
          if (!keep(*flowing)) return Change::kNoOrder;
          continue;
        }
        changed = *flowing;
        SetSide(changed, other, done);
        if (keep(changed)) continue;
        change = Change::kSome;
        done ? Add(node, other) : Add(other, node);
        Filter(node, mark);
        SetSide(*flowing, other, !done);
        if (!keep(*flowing)) return Change::kNoOrder;
      }
    }
  }
  return change;
}

bool LowOrders::Tighten(int64_t mark, const std::function<bool()>& stop) {
  if (mark <= floor_) return false;
  for (Change change = Change::kSome; change == Change::kSome && !stop();) {
    change = Round(mark - always_, stop);
    if (change == Change::kNoOrder) return false;
  }
  return true;
}

std::pair<uint32_t, uint32_t> LowOrders::Critical() const {
  std::pair<uint32_t, uint32_t> best{kNone, kNone};
  int64_t most = -1;
  for (uint32_t node = 0; node < flow_->nodes; ++node) {
    const Sets& sets = sets_[node];
    for (uint32_t other = 0; other < flow_->nodes; ++other) {
      if (Ordered(node, other)) continue;
      int64_t with = kEndless, without = kEndless;
      for (size_t i = 0; i < sets.loads.size(); ++i) {
        int64_t& least = Has(sets.done.data() + words_ * i, other) ? with : without;
        least = std::min(least, sets.loads[i]);
      }
      if (with + without <= most) continue;
      most = with + without;
      best = with < without ? std::pair{other, node} : std::pair{node, other};
    }
  }
  return best;
}

}  // namespace reprise::planner::graph
