#include "planner/graph/check_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::planner::graph {
namespace {

// With at most two slots, all that can meet does within the first four.
constexpr uint32_t kUnrolled = 5;

class UnrolledLoop {
 public:
  UnrolledLoop(const Graph& body, const std::vector<std::vector<int64_t>>& slots,
               const std::vector<uint32_t>& order)
      : body_(body), slots_(slots), order_(order), made_as_(body.tensors.size(), kNone) {
    for (const auto& [from, to] : body.loop->carried) made_as_[to] = from;
  }

  GraphCheck Check(size_t most) {
    if (!CheckSlots(most)) return std::move(result_);
    for (uint32_t i = 0; i < kUnrolled; ++i) AddIteration(i);
    GraphCheck check = CheckGraph(graph_, offsets_, run_, most);
    check.violations.insert(check.violations.begin(), result_.violations.begin(),
                            result_.violations.end());
    if (check.violations.size() > most) check.violations.resize(most);
    check.valid = check.violations.empty();
    return check;
  }

 private:
  void Report(uint32_t first, uint32_t second, std::string message) {
    result_.violations.push_back(
        {body_.tensors[first].id, body_.tensors[second].id, std::move(message)});
  }

  int64_t At(uint32_t tensor, uint32_t iteration) const {
    return slots_[tensor][iteration % slots_[tensor].size()];
  }

  // False: there is nothing to unroll.
  bool CheckSlots(size_t most) {
    for (uint32_t t = 0; t < slots_.size() && result_.violations.size() < most; ++t) {
      if (slots_[t].empty() || slots_[t].size() > 2) {
        Report(t, t,
               absl::StrCat("tensor ", Quoted(body_.tensors[t].id), " has ", slots_[t].size(),
                            " offsets: expected one or two"));
      }
    }
    if (order_.size() != body_.nodes.size()) {
      result_.violations.push_back({{}, {}, "the order does not hold every node once"});
    }
    if (!result_.violations.empty()) return false;
    for (uint32_t t = 0; t < slots_.size() && result_.violations.size() < most; ++t) {
      const bool constant = body_.tensors[t].producer == kNone && made_as_[t] == kNone &&
                            body_.tensors[t].alias_of == kNone;
      if (constant && slots_[t].size() > 1) {
        Report(t, t,
               absl::StrCat("tensor ", Quoted(body_.tensors[t].id),
                            " is the same in all iterations, but has several offsets"));
      }
      if (made_as_[t] == kNone) continue;
      for (const int64_t offset : slots_[t]) {
        if (offset % body_.tensors[t].alignment == 0) continue;
        Report(t, t,
               absl::StrCat("tensor ", Quoted(body_.tensors[t].id), " at ", offset,
                            ": not a multiple of ", body_.tensors[t].alignment));
      }
      for (uint32_t i = 1; i < kUnrolled; ++i) {
        const uint32_t from = made_as_[t];
        if (At(t, i) == At(from, i - 1)) continue;
        Report(from, t,
               absl::StrCat("tensor ", Quoted(body_.tensors[t].id), " is read at ", At(t, i),
                            ", but was made as ", Quoted(body_.tensors[from].id), " at ",
                            At(from, i - 1), " one iteration before"));
        break;
      }
    }
    return true;
  }

  Id InIteration(const Id& id, uint32_t iteration) const {
    return {absl::StrCat(id.text, " in iteration ", iteration), false};
  }

  // The unrolled tensor that `t` is in an iteration.
  uint32_t Unrolled(uint32_t t, uint32_t iteration) const { return copies_[iteration][t]; }

  void AddIteration(uint32_t i) {
    const auto first_node = static_cast<uint32_t>(graph_.nodes.size());
    for (const Node& node : body_.nodes) {
      graph_.nodes.push_back({InIteration(node.id, i), 0, std::nullopt});
    }
    for (const uint32_t node : order_) run_.push_back(first_node + node);
    if (i == 0) graph_.streams = {{"0", true}};
    copies_.emplace_back(body_.tensors.size(), kNone);
    for (uint32_t t = 0; t < body_.tensors.size(); ++t) copies_[i][t] = Place(t, i);
    for (uint32_t t = 0; t < body_.tensors.size(); ++t) {
      const Tensor& tensor = body_.tensors[t];
      Tensor& copy = graph_.tensors[Unrolled(t, i)];
      for (const uint32_t node : tensor.consumers) copy.consumers.push_back(first_node + node);
      if (tensor.producer != kNone) copy.producer = first_node + tensor.producer;
      if (tensor.alias_of != kNone) copy.alias_of = Unrolled(tensor.alias_of, i);
      // Needed until the end of the iteration, and so is what the next one is to read.
      const bool to_the_end = tensor.output && !tensor.persistent;
      if (to_the_end) copy.consumers.push_back(first_node + order_.back());
    }
    for (const auto& [from, to] : body_.loop->carried) {
      graph_.tensors[Unrolled(from, i)].consumers.push_back(first_node + order_.back());
    }
  }

  // The copy of `t` for an iteration, a new one where it is not one of before.
  uint32_t Place(uint32_t t, uint32_t i) {
    const Tensor& tensor = body_.tensors[t];
    if (i > 0 && made_as_[t] != kNone) return Unrolled(made_as_[t], i - 1);
    const bool constant =
        tensor.producer == kNone && made_as_[t] == kNone && tensor.alias_of == kNone;
    if (i > 0 && constant) return Unrolled(t, 0);
    Tensor copy = tensor;
    copy.id = InIteration(tensor.id, i);
    copy.consumers.clear();
    copy.producer = kNone;
    copy.output = false;
    copy.persistent = tensor.persistent || constant;
    graph_.tensors.push_back(std::move(copy));
    offsets_.push_back(At(t, i));
    return static_cast<uint32_t>(graph_.tensors.size()) - 1;
  }

  const Graph& body_;
  const std::vector<std::vector<int64_t>>& slots_;
  const std::vector<uint32_t>& order_;
  std::vector<uint32_t> made_as_;  // per tensor: what it was in the iteration before, or kNone
  Graph graph_;
  std::vector<int64_t> offsets_;
  std::vector<uint32_t> run_;
  std::vector<std::vector<uint32_t>> copies_;  // per iteration and tensor: the unrolled one
  GraphCheck result_;
};

}  // namespace

GraphCheck CheckLoop(const Graph& graph, const std::vector<std::vector<int64_t>>& slots,
                     const std::vector<uint32_t>& order, size_t most) {
  return UnrolledLoop(graph, slots, order).Check(most);
}

}  // namespace reprise::planner::graph
