// What cuts of the graph say about every order of execution: precedences that no order of a low
// peak can break, and so lower bounds of the peak.
#ifndef REPRISE_PLANNER_GRAPH_LOW_ORDERS_H_
#define REPRISE_PLANNER_GRAPH_LOW_ORDERS_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "planner/graph/prepared_graph.h"

namespace reprise::planner::graph {

// The orders of execution whose peak is below a mark, by the precedences that all of them keep.
//
// When a node runs, those that have run are a set that holds all that leads to the node and nothing
// that it leads to, and with each of its nodes all that leads to that one. What such a set leaves
// open is the capacity of a cut between the two, so the least load with which the node can run is a
// minimum cut. It is one, too, when another node must have run by then, or must not: if that
// reaches the mark, the other must run later, or earlier. Each precedence that is found this way
// makes other cuts larger. Where a node can run with the other neither done nor to do, no order is
// left.
class LowOrders {
 public:
  // All orders. `flow` must outlive it.
  explicit LowOrders(const PreparedGraph& flow);

  // Leaves out orders whose peak is `mark` bytes or more, as far as cuts tell, until `stop`, which
  // is asked before every cut. False: none is left, and the precedences mean nothing any more.
  bool Tighten(int64_t mark, const std::function<bool()>& stop);

  // Leaves out the orders in which `behind` runs before `before`.
  void Add(uint32_t before, uint32_t behind);

  // Two nodes between which there is no precedence, the ones whose order matters most by what
  // Tighten saw; as they cost less. kNone: one order is left.
  std::pair<uint32_t, uint32_t> Critical() const;

  // Per node, those that run after it, without those that follow from others.
  Lists Successors() const;

 private:
  using Bits = std::vector<uint64_t>;  // rows of words_
  class Network;
  struct Flowing;

  // Sets of nodes that may have run when a node does, as far as is known, with their loads.
  struct Sets {
    Bits done;
    std::vector<int64_t> loads;
    size_t checked = 0;  // against as many of added_
  };
  enum class Change { kSame, kSome, kNoOrder };

  const uint64_t* Before(uint32_t node) const { return before_.data() + words_ * node; }
  const uint64_t* Behind(uint32_t node) const { return behind_.data() + words_ * node; }
  bool Ordered(uint32_t a, uint32_t b) const;
  Network MakeNetwork() const;
  Flowing Begin(const Network& network, uint32_t node) const;
  void SetSide(Flowing& flowing, uint32_t node, bool done) const;
  void Filter(uint32_t node, int64_t mark);
  Change Round(int64_t mark, const std::function<bool()>& stop);

  const PreparedGraph* flow_;
  size_t words_;  // of 64 bits per row
  Bits before_;   // per node: what runs before it
  Bits behind_;   // per node: what runs after it
  std::vector<std::pair<uint32_t, uint32_t>> added_;
  std::vector<Sets> sets_;  // per node
  int64_t always_ = 0;      // bytes of persistent storages
  int64_t floor_ = 0;       // bytes, with them, before the first node runs
};

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_LOW_ORDERS_H_
