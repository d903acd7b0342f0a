#include "planner/search/sub_search.h"

#include <utility>

#include "planner/core/runs.h"

namespace reprise::planner {

Options SubSearch::OptionsFor(const Search& whole, int slice, uint64_t seed) {
  Options options = whole.options;
  options.seed = seed;
  options.iterations = slice;
  options.worst_case_fragmentation /= whole.problem.unit;
  options.on_improvement = nullptr;
  return options;
}

SubSearch::SubSearch(const Search& whole, Kernel kernel, int slice, uint64_t seed)
    : kernel_(std::move(kernel)),
      options_(OptionsFor(whole, slice, seed)),
      record_(options_, kernel_.problem, kernel_.problem.lower_bound),
      search_{kernel_.problem, options_, record_, whole.start, whole.threads, whole.check_seconds} {
  search_.RaiseBound(kernel_.problem.lower_bound);
  portfolio_ = std::make_unique<Portfolio>(search_);
}

void SubSearch::SetKnownBound(int64_t bound) {
  known_bound_ = (bound + kernel_.scale - 1) / kernel_.scale;
  search_.RaiseBound(known_bound_);
}

void SubSearch::StartFrom(const Incumbent& whole_record, const Addresses& whole) {
  Addresses addresses;
  for (const uint32_t j : kernel_.jobs) {
    if (whole[j] % kernel_.scale != 0) return RunSweepBestFit(search_, "sweep_best_fit");
    addresses.push_back(whole[j] / kernel_.scale);
  }
  const int64_t makespan = Makespan(kernel_.problem, addresses);
  record_.Offer(std::move(addresses), makespan, whole_record.finder(), 0);
}

Addresses SubSearch::Places() {
  Addresses places = record_.addresses();
  for (int64_t& place : places) place *= kernel_.scale;
  return places;
}

void SubSearch::CopyTo(Addresses& addresses) {
  for (size_t k = 0; k < kernel_.jobs.size(); ++k) {
    addresses[kernel_.jobs[k]] = record_.addresses()[k] * kernel_.scale;
  }
}

}  // namespace reprise::planner
