// Which values are overwritten when: a sweep over the writes of each storage, oldest first, with a
// map from bytes to the tensors that hold a value there.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "planner/graph/aliases.h"

namespace reprise::planner::graph {
namespace {

// Uses of values with writes behind them, and what it takes to find them.
constexpr size_t kMostPairs = size_t{1} << 22;

class Hazards {
 public:
  Hazards(const Graph& graph, const Aliases& aliases, const std::vector<uint32_t>& order,
          const Lists& successors)
      : graph_(graph),
        aliases_(aliases),
        order_(order),
        successors_(successors),
        place_(graph.nodes.size(), 0),
        overwriter_(graph.tensors.size(), kNone) {
    for (uint32_t i = 0; i < order.size(); ++i) place_[order[i]] = i + 1;
  }

  absl::StatusOr<std::vector<Precedence>> Run() {
    std::vector<IndexPair> members, views;
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      if (graph_.tensors[t].alias_of != kNone) members.emplace_back(aliases_.root[t], t);
      if (aliases_.use[t] == Use::kView) views.emplace_back(aliases_.version[t], t);
    }
    const uint32_t tensors = static_cast<uint32_t>(graph_.tensors.size());
    views_ = ToLists(std::move(views), tensors);
    storages_ = ToLists(std::move(members), tensors);
    FindUsers();
    for (uint32_t root = 0; root < tensors; ++root) {
      if (!storages_[root].empty()) Sweep(root, storages_[root]);
      if (!status_.ok()) return status_;
    }
    if (absl::Status status = CheckWriters(); !status.ok()) return status;
    if (!lost_.ok()) return lost_;
    return std::move(hazards_);
  }

 private:
  // Some bytes, up to where the next piece begins.
  struct Piece {
    uint32_t writer = kNone;        // what was written there last
    std::vector<uint32_t> holders;  // tensors whose value lies there
  };
  using Pieces = std::map<int64_t, Piece>;

  // Whoever must have ended before a tensor's bytes are overwritten.
  void FindUsers() {
    std::vector<IndexPair> users;
    for (uint32_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      if (storages_[aliases_.root[t]].empty()) continue;
      if (tensor.producer != kNone) users.emplace_back(t, tensor.producer);
      for (const uint32_t reader : tensor.consumers) users.emplace_back(t, reader);
      if (aliases_.use[t] == Use::kEither) users.emplace_back(tensor.alias_of, tensor.producer);
    }
    users_ = ToLists(std::move(users), static_cast<uint32_t>(graph_.tensors.size()));
  }

  void Sweep(uint32_t root, std::span<const uint32_t> members) {
    std::vector<uint32_t> written = {root};
    int64_t end = aliases_.size[root];
    for (const uint32_t t : members) {
      if (aliases_.use[t] != Use::kView) written.push_back(t);
      end = std::max(end, aliases_.position[t] + aliases_.size[t]);
    }
    // Of one node's writes the target comes first.
    const auto age = [&](uint32_t t) {
      const uint32_t maker = graph_.tensors[t].producer;
      return maker == kNone ? 0 : place_[maker];
    };
    std::stable_sort(written.begin(), written.end(), [&](uint32_t a, uint32_t b) {
      if (age(a) != age(b)) return age(a) < age(b);
      return aliases_.depth[a] < aliases_.depth[b];
    });
    Pieces pieces;
    pieces[0] = {};
    pieces[end] = {};
    for (const uint32_t t : written) {
      Write(pieces, t);
      for (const uint32_t view : views_[t]) {
        if (!status_.ok()) return;
        Hold(pieces, view);
      }
      if (!status_.ok()) return;
    }
  }

  // Makes a piece begin at `at`.
  Pieces::iterator Split(Pieces& pieces, int64_t at) {
    const auto next = pieces.lower_bound(at);
    if (next != pieces.end() && next->first == at) return next;
    const Piece& split = std::prev(next)->second;
    Count(split.holders.size(), split.writer);
    return pieces.emplace_hint(next, at, split);
  }

  void Hold(Pieces& pieces, uint32_t t) {
    if (aliases_.size[t] == 0) return;
    auto piece = Split(pieces, aliases_.position[t]);
    const auto end = Split(pieces, aliases_.position[t] + aliases_.size[t]);
    for (; piece != end; ++piece) {
      piece->second.holders.push_back(t);
      Count(1, t);
    }
  }

  void Write(Pieces& pieces, uint32_t t) {
    if (aliases_.size[t] == 0) return;
    auto piece = Split(pieces, aliases_.position[t]);
    const auto end = Split(pieces, aliases_.position[t] + aliases_.size[t]);
    for (; piece != end && status_.ok(); ++piece) {
      Count(1, t);
      if (!Keeps(t, piece->second)) {
        Overwrite(piece->second, t);
        piece->second.writer = t;
        piece->second.holders.clear();
      }
      piece->second.holders.push_back(t);
    }
  }

