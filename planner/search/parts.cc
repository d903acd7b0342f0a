#include "planner/search/parts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "planner/search/kernel.h"
#include "planner/search/layers.h"
#include "planner/search/portfolio.h"
#include "planner/search/sub_search.h"

namespace reprise::planner {
namespace {

// Attempts at one part before the parts are compared again.
constexpr int kSlice = 64;

// Attempts at a plain copy, or at what it was made from, before it is the other's turn.
constexpr int kCopySlice = 32;

// Every so many turns of a copy with the same bound are one of what it was made from.
constexpr int kOwnTurn = 4;

// Peak sweeps of a plain copy before anything else.
constexpr int kCopySweeps = 5;

// Ranks of whole packings put together here; above those of any other attempt.
constexpr int64_t kFirstRank = int64_t{1} << 40;

}  // namespace

std::vector<std::vector<uint32_t>> SplitAtZeroLoad(const Problem& problem) {
  // How far the jobs reach that are born before a section.
  std::vector<uint32_t> reach(problem.sections + 1);
  for (const Job& job : problem.jobs) {
    reach[job.lower + 1] = std::max(reach[job.lower + 1], job.upper);
  }
  std::vector<uint32_t> part_of(problem.sections);
  uint32_t last = 0;
  for (uint32_t s = 0; s < problem.sections; ++s) {
    if (s > 0 && reach[s] <= s) ++last;
    part_of[s] = last;
    reach[s + 1] = std::max(reach[s], reach[s + 1]);
  }
  std::vector<std::vector<uint32_t>> parts(problem.sections == 0 ? 0 : last + 1);
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const Job& job = problem.jobs[j];
    if (job.lower < job.upper) parts[part_of[job.lower]].push_back(j);
  }
  return parts;
}

bool ImproveParts(Search& search) {
  const std::vector<std::vector<uint32_t>> jobs = SplitAtZeroLoad(search.problem);
  if (jobs.size() < 2) return false;
  Addresses addresses = search.incumbent.addresses();
  std::vector<int64_t> ends;  // of each part, in units of the whole
  for (const std::vector<uint32_t>& part : jobs) {
    int64_t end = 0;
    for (const uint32_t j : part) end = std::max(end, addresses[j] + search.problem.jobs[j].size);
    ends.push_back(end);
  }
  struct Part {
    std::unique_ptr<SubSearch> sub;
    std::unique_ptr<Layers> layers;
  };
  std::vector<Part> parts(jobs.size());
  const int64_t most = search.options.iterations > 0
                           ? search.options.iterations * static_cast<int64_t>(jobs.size()) / kSlice
                           : INT64_MAX;
  for (int64_t slice = 0; slice <= most && !search.Done() && !search.OutOfTime(); ++slice) {
    const size_t highest = std::max_element(ends.begin(), ends.end()) - ends.begin();
    auto& [part, layers] = parts[highest];
    if (!part) {
      part = std::make_unique<SubSearch>(search, MakeKernel(search.problem, jobs[highest]), kSlice,
                                         search.options.seed);
      part->SetKnownBound(search.lower_bound);
      part->StartFrom(search.incumbent, addresses);
      layers = std::make_unique<Layers>(part->search(), part->portfolio(),
                                        Portfolio::KindsFor(part->search().problem));
    }
    if (part->done()) break;
    layers->Improve();
    search.RaiseBound(part->NewBound());
    if (part->makespan() >= ends[highest]) continue;
    ends[highest] = part->makespan();
    part->CopyTo(addresses);
    search.incumbent.Offer(Addresses(addresses), Makespan(search.problem, addresses),
                           part->finder(), kFirstRank + slice);
  }
  return true;
}

void ImproveByCopy(Search& search, Portfolio& portfolio) {
  const Problem& problem = search.problem;
  std::vector<uint32_t> jobs;
  for (uint32_t j = 0; j < problem.size(); ++j) {
    if (problem.jobs[j].lower < problem.jobs[j].upper) jobs.push_back(j);
  }
  if (jobs.empty()) return portfolio.Improve(Portfolio::KindsFor(problem));
  SubSearch copy(search, MakeKernel(problem, jobs, false), kCopySlice, search.options.seed);
  copy.portfolio().TryOrders({{Fit::kFirst, "size"}, {Fit::kFirst, "max_load"}});
  copy.portfolio().TryPeakSweeps(0, kCopySweeps);
  const int64_t most =
      search.options.iterations > 0 ? search.options.iterations / kCopySlice : INT64_MAX;
  int64_t squeezed = INT64_MAX;
  for (int64_t slice = 0; slice <= most && !search.Done() && !search.OutOfTime(); ++slice) {
    if (copy.makespan() < squeezed) {
      squeezed = copy.makespan();
      Addresses addresses(problem.size(), INT64_MAX);  // what never occupies anything comes last
      copy.CopyTo(addresses);
      portfolio.Squeeze(addresses, copy.finder());
    }
    // Searches know given addresses as well as the copy does without them. Where gaps lower the
    // bound the copy is soon of no use; where they do not, it is the easier.
    if (problem.solid || copy.done() || copy.Bound() >= search.incumbent.makespan()) break;
    copy.Improve();
    if (copy.Bound() > search.lower_bound || slice % kOwnTurn == 0) {
      portfolio.Improve(Portfolio::KindsFor(problem), kCopySlice);
    }
  }
  if (Portfolio::SuitsValleySearch(problem) && ImproveParts(search)) return;
  portfolio.Improve(Portfolio::KindsFor(problem));
}

}  // namespace reprise::planner
