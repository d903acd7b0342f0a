#include "planner/parts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "planner/kernel.h"
#include "planner/portfolio.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

// Attempts at one part before the parts are compared again.
constexpr int kSlice = 64;

// Ranks of whole packings put together here; above those of any other attempt.
constexpr int64_t kFirstRank = int64_t{1} << 40;

// A part with a record of its own, in its own units.
class Part {
 public:
  Part(Search& whole, std::vector<uint32_t> jobs)
      : kernel_(MakeKernel(whole.problem, std::move(jobs))),
        options_(OptionsFor(whole, kernel_)),
        record_(options_, kernel_.problem, kernel_.problem.lower_bound),
        search_{kernel_.problem, options_, record_, whole.start, whole.threads} {
    // To end lower than the whole must reach is of no use.
    first_bound_ = std::max(kernel_.problem.lower_bound,
                            (whole.lower_bound + kernel_.scale - 1) / kernel_.scale);
    search_.RaiseBound(first_bound_);
    Addresses addresses;
    bool whole_units = true;
    for (const uint32_t j : kernel_.jobs) {
      const int64_t address = whole.record.addresses()[j];
      whole_units = whole_units && address % kernel_.scale == 0;
      addresses.push_back(address / kernel_.scale);
    }
    if (whole_units) {
      const int64_t makespan = Makespan(kernel_.problem, addresses);
      record_.Offer(std::move(addresses), makespan, whole.record.finder(), 0);
    } else {
      RunSweepBestFit(search_, "sweep_best_fit");
    }
    portfolio_ = std::make_unique<Portfolio>(search_);
  }

  int64_t makespan() const { return record_.makespan() * kernel_.scale; }
  bool done() const { return search_.Done(); }
  const std::string& finder() const { return record_.finder(); }

  void Improve() { portfolio_->Improve(Portfolio::KindsFor(kernel_.problem)); }

  // What no packing of the whole can go below, in its units, as far as the search has shown.
  int64_t Bound() const {
    return search_.lower_bound > first_bound_ ? search_.lower_bound * kernel_.scale : 0;
  }

  void CopyTo(Addresses& addresses) {
    for (size_t k = 0; k < kernel_.jobs.size(); ++k) {
      addresses[kernel_.jobs[k]] = record_.addresses()[k] * kernel_.scale;
    }
  }

 private:
  static Options OptionsFor(const Search& whole, const Kernel& kernel) {
    Options options = whole.options;
    options.iterations = kSlice;
    options.worst_case_fragmentation /= whole.problem.unit;
    options.on_improvement = nullptr;
    // The check of the whole comes after the last part.
    options.budget_seconds -=
        kCheckSeconds * (whole.problem.size() - static_cast<double>(kernel.jobs.size()));
    return options;
  }

  Kernel kernel_;
  Options options_;
  Record record_;
  Search search_;
  std::unique_ptr<Portfolio> portfolio_;
  int64_t first_bound_ = 0;
};

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
    parts[part_of[problem.jobs[j].lower]].push_back(j);
  }
  return parts;
}

bool ImproveParts(Search& search) {
  const std::vector<std::vector<uint32_t>> jobs = SplitAtZeroLoad(search.problem);
  if (jobs.size() < 2) return false;
  Addresses addresses = search.record.addresses();
  std::vector<int64_t> ends;  // of each part, in units of the whole
  for (const std::vector<uint32_t>& part : jobs) {
    int64_t end = 0;
    for (const uint32_t j : part) end = std::max(end, addresses[j] + search.problem.jobs[j].size);
    ends.push_back(end);
  }
  std::vector<std::unique_ptr<Part>> parts(jobs.size());
  const int64_t most = search.options.iterations > 0
                           ? search.options.iterations * static_cast<int64_t>(jobs.size()) / kSlice
                           : INT64_MAX;
  for (int64_t slice = 0; slice <= most && !search.Done() && !search.OutOfTime(); ++slice) {
    const size_t highest = std::max_element(ends.begin(), ends.end()) - ends.begin();
    std::unique_ptr<Part>& part = parts[highest];
    if (!part) part = std::make_unique<Part>(search, jobs[highest]);
    if (part->done()) break;
    part->Improve();
    search.RaiseBound(part->Bound());
    if (part->makespan() >= ends[highest]) continue;
    ends[highest] = part->makespan();
    part->CopyTo(addresses);
    search.record.Offer(Addresses(addresses), Makespan(search.problem, addresses), part->finder(),
                        kFirstRank + slice);
  }
  return true;
}

}  // namespace reprise::planner
