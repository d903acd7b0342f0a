// Where the load of a problem comes near its maximum, and what lives then.
#ifndef REPRISE_PLANNER_SEARCH_PEAK_TABLES_H_
#define REPRISE_PLANNER_SEARCH_PEAK_TABLES_H_

#include <cstdint>
#include <vector>

#include "planner/core/search.h"
#include "planner/placement/sweep.h"

namespace reprise::planner {

// Whether the load is within 2 % of its maximum for a hundredth of the time.
bool StaysFull(const Problem& problem);

// A stretch of time with a peak of its own.
struct Hill {
  uint32_t lower = 0;  // sections [lower, upper)
  uint32_t upper = 0;
  uint32_t peak = 0;              // a section of the greatest load
  std::vector<uint32_t> at_peak;  // the jobs live there, without those that live beyond the hill
};

// What all peak sweeps of a problem share.
struct PeakTables {
  explicit PeakTables(const Problem& problem);

  const Problem& problem;
  Groups births;  // within a section the largest first
  Groups deaths;
  Hill whole;
  bool stays_full = false;
  // Hills between valleys of low load, when the load comes near its maximum more than once.
  std::vector<Hill> hills;
  std::vector<uint32_t> across;   // the jobs that live on two hills, the longest-lived first
  std::vector<uint32_t> largest;  // some of the largest jobs, the largest first
  std::vector<int64_t> max_load;  // in the span of each of them
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_PEAK_TABLES_H_
