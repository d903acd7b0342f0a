// SOMAS (Lamprou et al., MLSys 2023, section 4, algorithms 6, 7 and 10): Single Object places
// blocks by decreasing size in one memory; Many Objects cuts memory into objects, each as large as
// the block it was made for, and a block must lie within one of them.
#include <algorithm>

#include "planner/core/order.h"
#include "planner/core/runs.h"
#include "planner/placement/fit.h"

namespace reprise::planner {
namespace {

class Objects {
 public:
  explicit Objects(int64_t end) : end_(end) {
    if (end > 0) starts_.push_back(0);
  }

  int64_t end() const { return end_; }

  // The end of the object that holds `address`, which is below end().
  int64_t EndOf(int64_t address) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), address);
    return next == starts_.end() ? end_ : *next;
  }

  void Add(int64_t start, int64_t end) {
    starts_.push_back(start);
    end_ = end;
  }

 private:
  std::vector<int64_t> starts_;
  int64_t end_;
};

void RunManyObjects(Search& search, const std::string& name, Fit fit) {
  const Problem& problem = search.problem;
  Occupancy occupancy(problem);
  Addresses addresses(problem.size(), -1);
  int64_t fixed_end = 0;
  for (const uint32_t job : problem.fixed) {
    addresses[job] = problem.fixed_address(job);
    occupancy.Place(job, addresses[job]);
    fixed_end = std::max(fixed_end, addresses[job] + problem.jobs[job].size);
  }
  Objects objects(fixed_end);
  uint32_t steps = 0;
  for (const uint32_t job : OrderByName(problem, "size")) {
    if (addresses[job] >= 0) continue;
    if ((++steps & 255) == 0 && search.TooLate()) return;
    const int64_t size = problem.jobs[job].size;
    int64_t address = occupancy.FirstFit(job);
    // A place that reaches over the end of its object is none: on to the next object.
    while (address < objects.end() && address + size > objects.EndOf(address)) {
      address = occupancy.FirstFitAgain(job, objects.EndOf(address), INT64_MAX);
    }
    if (address < objects.end()) {
      if (fit == Fit::kBest) {
        address = occupancy.BestFitWithin(job, address, objects.EndOf(address));
      }
    } else {
      address = occupancy.FirstFitAgain(job, objects.end(), INT64_MAX);
      objects.Add(objects.end(), address + size);
    }
    addresses[job] = address;
    occupancy.Place(job, address);
  }
  const int64_t makespan = Makespan(problem, addresses);
  search.incumbent.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace

void RunSomasManyFirst(Search& search, const std::string& name) {
  RunManyObjects(search, name, Fit::kFirst);
}

void RunSomasManyBest(Search& search, const std::string& name) {
  RunManyObjects(search, name, Fit::kBest);
}

}  // namespace reprise::planner
