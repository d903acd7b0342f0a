// The table of strategies.
#ifndef REPRISE_PLANNER_STRATEGY_H_
#define REPRISE_PLANNER_STRATEGY_H_

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/options.h"
#include "planner/core/search.h"

namespace reprise::planner {

struct Strategy {
  StrategyInfo info;
  void (*run)(Search& search, const std::string& name);  // planner/core/runs.h
  bool plain_only = false;  // cannot keep gaps, fixed offsets or stricter alignments
};

// Whether the strategy makes one packing and ends: it needs no bound to know when to stop.
bool PlacesOnce(const Strategy& strategy);

// To add a strategy: write its file, declare its function in core/runs.h, add its line to
// strategy.cc.
const std::vector<Strategy>& AllStrategies();

// The strategy of this name, or the one that the name is an alias of; null when there is none.
const Strategy* FindStrategy(std::string_view name);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_STRATEGY_H_
