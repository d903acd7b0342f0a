#include "planner/graph/place.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "planner/core/order.h"
#include "planner/core/problem.h"
#include "planner/core/random.h"
#include "planner/graph/exact.h"
#include "planner/search/sampled_order.h"

namespace reprise::planner::graph {
namespace {

using Clock = std::chrono::steady_clock;

// Strategies that place blocks once in an order.
struct Constructive {
  std::string_view name;
  FitKind fit;
  std::string_view order;
  bool objects = false;
};

constexpr Constructive kConstructive[] = {
    {"somas_single_first", FitKind::kFirst, "size"},
    {"somas_single_best", FitKind::kBest, "size"},
    {"somas_many_first", FitKind::kFirst, "size", true},
    {"somas_many_best", FitKind::kBest, "size", true},
    {"big_rocks_first", FitKind::kFirst, "size"},
    {"first_fit_by_size", FitKind::kFirst, "size"},
    {"first_fit_by_area", FitKind::kFirst, "area"},
    {"first_fit_by_lifespan", FitKind::kFirst, "lifespan"},
    {"first_fit_by_birth", FitKind::kFirst, "birth"},
    {"first_fit_by_breadth", FitKind::kFirst, "breadth"},
    {"first_fit_by_unsafe", FitKind::kFirst, "unsafe"},
    {"first_fit_by_unsafe_bytes", FitKind::kFirst, "unsafe_bytes"},
    {"first_fit_by_max_load", FitKind::kFirst, "max_load"},
    {"first_fit_by_max_load_latest", FitKind::kFirst, "max_load_latest"},
    {"first_fit_by_max_load_earliest", FitKind::kFirst, "max_load_earliest"},
    {"first_fit_by_max_load_area", FitKind::kFirst, "max_load_area"},
    {"first_fit_by_max_load_lifespan", FitKind::kFirst, "max_load_lifespan"},
    {"best_fit_by_size", FitKind::kBest, "size"},
    {"best_fit_by_area", FitKind::kBest, "area"},
    {"best_fit_by_lifespan", FitKind::kBest, "lifespan"},
    {"best_fit_by_birth", FitKind::kBest, "birth"},
    {"best_fit_by_breadth", FitKind::kBest, "breadth"},
    {"best_fit_by_unsafe", FitKind::kBest, "unsafe"},
    {"best_fit_by_unsafe_bytes", FitKind::kBest, "unsafe_bytes"},
    {"best_fit_by_max_load", FitKind::kBest, "max_load"},
    {"best_fit_by_max_load_area", FitKind::kBest, "max_load_area"},
    {"best_fit_by_max_load_lifespan", FitKind::kBest, "max_load_lifespan"},
    {"greedy_by_size", FitKind::kBest, "size"},
    {"greedy_by_breadth", FitKind::kBest, "breadth"},
    {"xla_best_fit_spatial", FitKind::kBest, "size"},
    {"xla_best_fit_temporal", FitKind::kBest, "lifespan"},
};

constexpr std::string_view kImproving[] = {"auto", "bump", "tvm_hill_climb", "sampled_orders",
                                           "exact_search"};

// Blocks as buffers that live in sequence, for orders that look at lifetimes.
Instance SequentialInstance(const PreparedGraph& flow, const ConflictProblem& problem) {
  const std::vector<Span> spans = Lifetimes(flow, flow.sequence);
  Instance instance;
  instance.buffers.assign(problem.size(), {INT64_MAX, INT64_MIN, 1});
  for (uint32_t b = 0; b < problem.size(); ++b) {
    Buffer& buffer = instance.buffers[b];
    buffer.size = std::max<int64_t>(problem.blocks[b].size, 1);
    for (const Member& member : problem.MembersOf(b)) {
      buffer.lower = std::min(buffer.lower, spans[member.storage].lower);
      buffer.upper = std::max(buffer.upper, spans[member.storage].upper);
    }
    if (problem.blocks[b].count == 0) buffer = {0, 1, 1};
  }
  return instance;
}

class Placer {
 public:
  Placer(const PreparedGraph& flow, const PairSet& unsafe, const Options& options)
      : flow_(flow),
        options_(options),
        start_(Clock::now()),
        problem_(MakeConflictProblem(flow, unsafe)),
        instance_(SequentialInstance(flow, problem_)),
        sequential_(MakeProblem(instance_)) {}

