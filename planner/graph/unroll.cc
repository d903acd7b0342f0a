#include "planner/graph/unroll.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

class Unroller {
 public:
  Unroller(const Graph& body, const std::vector<std::vector<int64_t>>& slots,
           const std::vector<uint32_t>& order)
      : body_(body), slots_(slots), order_(order), made_as_(body.tensors.size(), kNone) {
    for (const auto& [from, to] : body.loop->carried) made_as_[to] = from;
    FindMade();
    result_.graph.streams = {{"0", true}};
  }

  Unrolled Take() { return std::move(result_); }

  void AddIteration(uint32_t i) {
    Graph& graph = result_.graph;
    const auto first_node = static_cast<uint32_t>(graph.nodes.size());
    for (const Node& node : body_.nodes) {
      graph.nodes.push_back({InIteration(node.id, i), 0, std::nullopt});
    }
    for (const uint32_t node : order_) result_.order.push_back(first_node + node);
    const uint32_t last = result_.order.back();
    copies_.emplace_back(body_.tensors.size(), kNone);
    for (uint32_t t = 0; t < body_.tensors.size(); ++t) copies_[i][t] = Place(t, i);
    for (uint32_t t = 0; t < body_.tensors.size(); ++t) {
      const Tensor& tensor = body_.tensors[t];
      Tensor& copy = graph.tensors[copies_[i][t]];
      for (const uint32_t node : tensor.consumers) copy.consumers.push_back(first_node + node);
      if (tensor.producer != kNone) copy.producer = first_node + tensor.producer;
      if (tensor.alias_of != kNone) copy.alias_of = copies_[i][tensor.alias_of];
      if (!tensor.output || tensor.persistent) continue;
      graph.tensors[copies_[i][made_[t]]].consumers.push_back(last);
    }
    for (const auto& [from, to] : body_.loop->carried) {
      graph.tensors[copies_[i][from]].consumers.push_back(last);
    }
  }

 private:
  static Id InIteration(const Id& id, uint32_t iteration) {
    return {absl::StrCat(id.text, " in iteration ", iteration), false};
  }

  // A view that no node produces is what its target is; a node that reads the view and produces the
  // target would make it a part of the target.
  void FindMade() {
    const std::vector<Tensor>& tensors = body_.tensors;
    made_.assign(tensors.size(), kNone);
    std::vector<uint32_t> chain;
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      uint32_t at = t;
      for (; made_[at] == kNone; at = tensors[at].alias_of) {
        chain.push_back(at);
        if (tensors[at].producer != kNone || tensors[at].alias_of == kNone) break;
      }
      const uint32_t made = made_[at] != kNone ? made_[at] : at;
      for (const uint32_t one : chain) made_[one] = made;
      chain.clear();
    }
  }

  // The copy of `t` for an iteration, a new one where it is not one of before.
  uint32_t Place(uint32_t t, uint32_t i) {
    const Tensor& tensor = body_.tensors[t];
    if (i > 0 && made_as_[t] != kNone) return copies_[i - 1][made_as_[t]];
    const bool constant =
        tensor.producer == kNone && made_as_[t] == kNone && tensor.alias_of == kNone;
    if (i > 0 && constant) return copies_[0][t];
    Tensor copy = tensor;
    copy.id = InIteration(tensor.id, i);
    copy.consumers.clear();
    copy.producer = kNone;
    copy.output = false;
    copy.persistent = tensor.persistent || constant;
    result_.graph.tensors.push_back(std::move(copy));
    if (!slots_.empty()) result_.offsets.push_back(slots_[t][i % slots_[t].size()]);
    return static_cast<uint32_t>(result_.graph.tensors.size()) - 1;
  }

  const Graph& body_;
  const std::vector<std::vector<int64_t>>& slots_;
  const std::vector<uint32_t>& order_;
  std::vector<uint32_t> made_as_;  // per tensor: what it was in the iteration before, or kNone
  std::vector<uint32_t> made_;     // per tensor: it, or its nearest target that a node produces
  std::vector<std::vector<uint32_t>> copies_;  // per iteration and tensor: the unrolled one
  Unrolled result_;
};

}  // namespace

Unrolled Unroll(const Graph& body, const std::vector<std::vector<int64_t>>& slots,
                const std::vector<uint32_t>& order, uint32_t iterations) {
  Unroller unroller(body, slots, order);
  for (uint32_t i = 0; i < iterations; ++i) unroller.AddIteration(i);
  return unroller.Take();
}

}  // namespace reprise::planner::graph
