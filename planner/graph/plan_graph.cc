#include "planner/graph/plan_graph.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "planner/graph/check_graph.h"
#include "planner/graph/loop.h"
#include "planner/graph/olla_ilp.h"
#include "planner/graph/place.h"
#include "planner/graph/prepared_graph.h"
#include "planner/graph/reorder.h"
#include "planner/graph/safety.h"

namespace reprise::planner::graph {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of this thread: what other work on the machine cannot prolong.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// More storages than this need more than 512 MiB for their pairs.
constexpr size_t kMostStorages = size_t{1} << 16;

// More bits than this, of nodes times storages, need more than 1 GiB.
constexpr uint64_t kMostForAncestors = uint64_t{1} << 33;

// Pairs of one stream: lifetimes that overlap. In the order of births, those that live already.
int64_t OverlappingPairs(const PreparedGraph& flow) {
  const std::vector<Span> spans = Lifetimes(flow, flow.sequence);
  std::vector<int64_t> births, deaths;
  for (uint32_t s = 0; s < spans.size(); ++s) {
    if (flow.storages[s].bytes == 0) continue;
    births.push_back(spans[s].lower);
    deaths.push_back(spans[s].upper);
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  int64_t pairs = 0;
  size_t dead = 0;
  for (size_t born = 0; born < births.size(); ++born) {
    while (dead < deaths.size() && deaths[dead] <= births[born]) ++dead;
    pairs += static_cast<int64_t>(born - dead);
  }
  return pairs;
}

bool IsPlanners(const std::string& strategy) {
  const auto& all = Strategies();
  return std::any_of(all.begin(), all.end(),
                     [&](const StrategyInfo& info) { return info.name == strategy; });
}

class GraphPlanner {
 public:
  GraphPlanner(const Graph& graph, const GraphOptions& options)
      : graph_(graph), options_(options), start_(Clock::now()) {}

  absl::StatusOr<GraphPlan> Run() {
    absl::StatusOr<PreparedGraph> flow = PrepareGraph(graph_);
    if (!flow.ok()) return flow.status();
    flow_ = *std::move(flow);
    plan_.streams = std::max<uint32_t>(flow_.streams, 1);
    plan_.seed = options_.solve.seed;
    plan_.given_max_load = Peak(flow_, flow_.sequence);
    plan_.max_load = plan_.given_max_load;
    FindOrder();
    absl::StatusOr<Placed> placed = Place();
    if (!placed.ok()) return Named(placed.status());
    if (way_ == "olla_ilp" && options_.solve.strategy == "auto") PlanJointly(*placed);
    if (plan_.order_changed && placed->makespan > plan_.given_max_load && !TooLate()) {
      if (absl::Status status = CompareWithGiven(*placed); !status.ok()) return Named(status);
    }
    plan_.order = flow_.sequence;
    plan_.makespan = placed->makespan;
    plan_.lower_bound = placed->lower_bound;
    plan_.strategy = options_.solve.strategy == "auto" && placed->finder.rfind("auto:", 0) != 0
                         ? absl::StrCat("auto:", placed->finder)
                         : placed->finder;
    plan_.proven_optimal = plan_.makespan == plan_.lower_bound;
    for (size_t t = 0; t < flow_.storage_of.size(); ++t) {
      plan_.offsets.push_back(placed->offsets[flow_.storage_of[t]] + flow_.position[t]);
    }
    if (absl::Status status = Check(); !status.ok()) return status;
    plan_.seconds = Since(start_);
    return std::move(plan_);
  }

 private:
  // Time left of the budget.
  Options Left() const {
    Options options = options_.solve;
    options.budget_seconds = std::max(0.0, options.budget_seconds - reserved_ - Since(start_));
    return options;
  }

  // Whether there is no time to place again: that takes at least as long as finding the pairs.
  bool TooLate() const {
    const double budget = options_.solve.budget_seconds;
    return options_.solve.iterations == 0 && Left().budget_seconds <= 0 &&
           plan_.safety_seconds > budget / 10;
  }

  void FindOrder() {
    way_ = options_.order;
    if (way_ == "auto") way_ = flow_.order_given ? "given" : "reorder";
    if (way_ == "given") return;
    const Clock::time_point start = Clock::now();
    // The rest of the time is for placing.
    Options options = options_.solve;
    options.budget_seconds /= way_ == "olla_ilp" ? 3 : 2;
    Ordering ordering = Reorder(flow_, options);
    if (way_ == "olla_ilp") {
      options.budget_seconds = std::max(0.0, options_.solve.budget_seconds / 2 - Since(start));
      reserved_ = options_.solve.budget_seconds / 4;
      ordering = OrderByIntegerProgram(flow_, options, std::move(ordering));
    }
    plan_.order_bound = ordering.bound;
    plan_.order_changed = ordering.order != flow_.sequence;
    given_ = std::exchange(flow_.sequence, std::move(ordering.order));
    plan_.max_load = ordering.peak;
    plan_.order_finder = ordering.finder;
    plan_.order_seconds = Since(start);
  }

  // Another order may have the smaller plan, even one with a higher peak: order and offsets at
  // once.
  void PlanJointly(Placed& placed) {
    reserved_ = 0;
    OrderedPlan plan{flow_.sequence, placed.offsets, placed.makespan, plan_.order_bound};
    plan = PlanByIntegerProgram(flow_, Left(), std::move(plan));
    if (plan.makespan < placed.makespan) {
      plan_.order_changed = plan.order != given_;
      plan_.max_load = Peak(flow_, plan.order);
      plan_.order_finder = "olla_ilp";
      flow_.sequence = std::move(plan.order);
      plan_.unsafe_pairs = OverlappingPairs(flow_);
      placed.offsets = std::move(plan.offsets);
      placed.makespan = plan.makespan;
      placed.lower_bound = plan_.max_load;
      placed.finder = "olla_ilp";
    }
    placed.lower_bound = std::max(placed.lower_bound, plan.bound);
  }

  // A lower peak in sequence may cost more where streams run in parallel: of the two plans the
  // smaller is kept.
  absl::Status CompareWithGiven(Placed& placed) {
    const GraphPlan changed = plan_;
    std::swap(flow_.sequence, given_);
    absl::StatusOr<Placed> other = Place();
    if (!other.ok()) return other.status();
    if (other->makespan < placed.makespan) {
      placed = *std::move(other);
      plan_.max_load = plan_.given_max_load;
      plan_.order_changed = false;
      plan_.order_finder = "given";
      return absl::OkStatus();
    }
    std::swap(flow_.sequence, given_);
    plan_ = changed;
    return absl::OkStatus();
  }

  absl::StatusOr<Placed> Place() {
    const std::string& strategy = options_.solve.strategy;
    const bool one_stream = flow_.streams <= 1;
    if (one_stream) plan_.unsafe_pairs = OverlappingPairs(flow_);
    if (one_stream && IsPlanners(strategy)) {
      if (flow_.groups.empty() || !TakesConflicts(strategy)) {
        return PlaceByLifetimes(flow_, Left());
      }
      if (strategy == "auto") {
        Options options = Left();
        options.budget_seconds /= 2;
        absl::StatusOr<Placed> first = PlaceByLifetimes(flow_, options);
        if (first.ok() && first->proven_optimal) return first;
        if (flow_.storages.size() > kMostStorages) return first;
        absl::StatusOr<Placed> second = PlaceWithPairs();
        if (!second.ok() || !first.ok()) return second;
        if (second->makespan <= first->makespan) return second;
        first->lower_bound = second->lower_bound;
        return first;
      }
    }
    if (!TakesConflicts(strategy)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--strategy: '", strategy, "' needs lifetimes, which a graph with ",
          base::Counted(plan_.streams, "stream"), flow_.groups.empty() ? "" : " and groups",
          " does not have; expected one of auto, bump, somas_*, first_fit_by_*, best_fit_by_*, "
          "tvm_hill_climb, sampled_orders, exact_search"));
    }
    if (flow_.storages.size() > kMostStorages) {
      return absl::InvalidArgumentError(absl::StrCat("tensors: expected at most ", kMostStorages,
                                                     " with several streams or groups, found ",
                                                     flow_.storages.size()));
    }
    return PlaceWithPairs();
  }

