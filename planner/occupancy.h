// Which addresses are taken when: the structure behind every first fit and best fit whose order is
// not that of time.
#ifndef REPRISE_PLANNER_OCCUPANCY_H_
#define REPRISE_PLANNER_OCCUPANCY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/problem.h"

namespace reprise::planner {

// A sorted set of disjoint address intervals; those that touch are merged.
struct IntervalList {
  struct Interval {
    int64_t lower;
    int64_t upper;
  };
  Interval* data = nullptr;
  uint32_t size = 0;
  uint32_t capacity_log2 = 0;  // meaningful when data is set
};

// A segment tree over the sections. A node holds two interval lists: `cover`, what is taken
// throughout the node's sections by jobs that were stored here, and `touch`, what is taken at some
// time within them. A job's free addresses follow from the touch lists of the O(log n) nodes that
// make up its span and the cover lists of their ancestors. The lists merge, so that they are short
// where the packing is tight, and placement leaps over whole runs of them.
class Occupancy {
 public:
  explicit Occupancy(const Problem& problem);

  // Forgets every job; keeps the memory.
  void Clear();

  // The lowest legal address at or above `from` at which `job` meets nothing that was placed. May
  // stop early with some address above `limit`.
  int64_t FirstFit(uint32_t job, int64_t from = 0, int64_t limit = INT64_MAX);

  // For several queries of one job: whether there is anything in its span, and the first fit from
  // an address on. Every query starts anew. Nothing may be placed in between.
  bool Look(uint32_t job);
  int64_t FirstFitAgain(uint32_t job, int64_t from, int64_t limit);

  // The legal address whose free room exceeds the job's need by the least; ties: the lowest.
  // Addresses above `limit` count only when there is no other.
  int64_t BestFit(uint32_t job, int64_t limit = INT64_MAX);

  void Place(uint32_t job, int64_t address);

 private:
  // One list seen by a job's window [lower, upper), with the place reached in it.
  struct Cursor {
    const IntervalList* list;
    int64_t lower;
    int64_t upper;
    uint32_t at;
  };

  void Collect(uint32_t lower, uint32_t upper, int64_t window_lower, int64_t window_upper);
  void CollectAll(uint32_t job);
  int64_t Advance(uint32_t job, int64_t address, int64_t limit);
  int64_t Slack(int64_t address);
  void Take(uint32_t lower, uint32_t upper, int64_t from, int64_t to);
  void Add(IntervalList& list, int64_t lower, int64_t upper);
  IntervalList::Interval* Allocate(uint32_t capacity_log2);

  const Problem& problem_;
  uint32_t leaves_ = 1;
  std::vector<IntervalList> cover_;
  std::vector<IntervalList> touch_;
  std::vector<Cursor> cursors_;

  // Interval arrays of 2^k, handed out from slabs and kept in free lists by k.
  std::vector<std::unique_ptr<IntervalList::Interval[]>> slabs_;
  size_t slab_used_ = 0;
  size_t slab_size_ = 0;
  std::vector<std::vector<IntervalList::Interval*>> free_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_OCCUPANCY_H_
