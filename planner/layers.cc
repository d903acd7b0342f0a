#include "planner/layers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "planner/kernel.h"
#include "planner/peak_sweep.h"

namespace reprise::planner {
namespace {

using Kind = Portfolio::Kind;

// Jobs in a layer. The outermost has an eighth of all, or the most; each of the next ones half as
// many.
constexpr size_t kMostInLayer = 16'384;
constexpr size_t kLeastInLayer = 64;

// Attempts in a turn, times jobs: all layers get about the same time, and a turn is over soon.
constexpr int64_t kWork = 400'000;
constexpr int64_t kMostAttempts = 256;

// Standard peak sweeps that a packing of the largest begins with.
constexpr int kFirstSweeps = 5;

// Peak sweeps for each ejection search where those take long.
constexpr size_t kSweepsPerSearch = 15;

int64_t AttemptsAt(size_t jobs) {
  return std::clamp<int64_t>(kWork / static_cast<int64_t>(jobs), 1, kMostAttempts);
}

// Sweeps pack them anew, ejection searches mend what the layer within has brought.
std::vector<Kind> KindsFor(const Problem& layer) {
  if (Portfolio::SuitsValleySearch(layer)) {
    return {Kind::kPeakSweep, Kind::kEjection, Kind::kPeakSweep, Kind::kValley,
            Kind::kPeakSweep, Kind::kEjection, Kind::kPeakSweep, Kind::kValleyRelaxed};
  }
  std::vector<Kind> kinds(kSweepsPerSearch, Kind::kPeakSweep);
  kinds.push_back(Kind::kEjection);
  return kinds;
}

}  // namespace

// What is swept around others pays for it out of slack, and a heap that stays full has none.
Layers::Layers(Search& search, Portfolio& portfolio, std::vector<Kind> kinds)
    : search_(search), portfolio_(portfolio), kinds_(std::move(kinds)) {
  const Problem& problem = search.problem;
  if (!problem.plain || Portfolio::SuitsValleySearch(problem) || StaysFull(problem)) return;
  FindLargest(std::min<size_t>(problem.size() / 8, kMostInLayer));
}

Layers::Layers(Search& search, Portfolio& portfolio, std::vector<Kind> kinds, size_t most)
    : search_(search), portfolio_(portfolio), kinds_(std::move(kinds)) {
  FindLargest(most);
}

// At most so many; those of one size are all among them or none is.
void Layers::FindLargest(size_t most) {
  const Problem& problem = search_.problem;
  if (most < kLeastInLayer) return;
  std::vector<int64_t> sizes;
  sizes.reserve(problem.size());
  for (const Job& job : problem.jobs) sizes.push_back(job.size);
  const auto border = sizes.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(sizes.begin(), border, sizes.end(), std::greater<>());
  const auto peak = static_cast<uint32_t>(
      std::max_element(problem.load.begin(), problem.load.end()) - problem.load.begin());
  rest_ = problem.max_load;
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const Job& job = problem.jobs[j];
    if (job.size <= *border) continue;
    largest_.push_back(j);
    if (job.lower <= peak && peak < job.upper) rest_ -= job.size;
  }
  if (rest_ > problem.max_load / 3) largest_.clear();
}

void Layers::ImproveLargest() {
  if (!packing_) {
    packing_ =
        std::make_unique<SubSearch>(search_, MakeKernel(search_.problem, largest_),
                                    AttemptsAt(largest_.size()), search_.options.seed + packings_);
    ++packings_;
    packing_->portfolio().TryPeakSweeps(0, kFirstSweeps);
    Search& search = packing_->search();
    layers_.reset(
        new Layers(search, packing_->portfolio(), KindsFor(search.problem), largest_.size() / 2));
    swept_ = INT64_MAX;
  }
  layers_->Turn(AttemptsAt(largest_.size()));
  // It leaves no gaps at its peak, so the others lie above it there.
  const int64_t makespan = packing_->makespan();
  if (makespan < swept_ && makespan + rest_ < search_.record.makespan()) {
    swept_ = makespan;
    portfolio_.SweepAround(largest_, packing_->Places());
  }
  if (!packing_->done()) return;
  layers_.reset();  // others that are as good may leave better room
  packing_.reset();
}

void Layers::Turn(int64_t attempts) {
  if (OfUse()) ImproveLargest();
  portfolio_.Improve(kinds_, attempts);
}

void Layers::Improve() {
  if (!OfUse()) return portfolio_.Improve(kinds_);
  const int64_t iterations = search_.options.iterations;
  const int64_t most = iterations > 0 ? iterations : INT64_MAX;
  const int64_t slice = AttemptsAt(search_.problem.size());
  for (int64_t done = 0; done < most && !search_.Done() && !search_.OutOfTime(); done += slice) {
    Turn(std::min(slice, most - done));
  }
}

}  // namespace reprise::planner
