#include "planner/fit.h"

#include "planner/order.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

// The order in a strategy's name: "..._by_ORDER"; names without one place by size.
std::string OrderOf(const std::string& name) {
  if (name == "xla_best_fit_temporal") return "lifespan";
  const size_t by = name.find("_by_");
  return by == std::string::npos ? "size" : name.substr(by + 4);
}

void Run(Search& search, const std::string& name, Fit fit) {
  const std::vector<uint32_t> order = OrderByName(search.problem, OrderOf(name));
  Occupancy occupancy(search.problem);
  Addresses addresses = PlaceInOrder(search.problem, occupancy, order, fit, INT64_MAX,
                                     [&] { return search.TooLate(); });
  if (addresses.empty()) return;
  const int64_t makespan = Makespan(search.problem, addresses);
  search.record.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace

void RunFirstFitInOrder(Search& search, const std::string& name) { Run(search, name, Fit::kFirst); }
void RunBestFitInOrder(Search& search, const std::string& name) { Run(search, name, Fit::kBest); }

}  // namespace reprise::planner
