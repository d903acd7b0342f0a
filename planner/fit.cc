#include "planner/fit.h"

#include "planner/order.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

void Run(Search& search, const std::string& name, Fit fit) {
  const size_t by = name.find("_by_");
  const std::vector<uint32_t> order =
      OrderByName(search.problem, by == std::string::npos ? "size" : name.substr(by + 4));
  Occupancy occupancy(search.problem);
  Addresses addresses = PlaceInOrder(search.problem, occupancy, order, fit, INT64_MAX,
                                     [&] { return search.Cancelled(); });
  if (addresses.empty()) return;
  const int64_t makespan = Makespan(search.problem, addresses);
  search.record.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace

void RunFirstFitInOrder(Search& search, const std::string& name) { Run(search, name, Fit::kFirst); }
void RunBestFitInOrder(Search& search, const std::string& name) { Run(search, name, Fit::kBest); }

}  // namespace reprise::planner
