#include "planner/search/layers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "planner/search/kernel.h"
#include "planner/search/peak_recipe.h"

namespace reprise::planner {
namespace {

using Kind = Portfolio::Kind;

// Jobs in a layer. The outermost has an eighth of all, or the most; each of the next ones a third.
constexpr size_t kMostInLayer = 12'000;
constexpr size_t kLeastInLayer = 64;
constexpr size_t kDeciding = 3;

// To find how high the load is around the peak where a layer ends.
constexpr int kHalvings = 12;

// Attempts in a turn, times jobs: all layers get about the same time, and a turn is over soon.
constexpr int64_t kWork = 1'600'000;
constexpr int64_t kMostAttempts = 1024;

// Jobs in the whole: with more there is no time for both ways.
constexpr uint32_t kMostForBoth = 200'000;

// Jobs in a layer that may be packed from nothing while a turn lasts.
constexpr uint32_t kMostLayerFromNothing = 1000;

// Peak sweeps for each ejection search in larger ones: those take that much longer.
constexpr size_t kSweepsPerLayerSearch = 63;

int64_t AttemptsAt(size_t jobs) {
  return std::clamp<int64_t>(kWork / static_cast<int64_t>(jobs), 1, kMostAttempts);
}

// Valley searches end the smallest at their bound, sweeps pack all others anew, and ejection
// searches mend what the layer within has brought.
std::vector<Kind> KindsFor(const Problem& layer) {
  if (layer.size() <= kMostLayerFromNothing) {
    return {Kind::kPeakSweep, Kind::kValley, Kind::kEjection,      Kind::kValley,
            Kind::kPeakSweep, Kind::kValley, Kind::kValleyRelaxed, Kind::kValley};
  }
  std::vector<Kind> kinds(kSweepsPerLayerSearch, Kind::kPeakSweep);
  kinds.push_back(Kind::kEjection);
  return kinds;
}

}  // namespace

// What is swept around others pays for it out of slack, and a heap that stays full has none.
Layers::Layers(Search& search, Portfolio& portfolio, std::vector<Kind> kinds)
    : search_(search), portfolio_(portfolio), kinds_(std::move(kinds)) {
  const Problem& problem = search.problem;
  if (!problem.plain || Portfolio::SuitsValleySearch(problem) || StaysFull(problem)) return;
  const size_t most = std::min<size_t>(problem.size() / 8, kMostInLayer);
  Add(By::kLoad, most);
  if (!Applicable() || problem.size() <= kMostForBoth) Add(By::kSize, most);
}

Layers::Layers(Search& search, Portfolio& portfolio, std::vector<Kind> kinds, By by, size_t most)
    : search_(search), portfolio_(portfolio), kinds_(std::move(kinds)) {
  Add(by, most);
}

// Those that see as much as `high`, but not all of the time from when there is first so much to
// when there is last: what lives throughout lies above them in any order. No more than one above
// `most`.
std::vector<uint32_t> Layers::JobsAtLoad(int64_t high, size_t most) const {
  const Problem& problem = search_.problem;
  struct Stretch {
    uint32_t lower;
    uint32_t upper;
  };
  std::vector<Stretch> stretches;
  for (uint32_t s = 0; s < problem.sections; ++s) {
    if (problem.load[s] < high) continue;
    if (stretches.empty() || stretches.back().upper < s) stretches.push_back({s, s});
    stretches.back().upper = s + 1;
  }
  std::vector<uint32_t> jobs;
  for (uint32_t j = 0; j < problem.size() && jobs.size() <= most; ++j) {
    const Job& job = problem.jobs[j];
    if (job.lower <= stretches.front().lower && stretches.back().upper <= job.upper) continue;
    const auto next =
        std::partition_point(stretches.begin(), stretches.end(),
                             [&](const Stretch& stretch) { return stretch.upper <= job.lower; });
    if (next != stretches.end() && next->lower < job.upper) jobs.push_back(j);
  }
  return jobs;
}

// As much of the time around the peak as makes so many jobs at most.
std::vector<uint32_t> Layers::FindByLoad(size_t most) const {
  int64_t high = search_.problem.max_load;
  int64_t too_low = 0;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const int64_t middle = too_low + (high - too_low) / 2;
    (JobsAtLoad(middle, most).size() > most ? too_low : high) = middle;
  }
  return JobsAtLoad(high, most);
}

// Those of one size are all among them or none is.
std::vector<uint32_t> Layers::FindLargest(size_t most) const {
  const Problem& problem = search_.problem;
  std::vector<int64_t> sizes;
  sizes.reserve(problem.size());
  for (const Job& job : problem.jobs) sizes.push_back(job.size);
  const auto border = sizes.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(sizes.begin(), border, sizes.end(), std::greater<>());
  std::vector<uint32_t> jobs;
  for (uint32_t j = 0; j < problem.size(); ++j) {
    if (problem.jobs[j].size > *border) jobs.push_back(j);
  }
  return jobs;
}

// At most so many jobs, if that is of use.
void Layers::Add(By by, size_t most) {
  const Problem& problem = search_.problem;
  if (most < kLeastInLayer) return;
  Layer layer;
  layer.by = by;
  layer.jobs = by == By::kLoad ? FindByLoad(most) : FindLargest(most);
  layer.rest = problem.max_load;
  const auto peak = static_cast<uint32_t>(
      std::max_element(problem.load.begin(), problem.load.end()) - problem.load.begin());
  for (const uint32_t j : layer.jobs) {
    const Job& job = problem.jobs[j];
    if (job.lower <= peak && peak < job.upper) layer.rest -= job.size;
  }
  if (layer.jobs.empty() || layer.jobs.size() > most) return;
  if (by == By::kSize && layer.rest > problem.max_load / 3) return;
  layers_.push_back(std::move(layer));
}

void Layers::ImproveLayer(Layer& layer) {
  if (!layer.packing) {
    layer.packing = std::make_unique<SubSearch>(search_, MakeKernel(search_.problem, layer.jobs),
                                                AttemptsAt(layer.jobs.size()),
                                                search_.options.seed + layer.packings);
    ++layer.packings;
    layer.packing->portfolio().TryPeakSweeps(0, kPeakRecipes);
    Search& search = layer.packing->search();
    layer.within.reset(new Layers(search, layer.packing->portfolio(), KindsFor(search.problem),
                                  layer.by, layer.jobs.size() / kDeciding));
    layer.swept = INT64_MAX;
  }
  layer.within->Turn(AttemptsAt(layer.jobs.size()));
  // It leaves no gaps at its peak, so the others lie above it there.
  const int64_t makespan = layer.packing->makespan();
  if (makespan < layer.swept && makespan + layer.rest < search_.incumbent.makespan()) {
    layer.swept = makespan;
    portfolio_.SweepAround(layer.jobs, layer.packing->Places());
  }
  if (!layer.packing->done()) return;
  layer.within.reset();  // others that are as good may leave better room
  layer.packing.reset();
}

void Layers::Turn(int64_t attempts) {
  for (Layer& layer : layers_) {
    if (!search_.Done() && !search_.OutOfTime()) ImproveLayer(layer);
  }
  portfolio_.Improve(kinds_, attempts);
}

void Layers::Improve() {
  if (!Applicable()) return portfolio_.Improve(kinds_);
  const int64_t iterations = search_.options.iterations;
  const int64_t most = iterations > 0 ? iterations : INT64_MAX;
  const int64_t slice = AttemptsAt(search_.problem.size());
  for (int64_t done = 0; done < most && !search_.Done() && !search_.OutOfTime(); done += slice) {
    Turn(std::min(slice, most - done));
  }
}

}  // namespace reprise::planner
