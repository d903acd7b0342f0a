#include "planner/solve.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "planner/core/bounds.h"
#include "planner/core/check.h"
#include "planner/core/flat_curve.h"
#include "planner/core/runs.h"
#include "planner/solve_unchecked.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

// Fixed offsets may contradict each other; no plan can mend that.
absl::Status CheckFixed(const Instance& instance, const Problem& problem, const BufferName& name) {
  if (problem.fixed.size() < 2) return absl::OkStatus();
  Instance part;
  part.alignment = instance.alignment;
  std::vector<int64_t> offsets;
  std::vector<uint32_t> part_of(instance.buffers.size(), ~uint32_t{0});
  for (const uint32_t i : problem.fixed) {
    part_of[i] = static_cast<uint32_t>(offsets.size());
    part.buffers.push_back(instance.buffers[i]);
    offsets.push_back(instance.fixed_offsets[i]);
  }
  for (Gap gap : instance.gaps) {
    gap.buffer = part_of[gap.buffer];
    if (gap.buffer != ~uint32_t{0}) part.gaps.push_back(gap);
  }
  part.start_address = instance.start_address;
  const CheckResult result = Check(part, offsets, 64);
  for (const Violation& violation : result.violations) {
    if (violation.kind != Violation::Kind::kOverlap) continue;
    const uint32_t a = problem.fixed[violation.first];
    const uint32_t b = problem.fixed[violation.second];
    return absl::InvalidArgumentError(absl::StrCat("the fixed offsets of ", NameOf(a, name),
                                                   " and ", NameOf(b, name), " overlap"));
  }
  return absl::OkStatus();
}

absl::Status DoesNotFit(int64_t capacity, const Plan& plan) {
  if (plan.lower_bound > capacity) {
    return absl::ResourceExhaustedError(
        absl::StrCat("does not fit into ", base::Counted(static_cast<uint64_t>(capacity), "byte"),
                     ": at least ", plan.lower_bound, " needed"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "does not fit into ", base::Counted(static_cast<uint64_t>(capacity), "byte"), ": at least ",
      plan.lower_bound, " needed, ", plan.makespan, " with the best plan found"));
}

}  // namespace

const std::vector<StrategyInfo>& Strategies() {
  static const std::vector<StrategyInfo>* const infos = [] {
    auto* list = new std::vector<StrategyInfo>;
    for (const Strategy& strategy : AllStrategies()) list->push_back(strategy.info);
    return list;
  }();
  return *infos;
}

absl::StatusOr<Plan> SolveUnchecked(const Instance& instance, const Options& given) {
  FlatCurve curve(given);
  const Options& options = curve.options();
  const auto start = std::chrono::steady_clock::now();
  if (const absl::Status status = Validate(instance, options.name); !status.ok()) return status;
  const Strategy* strategy = FindStrategy(options.strategy);
  if (strategy == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("there is no strategy '", options.strategy,
                                                   "' (`list` prints those there are)"));
  }
  const Problem problem = MakeProblem(instance);
  if (absl::Status status = CheckFixed(instance, problem, options.name); !status.ok()) {
    return status;
  }

  Plan plan;
  plan.seed = options.seed;
  plan.max_load = problem.max_load * problem.unit;
  plan.lower_bound = problem.ToBytes(problem.lower_bound);
  if (instance.capacity && plan.lower_bound > *instance.capacity) {
    return DoesNotFit(*instance.capacity, plan);
  }

  Incumbent incumbent(options, problem, problem.lower_bound);
  Search search{problem, options, incumbent, start};
  // Both are a few sorts; how fast the machine's memory is shows in the first.
  search.check_seconds = 1.5 * search.seconds();
  search.RaiseBound(problem.lower_bound);
  search.threads = options.threads > 0
                       ? options.threads
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (!problem.plain) {
    search.RaiseBound(HoleBound(problem));
    search.RaiseBound(AlignmentBound(problem));
  }
  const auto late = [&] { return search.OutOfTime(); };
  const bool places_once = PlacesOnce(*strategy);
  if (!problem.plain && !places_once) search.RaiseBound(CliqueBound(problem, late));
  if (strategy->plain_only && !problem.plain) strategy = FindStrategy("best_fit_by_birth");
  curve.Watch(problem.ToBytes(search.lower_bound));
  strategy->run(search, std::string(strategy->info.name));
  curve.End();
  // Of a plan that is there it only says how good it is: a little work is enough.
  if (places_once && !search.Done()) {
    search.RaiseBound(CliqueBound(problem, late, kBoundWork / 30));
  }
  if (incumbent.makespan() == INT64_MAX) {
    // Out of time or cancelled before there was anything: what is quickest.
    if (problem.fixed.empty()) {
      RunSweepBestFit(search, "sweep_best_fit");
    } else {
      RunBump(search, "bump");
    }
  }

  plan.offsets = std::move(incumbent.addresses());
  for (int64_t& offset : plan.offsets) offset = problem.base + offset * problem.unit;
  plan.makespan = problem.ToBytes(incumbent.makespan());
  if (options.strategy == "auto") {
    plan.strategy = absl::StrCat("auto:", incumbent.finder());
  } else {
    plan.strategy =
        incumbent.finder() == strategy->info.name ? options.strategy : incumbent.finder();
  }
  plan.lower_bound = problem.ToBytes(search.lower_bound);
  plan.proven_optimal = plan.makespan == plan.lower_bound;

  if (instance.capacity && plan.makespan > *instance.capacity) {
    return DoesNotFit(*instance.capacity, plan);
  }
  plan.seconds = search.seconds();
  return plan;
}

absl::StatusOr<Plan> Solve(const Instance& instance, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Plan> plan = SolveUnchecked(instance, options);
  if (!plan.ok()) return plan;
  const CheckResult check = Check(instance, plan->offsets, 1);
  if (!check.valid || check.makespan != plan->makespan || check.max_load != plan->max_load) {
    return absl::InternalError(
        absl::StrCat("strategy '", plan->strategy, "' made an invalid plan: ",
                     check.violations.empty()
                         ? absl::StrCat("makespan ", check.makespan, " is not ", plan->makespan)
                         : Describe(check.violations[0], instance, plan->offsets, options.name)));
  }
  plan->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

int64_t MaxLoad(const Instance& instance) {
  const Problem problem = MakeProblem(instance);
  return problem.max_load * problem.unit;
}

}  // namespace reprise::planner
