#include <algorithm>
#include <vector>

#include "planner/core/runs.h"
#include "planner/search/layers.h"
#include "planner/search/parts.h"
#include "planner/search/peak_recipe.h"
#include "planner/search/portfolio.h"

namespace reprise::planner {

using Kind = Portfolio::Kind;

namespace {

// Above this a placement in an arbitrary order takes seconds, a sweep over time still tenths.
constexpr uint32_t kLarge = 200'000;
// Above this it is out of the question.
constexpr uint32_t kHuge = 3'000'000;

// With more, a turn of the layers takes as long as many sweeps of the whole, which mostly find
// more, and their tables take more memory than is to be had for a million.
constexpr uint32_t kMostForLayers = 800'000;

// Decisions that count as an iteration of the exact search.
constexpr int64_t kNodesPerIteration = 10'000;

// Standard peak sweeps that come before everything else where orders are cheap, too.
constexpr int kQuickSweeps = 10;

bool SweepsAreOfUse(const Search& search) {
  const int64_t max_load = search.problem.max_load;
  return search.incumbent.makespan() - max_load <= max_load / 20;
}

// Orders waste percents of a heap that stays full.
bool SweepsWillDo(const Search& search) {
  const Problem& problem = search.problem;
  return problem.plain && !Portfolio::SuitsValleySearch(problem) && StaysFull(problem) &&
         SweepsAreOfUse(search);
}

}  // namespace

void RunAuto(Search& search, const std::string&) {
  const Problem& problem = search.problem;
  Portfolio portfolio(search);
  if (problem.size() == 0) return RunBump(search, "bump");
  if (problem.fixed.empty() && problem.size() > kLarge) {
    portfolio.TryPeakSweeps(0, kQuickSweeps);
    if (search.incumbent.makespan() == INT64_MAX || search.Done()) return;  // or no time for them
    if (problem.size() <= kMostForLayers) {
      Layers layers(search, portfolio, {Kind::kPeakSweep});
      if (layers.Applicable()) return layers.Improve();
    }
    portfolio.TryPeakSweeps(kQuickSweeps, kPeakRecipes);
    // Orders cost ten times the time and memory of a sweep.
    if (!SweepsAreOfUse(search) && problem.size() <= kHuge) {
      portfolio.TryOrders({{Fit::kFirst, "size"}, {Fit::kFirst, "max_load"}});
    }
    portfolio.Improve({Kind::kPeakSweep});
    return;
  }
  if (problem.fixed.empty()) {
    RunSweepBestFit(search, "sweep_best_fit");
    if (search.Done()) return;
    portfolio.TryPeakSweeps(0, kQuickSweeps);
  } else {
    RunFirstFitInOrder(search, "first_fit_by_max_load");
  }
  if (search.Done()) return;
  if (SweepsWillDo(search)) {
    portfolio.TryPeakSweeps(kQuickSweeps, kPeakRecipes);
  } else {
    portfolio.TryOrders({{Fit::kFirst, "max_load"},
                         {Fit::kFirst, "size"},
                         {Fit::kFirst, "area"},
                         {Fit::kFirst, "max_load_latest"},
                         {Fit::kFirst, "max_load_earliest"},
                         {Fit::kFirst, "max_load_area"},
                         {Fit::kFirst, "lifespan"},
                         {Fit::kBest, "max_load"},
                         {Fit::kBest, "size"},
                         {Fit::kBest, "area"}});
  }
  if (!problem.instance->alignments.empty()) {
    portfolio.TryPeakSweeps(kQuickSweeps, kPeakRecipes);
    portfolio.TryOrders({{Fit::kFirst, "alignment"}, {Fit::kBest, "alignment"}});
  }
  if (!problem.plain) return ImproveByCopy(search, portfolio);
  if (ImproveParts(search)) return;
  Layers(search, portfolio, Portfolio::KindsFor(problem)).Improve();
}

void RunIdealloc(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  // Boxing knows no gaps, addresses or alignments: it makes an order for first fit, which keeps
  // them. What never occupies anything fits into no box.
  const std::vector<Job>& jobs = search.problem.jobs;
  const bool all_live =
      std::all_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.lower < job.upper; });
  if (jobs.empty() || !all_live) return;
  // Optimal when all sizes are the same or nothing overlaps (section 2.1), quick otherwise.
  if (search.problem.plain) RunSweepBestFit(search, "sweep_best_fit");
  portfolio.Improve({Kind::kBoxing});
}

void RunSampledOrders(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  portfolio.Improve({Kind::kSampleFirstFit, Kind::kSampleBestFit});
}

// One search without restarts after the other, each for something better than the last found, until
// one ends without a packing: then the last is optimal.
void RunExactSearch(Search& search, const std::string& name) {
  RunFirstFitInOrder(search, "first_fit_by_size");
  if (search.problem.sections == 0 || search.incumbent.makespan() == INT64_MAX) return;
  ValleySearch valley(search.problem);
  const int64_t iterations = search.options.iterations;
  const int64_t nodes =
      iterations > 0 ? std::min(iterations, INT64_MAX / kNodesPerIteration) * kNodesPerIteration
                     : INT64_MAX;
  for (int64_t rank = 1; !search.Done() && !search.OutOfTime(); ++rank) {
    const int64_t capacity = search.incumbent.makespan() - 1;
    Random random(search.options.seed, rank);
    const auto outcome = valley.Run(capacity, random, nodes, [&] { return search.OutOfTime(); });
    if (outcome == ValleySearch::Outcome::kImpossible) search.RaiseBound(capacity + 1);
    if (outcome != ValleySearch::Outcome::kFound) return;
    Addresses addresses = valley.addresses();
    const int64_t makespan = Makespan(search.problem, addresses);
    search.incumbent.Offer(std::move(addresses), makespan, name, rank);
  }
}

void RunKernelFirst(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  if (!search.problem.plain || search.problem.size() == 0) return;
  portfolio.Improve({Kind::kKernel});
}

void RunValleySearch(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  if (!Portfolio::SuitsValleySearch(search.problem)) return;
  portfolio.Improve({Kind::kValley, Kind::kValleyRelaxed});
}

void RunBeamSearch(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  if (search.problem.size() == 0 || !Portfolio::SuitsBeamSearch(search.problem)) return;
  portfolio.Improve({Kind::kBeam});
}

void RunEjectionSearch(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders(
      {{Fit::kFirst, "size"}, {Fit::kFirst, "lifespan"}, {Fit::kFirst, "max_load"}});
  if (search.problem.sections == 0) return;
  portfolio.Improve({Kind::kEjection});
}

void RunPeakSweep(Search& search, const std::string&) {
  if (search.problem.size() == 0) return RunBump(search, "bump");
  Portfolio portfolio(search);
  portfolio.TryPeakSweeps(0, kPeakRecipes);
  portfolio.Improve({Portfolio::Kind::kPeakSweep});
}

}  // namespace reprise::planner
