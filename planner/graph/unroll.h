// A graph that is the body of a loop as an ordinary graph: some of its iterations, one after the
// other.
#ifndef REPRISE_PLANNER_GRAPH_UNROLL_H_
#define REPRISE_PLANNER_GRAPH_UNROLL_H_

#include <cstdint>
#include <vector>

#include "planner/graph/graph.h"

namespace reprise::planner::graph {

struct Unrolled {
  Graph graph;                   // ids carry the iteration, from 0 on: "w in iteration 1"
  std::vector<uint32_t> order;   // one entry per node: its execution in sequence
  std::vector<int64_t> offsets;  // one per tensor; empty where there were no slots
};

// `body` is a graph that ValidateLoop takes, `order` has one entry for each of its nodes. In
// iteration i tensor t lies at slots[t][i mod its size]; `slots` may be empty. What an iteration
// reads of the one before is one tensor with it, called after its producer. What is the same in all
// iterations is persistent. Outputs, and what the next iteration is to read, have the last node of
// their iteration as one more reader.
Unrolled Unroll(const Graph& body, const std::vector<std::vector<int64_t>>& slots,
                const std::vector<uint32_t>& order, uint32_t iterations);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_UNROLL_H_
