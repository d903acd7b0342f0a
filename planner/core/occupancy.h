// Which addresses are taken when: the structure behind every first fit and best fit whose order is
// not that of time.
#ifndef REPRISE_PLANNER_CORE_OCCUPANCY_H_
#define REPRISE_PLANNER_CORE_OCCUPANCY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/core/problem.h"

namespace reprise::planner {

template <typename Coordinate>
class BasicOccupancy;

// A segment tree over the sections. A node holds two interval lists: `cover`, what is taken
// throughout the node's sections by jobs that were stored here, and `touch`, what is taken at some
// time within them. A job's free addresses follow from the touch lists of the O(log n) nodes that
// make up its span and the cover lists of their ancestors. The lists merge, so that they are short
// where the packing is tight, and placement leaps over whole runs of them.
class Occupancy {
 public:
  explicit Occupancy(const Problem& problem);

  // The same for a few jobs, in little memory: time is cut at `cuts` only, sections in rising
  // order. What is placed must begin and end at cuts; any job may be looked up.
  Occupancy(const Problem& problem, std::vector<uint32_t> cuts);
  ~Occupancy();

  // Forgets every job; keeps the memory.
  void Clear();

  // The lowest legal address at or above `from` at which `job` meets nothing that was placed. May
  // stop early with some address above `limit`.
  int64_t FirstFit(uint32_t job, int64_t from = 0, int64_t limit = INT64_MAX);

  // For several queries of one job: whether there is anything in its span, and the first fit from
  // an address on. Nothing may be placed in between.
  bool Look(uint32_t job);
  int64_t FirstFitAgain(uint32_t job, int64_t from, int64_t limit);

  // The legal address whose free room exceeds the job's need by the least; ties: the lowest.
  // Addresses above `limit` count only when there is no other.
  int64_t BestFit(uint32_t job, int64_t limit = INT64_MAX);

  // After Look or a query of the same job: the same within [from, end), where `from` is legal.
  int64_t BestFitWithin(uint32_t job, int64_t from, int64_t end);

  void Place(uint32_t job, int64_t address);

 private:
  // Addresses are kept in 32 bits where they fit.
  std::unique_ptr<BasicOccupancy<uint32_t>> narrow_;
  std::unique_ptr<BasicOccupancy<int64_t>> wide_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_OCCUPANCY_H_
