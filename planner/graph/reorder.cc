#include "planner/graph/reorder.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "planner/core/random.h"
#include "planner/graph/beam.h"
#include "planner/graph/local_search.h"
#include "planner/graph/low_orders.h"
#include "planner/graph/memory_model.h"

namespace reprise::planner::graph {
namespace {

using Clock = std::chrono::steady_clock;

// More nodes than this need more than 64 MiB for their bound.
constexpr uint32_t kMostForBound = 1 << 14;

// More than this have too many pairs for cuts.
constexpr uint32_t kMostNodesForCuts = 1 << 10;

// Local search looks, for each node, at all that share a storage with it; no more than this at
// once.
constexpr uint64_t kMostSquares = uint64_t{1} << 28;

// Times the square of the width: good orders first, then proofs.
constexpr int64_t kCuts = 30;

class Reorderer {
 public:
  Reorderer(const PreparedGraph& flow, const Options& options)
      : flow_(flow),
        options_(options),
        start_(Clock::now()),
        model_(MakeMemoryModel(flow, false)) {}

  Ordering Run() {
    best_.order = flow_.sequence;
    best_.peak = PeakOf(model_, best_.order);
    best_.finder = "given";
    for (const Storage& storage : flow_.storages) step_ = std::gcd(step_, storage.bytes);
    step_ = std::max<int64_t>(step_, 1);
    for (uint32_t s = 0; s < model_.bytes.size(); ++s) {
      squares_ += uint64_t{model_.openers[s].size()} * model_.openers[s].size() +
                  uint64_t{model_.closers[s].size()} * model_.closers[s].size();
    }
    best_.bound = flow_.nodes <= kMostForBound ? OrderBound(flow_) : model_.floor;
    // Widths and steps per round; without a number of iterations, until time is up.
    const int64_t rounds = options_.iterations > 0 ? options_.iterations : INT64_MAX;
    uint32_t width = 1;
    if (flow_.nodes <= kMostNodesForCuts) low_.emplace(flow_);
    for (int64_t round = 0; round < rounds && !Done(); ++round) {
      Lists successors = flow_.successors;
      // The first beams are the cheapest, and often enough.
      if (low_.has_value() && round > 0) {
        cuts_ = kCuts * width * width;
        if (!Tighten(*low_, best_.peak)) best_.bound = best_.peak;
        successors = low_->Successors();
      }
      Search(false, successors, width);
      Search(true, successors, width);
      Bisect(width);
      Descend(round);
      constexpr uint32_t kMostWidth = 1 << 16;
      if (width < kMostWidth) width *= 4;
    }
    return std::move(best_);
  }

 private:
  enum class Answer { kUnknown, kYes, kNo };

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool Stopped() const {
    if (options_.cancel != nullptr && options_.cancel->load()) return true;
    return Seconds() > options_.budget_seconds;
  }
  bool Done() const { return best_.peak <= best_.bound || Stopped(); }

  void Offer(bool backwards, std::vector<uint32_t> order, const char* finder) {
    if (backwards) std::reverse(order.begin(), order.end());
    const int64_t peak = PeakOf(model_, order);
    if (peak >= best_.peak) return;
    best_.order = std::move(order);
    best_.peak = peak;
    best_.finder = finder;
  }

  // False: no order has a peak below the mark.
  bool Tighten(LowOrders& low, int64_t mark) {
    return low.Tighten(mark, [&] { return cuts_-- <= 0 || Stopped(); });
  }

  // For an order below `limit` with these precedences; the best one, or any below `good` + 1.
  BeamOutcome Beam(bool backwards, const Lists& successors, uint32_t width, int64_t limit,
                   int64_t good) {
    const MemoryModel model = MakeMemoryModel(flow_, backwards, successors);
    BeamOptions options;
    options.width = width;
    options.limit = limit;
    options.good = good;
    BeamOutcome outcome = SearchOrders(model, options, [&] { return Stopped(); });
    if (!outcome.order.empty()) Offer(backwards, outcome.order, "beam");
    return outcome;
  }