  absl::StatusOr<Placed> PlaceWithPairs() {
    if (options_.safety == "ancestor" &&
        uint64_t{flow_.nodes} * flow_.storages.size() > kMostForAncestors) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--safety: ancestor takes at most ", kMostForAncestors, " nodes times storages, found ",
          flow_.nodes, " nodes and ", flow_.storages.size(), " storages; stream_graph takes more"));
    }
    const double start = CpuSeconds();
    const PairSet unsafe =
        options_.safety == "ancestor" ? UnsafePairsByAncestors(flow_) : UnsafePairsByStreams(flow_);
    plan_.safety_seconds = CpuSeconds() - start;
    plan_.unsafe_pairs = unsafe.Pairs();
    const double placing = CpuSeconds();
    absl::StatusOr<Placed> placed = PlaceByConflicts(flow_, unsafe, Left());
    plan_.place_seconds = CpuSeconds() - placing;
    return placed;
  }

  const Id& NameOf(uint32_t storage) const {
    const auto tensor = std::find(flow_.storage_of.begin(), flow_.storage_of.end(), storage) -
                        flow_.storage_of.begin();
    return graph_.tensors[tensor].id;
  }

  // Placement knows numbers only: "storages A B".
  absl::Status Named(const absl::Status& status) const {
    if (status.code() != absl::StatusCode::kInvalidArgument) return status;
    const std::vector<std::string> words = absl::StrSplit(status.message(), ' ');
    uint32_t a = 0, b = 0;
    if (words.size() != 3 || words[0] != "storages" || !absl::SimpleAtoi(words[1], &a) ||
        !absl::SimpleAtoi(words[2], &b)) {
      return status;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("tensors ", Quoted(NameOf(a)), " and ", Quoted(NameOf(b)),
                     ": expected given offsets that keep apart what is needed at once, found ",
                     flow_.storages[a].offset, " and ", flow_.storages[b].offset));
  }

  absl::Status Check() const {
    return AsPlanned(CheckGraph(graph_, plan_.offsets, plan_.order, 1), plan_);
  }

  const Graph& graph_;
  const GraphOptions& options_;
  Clock::time_point start_;
  std::string way_;      // to the order
  double reserved_ = 0;  // seconds of the budget, for order and offsets at once
  PreparedGraph flow_;
  std::vector<uint32_t> given_;  // the sequence that is not in use
  GraphPlan plan_;
};

}  // namespace

absl::StatusOr<GraphPlan> PlanGraph(const Graph& graph, const GraphOptions& options) {
  if (graph.loop) return PlanLoop(graph, options);
  return GraphPlanner(graph, options).Run();
}

}  // namespace reprise::planner::graph
