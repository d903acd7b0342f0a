// Strategies for placing the storages of a graph, by name.
#ifndef REPRISE_PLANNER_GRAPH_PLACE_H_
#define REPRISE_PLANNER_GRAPH_PLACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/graph/conflict.h"
#include "planner/graph/prepared_graph.h"
#include "planner/solve.h"

namespace reprise::planner::graph {

struct Placed {
  std::vector<int64_t> offsets;  // bytes; per storage
  int64_t makespan = 0;
  int64_t lower_bound = 0;  // bytes: no placement ends lower
  std::string finder;       // the strategy
  bool proven_optimal = false;
};

// Whether a strategy of Strategies() or GraphStrategies() can place any conflicts, or only storages
// of one stream without groups, which conflict where their lifetimes overlap.
bool TakesConflicts(std::string_view strategy);

// What there is for graphs beyond Strategies().
const std::vector<StrategyInfo>& GraphStrategies();

// Places the storages of one stream as an instance with lifetimes: any strategy of Strategies().
// Groups become buffers with gaps, exactly so where what lives of a group is in one piece, else
// with some memory spared. FailedPrecondition where a group's alignment cannot be said that way.
absl::StatusOr<Placed> PlaceByLifetimes(const PreparedGraph& flow, const Options& options);

// Places storages whose conflicts are pairs. `options.strategy` is one that TakesConflicts. The
// same seed and iterations give the same offsets. InvalidArgument when given offsets conflict.
absl::StatusOr<Placed> PlaceByConflicts(const PreparedGraph& flow, const PairSet& unsafe,
                                        const Options& options);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_PLACE_H_
