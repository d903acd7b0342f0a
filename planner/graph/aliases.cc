#include "planner/graph/aliases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace reprise::planner::graph {
namespace {

absl::Status BadTensor(const Graph& graph, uint32_t tensor, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(graph.tensors[tensor].id), ": ", what));
}

class Resolver {
 public:
  explicit Resolver(const Graph& graph)
      : graph_(graph), count_(static_cast<uint32_t>(graph.tensors.size())) {}

  absl::StatusOr<Aliases> Run() {
    if (absl::Status status = Number(); !status.ok()) return status;
    result_.root.resize(count_);
    result_.depth.assign(count_, 0);
    result_.position.assign(count_, 0);
    result_.size.resize(count_);
    result_.use.assign(count_, Use::kOwn);
    result_.version.resize(count_);
    result_.maker.resize(count_);
    result_.write.assign(count_, kNone);
    FindParts();
    for (const uint32_t tensor : preorder_) {
      if (absl::Status status = Resolve(tensor); !status.ok()) return status;
    }
    return std::move(result_);
  }

 private:
  // A tensor before its aliases, all that are below it together: [number, end) of
  // preorder_.
  absl::Status Number() {
    std::vector<IndexPair> pairs;
    for (uint32_t t = 0; t < count_; ++t) {
      if (graph_.tensors[t].alias_of != kNone) pairs.emplace_back(graph_.tensors[t].alias_of, t);
    }
    children_ = ToLists(std::move(pairs), count_);
    result_.number.assign(count_, kNone);
    result_.end.assign(count_, 0);
    std::vector<uint32_t> stack;
    for (uint32_t root = 0; root < count_; ++root) {
      if (graph_.tensors[root].alias_of != kNone) continue;
      stack.push_back(root);
      while (!stack.empty()) {
        const uint32_t at = stack.back();
        stack.pop_back();
        result_.number[at] = static_cast<uint32_t>(preorder_.size());
        preorder_.push_back(at);
        const auto below = children_[at];
        stack.insert(stack.end(), below.rbegin(), below.rend());
      }
    }
    for (uint32_t i = count_; i-- > 0 && preorder_.size() == count_;) {
      const uint32_t at = preorder_[i];
      result_.end[at] = std::max(result_.end[at], i + 1);
      const uint32_t target = graph_.tensors[at].alias_of;
      if (target != kNone) result_.end[target] = std::max(result_.end[target], result_.end[at]);
    }
    if (preorder_.size() == count_) return absl::OkStatus();
    uint32_t t = 0;
    while (result_.number[t] != kNone) ++t;
    return BadTensor(
        graph_, t,
        "expected an alias_of that ends at a tensor with memory of its own, found a cycle");
  }

  // An alias is a part of its target when the target's producer reads it or an alias of it.
  void FindParts() {
    is_part_.assign(count_, false);
    std::vector<IndexPair> pairs;
    for (uint32_t t = 0; t < count_; ++t) {
      const uint32_t producer = graph_.tensors[t].producer;
      if (producer != kNone && !children_[t].empty()) pairs.emplace_back(producer, t);
    }
    const Lists targets = ToLists(pairs, static_cast<uint32_t>(graph_.nodes.size()));
    for (uint32_t read = 0; read < count_; ++read) {
      if (graph_.tensors[read].alias_of == kNone) continue;
      for (const uint32_t reader : graph_.tensors[read].consumers) {
        for (const uint32_t target : targets[reader]) {
          if (target != read && result_.Holds(target, read)) {
            is_part_[ChildTowards(target, read)] = true;
          }
        }
      }
    }
  }

  // The alias of `target` that `below` is, or is below.
  uint32_t ChildTowards(uint32_t target, uint32_t below) const {
    const auto children = children_[target];
    return *(std::partition_point(
                 children.begin(), children.end(),
                 [&](uint32_t child) { return result_.number[child] <= result_.number[below]; }) -
             1);
  }

