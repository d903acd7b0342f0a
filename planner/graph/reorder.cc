#include "planner/graph/reorder.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "planner/graph/beam.h"
#include "planner/graph/local_search.h"
#include "planner/graph/memory_model.h"
#include "planner/random.h"

namespace reprise::planner::graph {
namespace {

using Clock = std::chrono::steady_clock;

// More nodes than this need more than 64 MiB for their bound.
constexpr uint32_t kMostForBound = 1 << 14;

class Reorderer {
 public:
  Reorderer(const Flow& flow, const Options& options)
      : flow_(flow),
        options_(options),
        start_(Clock::now()),
        forwards_(MakeMemoryModel(flow, false)),
        backwards_(MakeMemoryModel(flow, true)) {}

  Ordering Run() {
    best_.order = flow_.sequence;
    best_.peak = PeakOf(forwards_, best_.order);
    best_.finder = "given";
    for (const Storage& storage : flow_.storages) step_ = std::gcd(step_, storage.bytes);
    step_ = std::max<int64_t>(step_, 1);
    best_.bound = flow_.nodes <= kMostForBound ? OrderBound(flow_) : forwards_.floor;
    // Widths and steps per round; without a number of iterations, until time is up.
    const int64_t rounds = options_.iterations > 0 ? options_.iterations : INT64_MAX;
    uint32_t width = 1;
    for (int64_t round = 0; round < rounds && !Done(); ++round) {
      Search(forwards_, width, round);
      Search(backwards_, width, round);
      Bisect(width, round);
      Descend(round);
      constexpr uint32_t kMostWidth = 1 << 16;
      if (width < kMostWidth) width *= 4;
    }
    return std::move(best_);
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool Stopped() const {
    if (options_.cancel != nullptr && options_.cancel->load()) return true;
    return Seconds() > options_.budget_seconds;
  }
  bool Done() const { return best_.peak <= best_.bound || Stopped(); }

  void Offer(const MemoryModel& model, std::vector<uint32_t> order, const char* finder) {
    if (model.backwards) std::reverse(order.begin(), order.end());
    const int64_t peak = PeakOf(forwards_, order);
    if (peak >= best_.peak) return;
    best_.order = std::move(order);
    best_.peak = peak;
    best_.finder = finder;
  }

  void Search(const MemoryModel& model, uint32_t width, int64_t round) {
    if (Done()) return;
    Random random(options_.seed, static_cast<uint64_t>(round) * 4 + (model.backwards ? 1 : 0));
    BeamOptions options;
    options.width = width;
    options.limit = best_.peak;
    options.good = best_.bound;
    const BeamOutcome outcome = SearchOrders(model, options, random, [&] { return Stopped(); });
    if (!outcome.order.empty()) Offer(model, outcome.order, "beam");
    // Nothing was left out, and nothing lower found.
    if (outcome.exhausted) best_.bound = best_.peak;
  }

  // Asks for orders below a mark, not for the best: then all that stays below the mark is as good,
  // and much more may run at once. An answer lowers the peak; the end of a search that left nothing
  // out raises the bound. Where neither comes, a lower mark is easier to refute.
  void Bisect(uint32_t width, int64_t round) {
    int64_t high = best_.peak;
    constexpr int kProbes = 8;
    for (int probe = 0; probe < kProbes && !Done() && high > best_.bound + step_; ++probe) {
      const int64_t middle = best_.bound + (high - best_.bound) / 2;
      const int64_t mark = std::min((middle + step_) / step_ * step_, high);
      bool answered = false;
      for (const MemoryModel* model : {&forwards_, &backwards_}) {
        if (answered || Stopped()) continue;
        Random random(options_.seed, static_cast<uint64_t>(round) * 4 + 3);
        BeamOptions options;
        options.width = width;
        options.limit = mark;
        options.good = mark - 1;
        const BeamOutcome outcome =
            SearchOrders(*model, options, random, [&] { return Stopped(); });
        if (!outcome.order.empty()) {
          Offer(*model, outcome.order, "beam");
          answered = true;
        } else if (outcome.exhausted) {
          best_.bound = std::max(best_.bound, mark);
          answered = true;
        }
      }
      high = answered ? best_.peak : mark;
    }
  }

  // From the best order, forwards and backwards being the same here.
  void Descend(int64_t round) {
    if (Done()) return;
    Random random(options_.seed, static_cast<uint64_t>(round) * 4 + 2);
    LocalSearch search(forwards_, best_.order);
    constexpr int64_t kWork = 4'000'000;  // node visits
    const int64_t steps =
        std::clamp<int64_t>(kWork / std::max<uint32_t>(flow_.nodes, 1), 200, 4'000);
    search.Run(steps, best_.bound, random, [&] { return Stopped(); });
    Offer(forwards_, search.best(), "local_search");
  }

  const Flow& flow_;
  const Options& options_;
  Clock::time_point start_;
  MemoryModel forwards_;
  MemoryModel backwards_;
  int64_t step_ = 0;  // every peak is a multiple of it
  Ordering best_;
};

}  // namespace

Ordering Reorder(const Flow& flow, const Options& options) {
  return Reorderer(flow, options).Run();
}

#ifndef REPRISE_HAVE_CBC
Ordering OrderByIntegerProgram(const Flow&, const Options&, Ordering start) { return start; }
#endif

}  // namespace reprise::planner::graph