  // The producer of what is made of parts leaves those that it reads as they are. What lies in a
  // later write of the same bytes is no part of it.
  bool Keeps(uint32_t t, const Piece& piece) const {
    if (aliases_.use[t] != Use::kOwn && aliases_.use[t] != Use::kPart) return false;
    const uint32_t maker = graph_.tensors[t].producer;
    if (maker == kNone) return false;
    return std::any_of(piece.holders.begin(), piece.holders.end(), [&](uint32_t holder) {
      if (graph_.tensors[holder].alias == Alias::kNotStated || !aliases_.Holds(t, holder) ||
          aliases_.write[holder] != aliases_.write[t]) {
        return false;
      }
      const auto users = users_[holder];
      return graph_.tensors[holder].producer != maker &&
             std::binary_search(users.begin(), users.end(), maker);
    });
  }

  void Overwrite(const Piece& piece, uint32_t t) {
    const uint32_t maker = graph_.tensors[t].producer;
    const uint32_t target = graph_.tensors[t].alias_of;
    if (piece.writer != kNone && maker == kNone) {
      return Fail(t,
                  absl::StrCat("expected bytes of its own, as it has no producer, found those of ",
                               Quoted(graph_.tensors[piece.writer].id), ", which has none either"));
    }
    const bool own_target = target != kNone && aliases_.version[target] == piece.writer &&
                            aliases_.use[t] != Use::kPart;
    if (piece.writer != kNone && !own_target && graph_.tensors[piece.writer].producer != kNone) {
      writers_.insert({piece.writer, t});
    }
    for (const uint32_t holder : piece.holders) {
      if (overwriter_[holder] == t) continue;
      overwriter_[holder] = t;
      const Tensor& tensor = graph_.tensors[holder];
      if ((tensor.persistent || tensor.output) && lost_.ok()) {
        lost_ = Error(
            holder,
            absl::StrCat("expected no write, as it is ",
                         tensor.persistent ? "persistent" : "an output", Origin(holder, maker),
                         ", found node ", Quoted(graph_.nodes[maker].id),
                         ", which overwrites it with tensor ", Quoted(graph_.tensors[t].id),
                         Remedy(graph_, {kNone, kNone, holder, t})));
      }
      for (const uint32_t user : users_[holder]) {
        if (user != maker) hazards_.push_back({user, maker, holder, t});
      }
      Count(users_[holder].size(), holder);
    }
  }

  // Two writes of the same bytes: one comes after the other.
  absl::Status CheckWriters() {
    const std::vector<IndexPair> pairs(writers_.begin(), writers_.end());
    std::vector<IndexPair> nodes;
    for (const auto& [first, second] : pairs) {
      nodes.emplace_back(graph_.tensors[first].producer, graph_.tensors[second].producer);
    }
    const std::vector<bool> reached = Reaches(order_, successors_, nodes);
    const auto bad = std::find(reached.begin(), reached.end(), false);
    if (bad == reached.end()) return absl::OkStatus();
    const auto& [first, second] = pairs[bad - reached.begin()];
    const auto writer = [&](uint32_t t) {
      return absl::StrCat("node ", Quoted(graph_.nodes[graph_.tensors[t].producer].id), " (tensor ",
                          Quoted(graph_.tensors[t].id), ")");
    };
    const uint32_t target = graph_.tensors[second].alias_of;
    Fail(target == kNone ? second : target,
         absl::StrCat("expected one writer of its bytes at a time, found ", writer(first), " and ",
                      writer(second), ", and no dependency that orders them",
                      Remedy(graph_, {kNone, kNone, first, second})));
    return status_;
  }

  void Count(size_t pairs, uint32_t t) {
    count_ += pairs;
    if (count_ <= kMostPairs) return;
    Fail(t == kNone ? 0 : t,
         absl::StrCat("expected at most ", kMostPairs,
                      " pairs of a use and a later write of the same bytes, found more"));
  }

  void Fail(uint32_t tensor, const std::string& what) {
    if (status_.ok()) status_ = Error(tensor, what);
  }

  // Who produces a tensor; of an input, who reads it beside `writer`.
  std::string Origin(uint32_t t, uint32_t writer) const {
    const Tensor& tensor = graph_.tensors[t];
    if (tensor.producer != kNone) {
      return absl::StrCat(" of node ", Quoted(graph_.nodes[tensor.producer].id));
    }
    for (const uint32_t reader : tensor.consumers) {
      if (reader == writer) continue;
      return absl::StrCat(" and an input that node ", Quoted(graph_.nodes[reader].id), " reads");
    }
    return " and an input";
  }

  absl::Status Error(uint32_t tensor, const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(graph_.tensors[tensor].id), ": ", what));
  }

  const Graph& graph_;
  const Aliases& aliases_;
  const std::vector<uint32_t>& order_;
  const Lists& successors_;
  std::vector<uint32_t> place_;       // of nodes in order_, from 1
  std::vector<uint32_t> overwriter_;  // per tensor: the write that it was last seen by
  Lists storages_;                    // per root: its aliases
  Lists users_;                       // per tensor: nodes
  Lists views_;                       // per tensor that was written: views of its value
  std::set<IndexPair> writers_;       // writes of the same bytes, one after the other
  std::vector<Precedence> hazards_;
  size_t count_ = 0;
  absl::Status lost_;  // a value that must stay is overwritten, if the writers are in order
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Precedence>> FindHazards(const Graph& graph, const Aliases& aliases,
                                                    const std::vector<uint32_t>& order,
                                                    const Lists& successors) {
  return Hazards(graph, aliases, order, successors).Run();
}

}  // namespace reprise::planner::graph
