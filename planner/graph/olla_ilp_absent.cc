// Built where there is no CBC.
#include "planner/graph/olla_ilp.h"

namespace reprise::planner::graph {

Ordering OrderByIntegerProgram(const PreparedGraph&, const Options&, Ordering start) {
  return start;
}

OrderedPlan PlanByIntegerProgram(const PreparedGraph&, const Options&, OrderedPlan start) {
  return start;
}

}  // namespace reprise::planner::graph
