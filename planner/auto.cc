#include <array>
#include <string>

#include "planner/fit.h"
#include "planner/order.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

constexpr std::array kOrders = {"max_load",          "size",     "max_load_area", "area",
                                "max_load_lifespan", "lifespan", "birth"};

}  // namespace

void RunAuto(Search& search, std::string_view) {
  if (search.problem.plain) RunSweepBestFit(search, "sweep_best_fit");
  const auto stop = [&] { return search.OutOfTime(); };
  Occupancy occupancy(search.problem);
  int64_t rank = 1;
  for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
    for (const std::string_view by : kOrders) {
      if (search.Done() || search.OutOfTime()) return;
      const std::vector<uint32_t> order = OrderByName(search.problem, by);
      Addresses addresses =
          PlaceInOrder(search.problem, occupancy, order, fit, search.record.makespan(), stop);
      if (addresses.empty()) continue;
      const int64_t makespan = Makespan(search.problem, addresses);
      search.record.Offer(std::move(addresses), makespan,
                          (fit == Fit::kFirst ? "first_fit_by_" : "best_fit_by_") + std::string(by),
                          rank++);
    }
  }
}

}  // namespace reprise::planner
