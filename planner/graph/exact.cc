#include "planner/graph/exact.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace reprise::planner::graph {
namespace {

// The bytes of what lives at `step`, and of all that can be added while everything conflicts.
int64_t GrowClique(const PreparedGraph& flow, const PairSet& unsafe, const std::vector<Span>& spans,
                   const std::vector<uint32_t>& by_size, int64_t step) {
  std::vector<uint64_t> common(unsafe.words(), ~uint64_t{0});
  int64_t sum = 0;
  const auto add = [&](uint32_t s) {
    sum += flow.storages[s].bytes;
    const auto row = unsafe.Row(s);
    for (size_t w = 0; w < common.size(); ++w) common[w] &= row[w];
  };
  for (uint32_t s = 0; s < spans.size(); ++s) {
    if (flow.storages[s].bytes > 0 && spans[s].lower <= step && step < spans[s].upper) add(s);
  }
  for (const uint32_t s : by_size) {
    if ((common[s / 64] >> (s % 64)) & 1) add(s);
  }
  return sum;
}

class Search {
 public:
  Search(const ConflictProblem& problem, int64_t lower_bound, int64_t record, int64_t nodes,
         const std::function<bool()>& stop)
      : problem_(problem),
        lower_bound_(lower_bound),
        record_(record),
        nodes_(nodes > 0 ? nodes : INT64_MAX),
        stop_(stop),
        offsets_(problem.size(), kFree) {
    const uint32_t n = problem.size();
    conflicts_.resize(n);
    for (uint32_t a = 0; a < n; ++a) {
      for (uint32_t b = 0; b < n; ++b) {
        if (a != b && InConflict(problem, a, b)) conflicts_[a].push_back(b);
      }
      if (problem.blocks[a].fixed != kFree) offsets_[a] = problem.blocks[a].fixed;
      left_ += offsets_[a] == kFree;
    }
    by_size_.resize(n);
    std::iota(by_size_.begin(), by_size_.end(), 0);
    std::stable_sort(by_size_.begin(), by_size_.end(), [&](uint32_t a, uint32_t b) {
      return problem.blocks[a].size > problem.blocks[b].size;
    });
  }

  ExactOutcome Run() {
    int64_t height = 0;
    bool groups = false;
    for (uint32_t b = 0; b < problem_.size(); ++b) {
      groups |= problem_.blocks[b].count > 1;
      if (offsets_[b] != kFree) height = std::max(height, offsets_[b] + problem_.blocks[b].size);
    }
    Descend(0, height);
    outcome_.exhausted = !given_up_ && (!groups || record_ <= lower_bound_);
    return std::move(outcome_);
  }

 private:
  // The lowest offset at or above `from` that no placed block is in the way of.
  int64_t Lowest(uint32_t block, int64_t from) const {
    const Block& b = problem_.blocks[block];
    const auto align = [&](int64_t offset) {
      const int64_t past = (offset - b.remainder) & (b.alignment - 1);
      return past == 0 ? offset : offset + b.alignment - past;
    };
    int64_t at = align(from);
    for (bool moved = true; moved;) {
      moved = false;
      for (const uint32_t other : conflicts_[block]) {
        if (offsets_[other] == kFree) continue;
        for (const Member& x : problem_.MembersOf(block)) {
          for (const Member& y : problem_.MembersOf(other)) {
            const int64_t lower = offsets_[other] + y.relative;
            if (at + x.relative >= lower + y.size || lower >= at + x.relative + x.size) continue;
            if (!problem_.unsafe->Contains(x.storage, y.storage)) continue;
            at = align(lower + y.size - x.relative);
            moved = true;
          }
        }
      }
    }
    return at;
  }

  void Descend(int64_t floor, int64_t height) {
    if (left_ == 0) {
      record_ = height;
      outcome_.offsets = offsets_;
      return;
    }
    struct Option {
      int64_t offset;
      uint32_t block;
    };
    std::vector<Option> options;
    for (const uint32_t block : by_size_) {
      if (offsets_[block] != kFree) continue;
      const int64_t offset = Lowest(block, floor);
      // Whatever comes before it, this block will not lie lower.
      if (offset + problem_.blocks[block].size >= record_) return;
      options.push_back({offset, block});
    }
    std::stable_sort(options.begin(), options.end(),
                     [](const Option& a, const Option& b) { return a.offset < b.offset; });
    for (const Option& option : options) {
      if (given_up_ || record_ <= lower_bound_) return;
      if (nodes_-- <= 0 || ((nodes_ & 255) == 0 && stop_())) {
        given_up_ = true;
        return;
      }
      const int64_t end = option.offset + problem_.blocks[option.block].size;
      if (end >= record_) return;
      offsets_[option.block] = option.offset;
      --left_;
      Descend(option.offset, std::max(height, end));
      ++left_;
      offsets_[option.block] = kFree;
    }
  }

  const ConflictProblem& problem_;
  int64_t lower_bound_;
  int64_t record_;
  int64_t nodes_;
  const std::function<bool()>& stop_;
  BlockOffsets offsets_;
  std::vector<std::vector<uint32_t>> conflicts_;
  std::vector<uint32_t> by_size_;
  uint32_t left_ = 0;
  bool given_up_ = false;
  ExactOutcome outcome_;
};

}  // namespace

int64_t CliqueBound(const PreparedGraph& flow, const PairSet& unsafe) {
  const std::vector<Span> spans = Lifetimes(flow, flow.sequence);
  const std::vector<int64_t> loads = Loads(flow, flow.sequence);
  std::vector<uint32_t> by_size;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (flow.storages[s].bytes > 0) by_size.push_back(s);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [&](uint32_t a, uint32_t b) {
    return flow.storages[a].bytes > flow.storages[b].bytes;
  });
  std::vector<uint32_t> steps(loads.size());
  std::iota(steps.begin(), steps.end(), 0);
  constexpr size_t kInstants = 32;
  const size_t tries = std::min(steps.size(), kInstants);
  std::partial_sort(steps.begin(), steps.begin() + tries, steps.end(), [&](uint32_t a, uint32_t b) {
    return loads[a] != loads[b] ? loads[a] > loads[b] : a < b;
  });
  int64_t bound = 0;
  for (size_t i = 0; i < tries; ++i) {
    bound = std::max(bound, GrowClique(flow, unsafe, spans, by_size, int64_t{steps[i]} - 1));
  }
  return bound;
}

ExactOutcome SearchExactly(const ConflictProblem& problem, int64_t lower_bound, int64_t record,
                           int64_t nodes, const std::function<bool()>& stop) {
  return Search(problem, lower_bound, record, nodes, stop).Run();
}

}  // namespace reprise::planner::graph
