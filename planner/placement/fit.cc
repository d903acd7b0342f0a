#include "planner/placement/fit.h"

#include "planner/core/order.h"
#include "planner/core/runs.h"

namespace reprise::planner {
namespace {

// The order in a strategy's name: "..._by_ORDER".
std::string OrderOf(const std::string& name) { return name.substr(name.find("_by_") + 4); }

void Run(Search& search, const std::string& name, Fit fit) {
  const std::vector<uint32_t> order = OrderByName(search.problem, OrderOf(name));
  Occupancy occupancy(search.problem);
  Addresses addresses = PlaceInOrder(search.problem, occupancy, order, fit, INT64_MAX,
                                     [&] { return search.TooLate(); });
  if (addresses.empty()) return;
  const int64_t makespan = Makespan(search.problem, addresses);
  search.incumbent.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace

void RunFirstFitInOrder(Search& search, const std::string& name) { Run(search, name, Fit::kFirst); }
void RunBestFitInOrder(Search& search, const std::string& name) { Run(search, name, Fit::kBest); }

}  // namespace reprise::planner
