#include "planner/portfolio.h"
#include "planner/strategy.h"

namespace reprise::planner {

using Kind = Portfolio::Kind;

void RunAuto(Search& search, const std::string&) {
  if (search.problem.plain) {
    RunSweepBestFit(search, "sweep_best_fit");
    if (search.Done()) return;
  }
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "max_load"},
                       {Fit::kFirst, "size"},
                       {Fit::kFirst, "area"},
                       {Fit::kFirst, "max_load_latest"},
                       {Fit::kFirst, "max_load_earliest"},
                       {Fit::kFirst, "max_load_area"},
                       {Fit::kFirst, "lifespan"},
                       {Fit::kBest, "max_load"},
                       {Fit::kBest, "size"},
                       {Fit::kBest, "area"}});
  if (Portfolio::SuitsValleySearch(search.problem)) {
    portfolio.Improve({Kind::kValley, Kind::kValleyRelaxed, Kind::kValley, Kind::kSampleFirstFit,
                       Kind::kValley, Kind::kValleyRelaxed, Kind::kValley, Kind::kSampleBestFit});
  } else {
    portfolio.Improve({Kind::kSampleFirstFit, Kind::kSampleBestFit, Kind::kSampleFirstFit});
  }
}

void RunSampledOrders(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  portfolio.Improve({Kind::kSampleFirstFit, Kind::kSampleBestFit});
}

void RunValleySearch(Search& search, const std::string&) {
  Portfolio portfolio(search);
  portfolio.TryOrders({{Fit::kFirst, "size"}});
  if (!Portfolio::SuitsValleySearch(search.problem)) return;
  portfolio.Improve({Kind::kValley, Kind::kValleyRelaxed});
}

}  // namespace reprise::planner