  void Search(bool backwards, const Lists& successors, uint32_t width) {
    if (Done()) return;
    // Nothing was left out, and nothing lower found.
    if (Beam(backwards, successors, width, best_.peak, best_.bound).exhausted) {
      best_.bound = best_.peak;
    }
  }

  // Asks for orders below a mark, not for the best: then all that stays below the mark is as good,
  // and much more may run at once. An answer lowers the peak or raises the bound; where none comes,
  // a lower mark is easier to refute.
  void Bisect(uint32_t width) {
    int64_t high = best_.peak;
    constexpr int kProbes = 8;
    for (int probe = 0; probe < kProbes && !Done() && high > best_.bound + step_; ++probe) {
      const int64_t middle = best_.bound + (high - best_.bound) / 2;
      int64_t mark = std::min((middle + step_) / step_ * step_, high);
      // The rest at once.
      if (best_.peak - best_.bound < best_.peak / 64) mark = high;
      cuts_ = kCuts * width * width;
      const Answer answer =
          low_.has_value() ? Branch(*low_, mark) : Ask(flow_.successors, mark, width);
      if (answer == Answer::kNo) best_.bound = std::max(best_.bound, mark);
      if (answer == Answer::kUnknown && mark == high) break;
      high = answer == Answer::kUnknown ? mark : best_.peak;
    }
  }

  // Whether there is an order below the mark, by beams.
  Answer Ask(const Lists& successors, int64_t mark, uint32_t width) {
    for (const bool backwards : {false, true}) {
      if (Stopped()) break;
      const BeamOutcome outcome = Beam(backwards, successors, width, mark, mark - 1);
      if (!outcome.order.empty()) return Answer::kYes;
      if (outcome.exhausted) return Answer::kNo;
    }
    return Answer::kUnknown;
  }

  // The same, by precedences that such an order must have, and by cases: of two nodes the one or
  // the other runs first.
  Answer Branch(LowOrders low, int64_t mark) {
    if (!Tighten(low, mark)) return Answer::kNo;
    constexpr uint32_t kWidth = 4;
    const Answer answer = Ask(low.Successors(), mark, kWidth);
    if (answer != Answer::kUnknown || cuts_ <= 0 || Stopped()) return answer;
    const auto [first, second] = low.Critical();
    if (first == kNone) return Answer::kUnknown;
    LowOrders other = low;
    low.Add(first, second);
    const Answer one = Branch(std::move(low), mark);
    if (one != Answer::kNo) return one;
    other.Add(second, first);
    return Branch(std::move(other), mark);
  }

  // From the best order, forwards and backwards being the same here.
  void Descend(int64_t round) {
    if (Done() || squares_ > kMostSquares) return;
    Random random(options_.seed, static_cast<uint64_t>(round));
    LocalSearch search(model_, best_.order);
    constexpr int64_t kWork = 4'000'000;  // node visits
    const int64_t steps =
        std::clamp<int64_t>(kWork / std::max<uint32_t>(flow_.nodes, 1), 200, 4'000);
    search.Run(steps, best_.bound, random, [&] { return Stopped(); });
    Offer(false, search.best(), "local_search");
  }

  const PreparedGraph& flow_;
  const Options& options_;
  Clock::time_point start_;
  MemoryModel model_;
  std::optional<LowOrders> low_;  // below best_.peak
  int64_t cuts_ = 0;              // that may still be made
  uint64_t squares_ = 0;          // of how many open or close each storage
  int64_t step_ = 0;              // every peak is a multiple of it
  Ordering best_;
};

}  // namespace

Ordering Reorder(const PreparedGraph& flow, const Options& options) {
  return Reorderer(flow, options).Run();
}

}  // namespace reprise::planner::graph