  absl::StatusOr<Placed> Run() {
    if (absl::Status status = CheckGiven(); !status.ok()) return status;
    FindBounds();
    if (options_.strategy == "auto") {
      Auto();
    } else if (options_.strategy == "tvm_hill_climb") {
      Climb(options_.iterations > 0 ? options_.iterations : 500);
    } else if (options_.strategy == "sampled_orders") {
      Construct(FitKind::kFirst, "max_load", "first_fit_by_max_load", false);
      Sample(options_.iterations > 0 ? options_.iterations : INT64_MAX);
    } else if (options_.strategy == "exact_search") {
      Construct(FitKind::kFirst, "size", "somas_single_first", false);
      Exact();
    } else if (options_.strategy != "bump") {
      for (const Constructive& way : kConstructive) {
        if (way.name == options_.strategy) Construct(way.fit, way.order, way.name, way.objects);
      }
    }
    if (best_.empty()) Bump();
    Placed placed;
    placed.offsets.assign(flow_.storages.size(), 0);
    for (const Member& member : problem_.members) {
      placed.offsets[member.storage] = best_[member.block] + member.relative;
    }
    PlaceEmpty(placed.offsets);
    placed.makespan = makespan_;
    placed.lower_bound = lower_bound_;
    placed.finder = finder_;
    placed.proven_optimal = makespan_ == lower_bound_;
    return placed;
  }

 private:
  // Storages of 0 bytes lie anywhere, but in a group at their place in it.
  void PlaceEmpty(std::vector<int64_t>& offsets) const {
    for (uint32_t g = 0; g < flow_.groups.size(); ++g) {
      int64_t at = best_[g];  // groups are the first blocks
      for (const uint32_t storage : flow_.groups[g]) {
        offsets[storage] = at;
        at += flow_.storages[storage].bytes;
      }
    }
    for (uint32_t s = 0; s < flow_.storages.size(); ++s) {
      if (flow_.storages[s].offset != kFree) offsets[s] = flow_.storages[s].offset;
    }
  }

