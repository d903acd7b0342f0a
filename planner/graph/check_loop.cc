#include "planner/graph/check_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/graph/unroll.h"

namespace reprise::planner::graph {
namespace {

// With at most two slots, all that can meet does within the first four.
constexpr uint32_t kUnrolled = 5;

class LoopChecker {
 public:
  LoopChecker(const Graph& body, const std::vector<std::vector<int64_t>>& slots,
              const std::vector<uint32_t>& order)
      : body_(body), slots_(slots), order_(order), made_as_(body.tensors.size(), kNone) {
    for (const auto& [from, to] : body.loop->carried) made_as_[to] = from;
  }

  GraphCheck Check(size_t most) {
    if (!CheckSlots(most)) return std::move(result_);
    const Unrolled unrolled = Unroll(body_, slots_, order_, kUnrolled);
    GraphCheck check = CheckGraph(unrolled.graph, unrolled.offsets, unrolled.order, most);
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

  const Graph& body_;
  const std::vector<std::vector<int64_t>>& slots_;
  const std::vector<uint32_t>& order_;
  std::vector<uint32_t> made_as_;  // per tensor: what it was in the iteration before, or kNone
  GraphCheck result_;
};

}  // namespace

GraphCheck CheckLoop(const Graph& graph, const std::vector<std::vector<int64_t>>& slots,
                     const std::vector<uint32_t>& order, size_t most) {
  return LoopChecker(graph, slots, order).Check(most);
}

}  // namespace reprise::planner::graph