  absl::Status Resolve(uint32_t t) {
    const Tensor& tensor = graph_.tensors[t];
    const uint32_t target = tensor.alias_of;
    result_.version[t] = t;
    result_.maker[t] = tensor.producer;
    if (target == kNone) {
      result_.root[t] = t;
      result_.size[t] = tensor.bytes;
      return absl::OkStatus();
    }
    result_.root[t] = result_.root[target];
    result_.depth[t] = result_.depth[target] + 1;
    result_.position[t] = result_.position[target] + tensor.alias_offset;
    const int64_t room = result_.size[target] - tensor.alias_offset;
    result_.size[t] = tensor.bytes > 0 ? tensor.bytes : std::max<int64_t>(room, 0);
    if (absl::Status status = Classify(t); !status.ok()) return status;
    const bool writes = result_.use[t] == Use::kWrite || result_.use[t] == Use::kEither;
    result_.write[t] = writes ? t : result_.write[target];
    const bool inside = tensor.alias_offset > 0 || result_.use[t] == Use::kView ||
                        (result_.use[t] == Use::kPart && tensor.alias == Alias::kView);
    if (inside && result_.size[t] > room) {
      return BadTensor(graph_, t,
                       absl::StrCat("expected bytes inside its target ",
                                    Quoted(graph_.tensors[target].id), " of ", result_.size[target],
                                    ", found ", result_.size[t], " at ", tensor.alias_offset));
    }
    if (result_.position[t] % tensor.alignment != 0) {
      return BadTensor(graph_, t,
                       absl::StrCat("expected a place in its storage that keeps its alignment of ",
                                    tensor.alignment, ", found ", result_.position[t]));
    }
    return absl::OkStatus();
  }

  absl::Status Classify(uint32_t t) {
    const Tensor& tensor = graph_.tensors[t];
    const uint32_t target = tensor.alias_of;
    const uint32_t maker = result_.maker[target];
    const auto is = [&](Use use) {
      result_.use[t] = use;
      return absl::OkStatus();
    };
    if (tensor.alias == Alias::kWrite) {
      if (tensor.producer == kNone) {
        return BadTensor(graph_, t, "expected a producer, which writes it in place, found none");
      }
      AddWrite(t, maker);
      return is(Use::kWrite);
    }
    if (is_part_[t] && tensor.producer != maker) return is(Use::kPart);
    if (tensor.alias == Alias::kView || (tensor.producer == kNone && maker == kNone)) {
      result_.version[t] = result_.version[target];
      if (tensor.producer == kNone) result_.maker[t] = maker;
      AddView(t, maker);
      return is(Use::kView);
    }
    if (tensor.producer == kNone) {
      return BadTensor(
          graph_, t,
          absl::StrCat("expected a producer, as its target ", Quoted(graph_.tensors[target].id),
                       " has one, found none; add \"in_place\": false if it is a view"));
    }
    AddWrite(t, maker);
    return is(Use::kEither);
  }

  void AddWrite(uint32_t t, uint32_t maker) {
    const Tensor& tensor = graph_.tensors[t];
    if (maker == kNone || maker == tensor.producer) return;
    result_.writes.push_back({maker, tensor.producer, tensor.alias_of, t});
  }

  // Who makes the view reads its target, and where nobody does, who reads the view.
  void AddView(uint32_t t, uint32_t maker) {
    const Tensor& tensor = graph_.tensors[t];
    if (maker == kNone) return;
    const auto add = [&](uint32_t reader) {
      if (reader != maker) result_.views.push_back({maker, reader, tensor.alias_of, t});
    };
    if (tensor.producer != kNone) return add(tensor.producer);
    for (const uint32_t reader : tensor.consumers) add(reader);
  }

  const Graph& graph_;
  uint32_t count_;
  Lists children_;                  // per tensor: its aliases
  std::vector<uint32_t> preorder_;  // of tensors
  std::vector<bool> is_part_;
  Aliases result_;
};

}  // namespace

absl::StatusOr<Aliases> ResolveAliases(const Graph& graph) { return Resolver(graph).Run(); }

std::string Describe(const Graph& graph, const Precedence& precedence) {
  const Tensor& tensor = graph.tensors[precedence.tensor];
  const Tensor& alias = graph.tensors[precedence.alias];
  const auto node = [&](uint32_t n) { return absl::StrCat("node ", Quoted(graph.nodes[n].id)); };
  const bool view = alias.alias == Alias::kView && alias.alias_of == precedence.tensor;
  return absl::StrCat(
      "tensor ", Quoted(tensor.id), ": expected ", node(precedence.before),
      tensor.producer == precedence.before ? ", which writes it," : ", which reads it,",
      " to end before ", node(precedence.after), " starts, which ",
      view ? "uses the view " : "overwrites it with tensor ", Quoted(alias.id),
      view ? " of it" : "");
}

std::string Remedy(const Graph& graph, const Precedence& precedence) {
  const auto open = [&](uint32_t t) {
    return graph.tensors[t].alias_of != kNone && graph.tensors[t].alias == Alias::kNotStated;
  };
  const uint32_t first = open(precedence.alias) ? precedence.alias : precedence.tensor;
  if (!open(first)) return "";
  int64_t others = -1;
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) others += open(t);
  std::string text = absl::StrCat("; add \"in_place\": false to tensor ",
                                  Quoted(graph.tensors[first].id), " if it is a view");
  if (others > 0)
    absl::StrAppend(&text, ", and true or false to ", base::Counted(others, "other alias"));
  return text;
}

}  // namespace reprise::planner::graph