  absl::Status CheckGiven() const {
    std::vector<uint32_t> given;
    for (uint32_t b = 0; b < problem_.size(); ++b) {
      if (problem_.blocks[b].fixed != kFree) given.push_back(b);
    }
    for (size_t i = 0; i < given.size(); ++i) {
      for (const Member& x : problem_.MembersOf(given[i])) {
        const int64_t lower = problem_.blocks[given[i]].fixed + x.relative;
        for (size_t j = i + 1; j < given.size(); ++j) {
          for (const Member& y : problem_.MembersOf(given[j])) {
            const int64_t other = problem_.blocks[given[j]].fixed + y.relative;
            if (other >= lower + x.size || lower >= other + y.size) continue;
            if (problem_.unsafe->Contains(x.storage, y.storage)) {
              return GivenOffsetsOverlap(x.storage, y.storage);
            }
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // The caller puts names in.
  static absl::Status GivenOffsetsOverlap(uint32_t a, uint32_t b) {
    return absl::InvalidArgumentError(absl::StrCat("storages ", a, " ", b));
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool Cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }
  bool OutOfTime() const { return Cancelled() || Seconds() > options_.budget_seconds; }
  // Whether time may cut short what improves a plan: not where iterations are counted, nor before
  // there is a plan.
  bool Late() const {
    return Cancelled() || (options_.iterations == 0 && !finder_.empty() && OutOfTime());
  }
  bool Done() const {
    return !finder_.empty() && makespan_ - lower_bound_ <= options_.worst_case_fragmentation;
  }

  // What conflicts with each other lies side by side: the load of every instant in sequence, grown
  // greedily to a set that conflicts in pairs; given ends; groups.
  void FindBounds() {
    lower_bound_ = Peak(flow_, flow_.sequence);
    for (const Block& block : problem_.blocks) {
      lower_bound_ = std::max(lower_bound_, block.size + std::max<int64_t>(block.fixed, 0));
    }
    lower_bound_ = std::max(lower_bound_, CliqueBound(flow_, *problem_.unsafe));
  }

  void Offer(BlockOffsets offsets, std::string_view finder) {
    if (offsets.empty()) {
      if (problem_.size() > 0 || !finder_.empty()) return;
    }
    const int64_t makespan = MakespanOf(problem_, offsets);
    if (!finder_.empty() && makespan >= makespan_) return;
    makespan_ = makespan;
    best_ = std::move(offsets);
    finder_ = finder;
    if (options_.on_improvement) options_.on_improvement(makespan_, finder_);
  }

  // Nothing when it is late before the order is there.
  std::vector<uint32_t> Order(std::string_view name) const {
    if (name != "unsafe" && name != "unsafe_bytes") return OrderByName(sequential_, name);
    std::vector<int64_t> weight(problem_.size(), 0);
    const bool bytes = name == "unsafe_bytes";
    for (const Member& member : problem_.members) {
      if (Late()) return {};
      const auto row = problem_.unsafe->Row(member.storage);
      for (uint32_t w = 0; w < row.size(); ++w) {
        for (uint64_t bits = row[w]; bits != 0; bits &= bits - 1) {
          const uint32_t other = w * 64 + static_cast<uint32_t>(std::countr_zero(bits));
          weight[member.block] += bytes ? flow_.storages[other].bytes : 1;
        }
      }
    }
    std::vector<uint32_t> order(problem_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (weight[a] != weight[b]) return weight[a] > weight[b];
      return problem_.blocks[a].size > problem_.blocks[b].size;
    });
    return order;
  }

  void Construct(FitKind fit, std::string_view order, std::string_view name, bool objects) {
    const std::vector<uint32_t> blocks = Order(order);
    if (blocks.empty()) return;
    const auto late = [&] { return Late(); };
    Offer(objects ? PlaceInObjects(problem_, blocks, fit, late)
                  : PlaceBlocks(problem_, blocks, fit, INT64_MAX, late),
          name);
  }

  void Bump() {
    BlockOffsets offsets(problem_.size());
    int64_t end = 0;
    for (const Block& block : problem_.blocks) {
      if (block.fixed != kFree) end = std::max(end, block.fixed + block.size);
    }
    for (uint32_t b = 0; b < problem_.size(); ++b) {
      const Block& block = problem_.blocks[b];
      offsets[b] = block.fixed;
      if (block.fixed != kFree) continue;
      const int64_t past = (end - block.remainder) & (block.alignment - 1);
      offsets[b] = past == 0 ? end : end + block.alignment - past;
      end = offsets[b] + block.size;
    }
    Offer(std::move(offsets), "bump");
  }

  // Drawn orders, each placed by first fit or best fit until it is worse than the record.
  void Sample(int64_t attempts) {
    if (!sampler_) sampler_.emplace(sequential_);
    for (int64_t i = 0; i < attempts && !Done() && !OutOfTime(); ++i) {
      Random random(options_.seed, static_cast<uint64_t>(sampled_++));
      const std::vector<uint32_t> order = sampler_->Draw(random);
      const FitKind fit = random.Below(4) == 0 ? FitKind::kBest : FitKind::kFirst;
      Offer(PlaceBlocks(problem_, order, fit, makespan_, [&] { return OutOfTime(); }),
            "sampled_orders");
    }
  }

  // The best placement, lowest first, as an order whose blocks at the top change places with blocks
  // that they conflict with.
  void Climb(int64_t rounds) {
    if (climbed_.empty()) {
      climbed_ = Order("size");
      climb_offsets_ =
          PlaceBlocks(problem_, climbed_, FitKind::kFirst, INT64_MAX, [&] { return Cancelled(); });
      if (climb_offsets_.empty()) return climbed_.clear();
      Offer(climb_offsets_, "tvm_hill_climb");
    }
    Random random(options_.seed, 0x636c696d62 + climb_rounds_);
    int64_t height = MakespanOf(problem_, climb_offsets_);
    for (int64_t round = 1; round <= rounds && !Done() && !OutOfTime(); ++round, ++climb_rounds_) {
      const std::vector<uint32_t> before = climbed_;
      if (!Perturb(height, random)) continue;
      BlockOffsets next =
          PlaceBlocks(problem_, climbed_, FitKind::kFirst, INT64_MAX, [&] { return OutOfTime(); });
      if (next.empty()) {
        climbed_ = before;
        break;
      }
      const int64_t next_height = MakespanOf(problem_, next);
      const double rise = static_cast<double>(next_height - height) /
                          static_cast<double>(std::max<int64_t>(height, 1));
      const double heat = 0.02 * (1 - static_cast<double>(round) / static_cast<double>(rounds));
      if (next_height > height && random.Unit() >= ChanceOfRise(rise, heat)) {
        climbed_ = before;
        continue;
      }
      climb_offsets_ = std::move(next);
      height = next_height;
      Offer(climb_offsets_, "tvm_hill_climb");
    }
  }

  bool Perturb(int64_t height, Random& random) {
    std::vector<uint32_t> tops;
    for (uint32_t at = 0; at < climbed_.size(); ++at) {
      const Block& block = problem_.blocks[climbed_[at]];
      if (block.fixed == kFree && climb_offsets_[climbed_[at]] + block.size == height)
        tops.push_back(at);
    }
    if (tops.empty()) return false;
    const uint32_t at = tops[random.Below(tops.size())];
    std::vector<uint32_t> earlier;
    for (uint32_t i = 0; i < at; ++i) {
      if (InConflict(problem_, climbed_[i], climbed_[at])) earlier.push_back(i);
    }
    if (earlier.empty()) return false;
    const uint32_t to = earlier[random.Below(earlier.size())];
    // Moved in front of it, or changed with it.
    if (random.Below(2) == 0) {
      std::swap(climbed_[to], climbed_[at]);
    } else {
      std::rotate(climbed_.begin() + to, climbed_.begin() + at, climbed_.begin() + at + 1);
    }
    return true;
  }

  // The search has a list of conflicts for every block.
  static constexpr uint32_t kMostForExact = 1 << 13;

  void Exact() {
    if (problem_.size() > kMostForExact) return;
    const ExactOutcome outcome = SearchExactly(problem_, lower_bound_, makespan_,
                                               options_.iterations, [&] { return OutOfTime(); });
    if (!outcome.offsets.empty()) Offer(outcome.offsets, "exact_search");
    if (outcome.exhausted) lower_bound_ = std::max(lower_bound_, makespan_);
  }

  // What runs in sequence is an instance with lifetimes. A good plan of it, lowest first, is an
  // order in which few of the further conflicts push anything up.
  void FollowSequentialPlan() {
    Options options = options_;
    options.strategy = "auto";
    options.budget_seconds = std::min(1.0, options_.budget_seconds * 0.2);
    if (options_.iterations == 0) {
      options.budget_seconds =
          std::clamp(options_.budget_seconds - Seconds(), 0.0, options.budget_seconds);
    }
    options.on_improvement = nullptr;
    options.threads = 1;
    const absl::StatusOr<Plan> plan = Solve(instance_, options);
    if (!plan.ok()) return;
    std::vector<uint32_t> order(problem_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return plan->offsets[a] < plan->offsets[b]; });
    Offer(PlaceBlocks(problem_, order, FitKind::kFirst, INT64_MAX, [&] { return Late(); }),
          "sequential_plan");
  }

  void Auto() {
    constexpr std::string_view kFirst[] = {
        "somas_many_first",      "somas_single_first",         "somas_many_best",
        "first_fit_by_max_load", "first_fit_by_max_load_area", "first_fit_by_unsafe_bytes",
        "first_fit_by_breadth",  "first_fit_by_unsafe",        "first_fit_by_area",
        "first_fit_by_lifespan", "first_fit_by_birth",         "best_fit_by_size",
        "best_fit_by_breadth"};
    for (const std::string_view name : kFirst) {
      if (Done() || Late()) return;
      for (const Constructive& way : kConstructive) {
        if (way.name == name) Construct(way.fit, way.order, way.name, way.objects);
      }
    }
    if (Done() || Late()) return;
    FollowSequentialPlan();
    constexpr uint32_t kSmall = 60;
    if (!Done() && problem_.size() <= kSmall) {
      const int64_t nodes = options_.iterations > 0 ? options_.iterations * 1000 : 2'000'000;
      const ExactOutcome outcome =
          SearchExactly(problem_, lower_bound_, makespan_, nodes, [&] { return OutOfTime(); });
      if (!outcome.offsets.empty()) Offer(outcome.offsets, "exact_search");
      if (outcome.exhausted) lower_bound_ = std::max(lower_bound_, makespan_);
    }
    const int64_t rounds = options_.iterations > 0 ? options_.iterations : INT64_MAX;
    for (int64_t i = 0; i < rounds && !Done() && !OutOfTime(); ++i) {
      Sample(4);
      Climb(4);
    }
  }

  const PreparedGraph& flow_;
  const Options& options_;
  Clock::time_point start_;
  ConflictProblem problem_;
  Instance instance_;
  Problem sequential_;
  std::optional<OrderSampler> sampler_;
  int64_t sampled_ = 0;
  std::vector<uint32_t> climbed_;
  BlockOffsets climb_offsets_;
  uint64_t climb_rounds_ = 0;
  int64_t lower_bound_ = 0;
  int64_t makespan_ = 0;
  BlockOffsets best_;
  std::string finder_;
};

}  // namespace

bool TakesConflicts(std::string_view strategy) {
  for (const Constructive& way : kConstructive) {
    if (way.name == strategy) return true;
  }
  return std::find(std::begin(kImproving), std::end(kImproving), strategy) != std::end(kImproving);
}

const std::vector<StrategyInfo>& GraphStrategies() {
  static const std::vector<StrategyInfo>* const infos = new std::vector<StrategyInfo>{
      {"first_fit_by_breadth", "graphs: first fit by the load at birth (SOMAS, section 5.2)"},
      {"best_fit_by_breadth", "graphs: best fit by the load at birth (SOMAS, section 5.2)"},
      {"first_fit_by_unsafe", "graphs: first fit, the most unsafe pairs first (SOMAS, 5.2)"},
      {"best_fit_by_unsafe", "graphs: best fit, the most unsafe pairs first (SOMAS, 5.2)"},
      {"first_fit_by_unsafe_bytes", "graphs: first fit, the most bytes in unsafe pairs first"},
      {"best_fit_by_unsafe_bytes", "graphs: best fit, the most bytes in unsafe pairs first"},
  };
  return *infos;
}

absl::StatusOr<Placed> PlaceByConflicts(const PreparedGraph& flow, const PairSet& unsafe,
                                        const Options& options) {
  return Placer(flow, unsafe, options).Run();
}

}  // namespace reprise::planner::graph
