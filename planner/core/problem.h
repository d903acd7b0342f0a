// An instance as the strategies see it: time cut down to what matters, addresses that start at the
// first legal one, bounds.
#ifndef REPRISE_PLANNER_CORE_PROBLEM_H_
#define REPRISE_PLANNER_CORE_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "planner/core/instance.h"

namespace reprise::planner {

// A buffer, live in the sections [lower, upper). Its lifespan in the instance's own time is kept,
// because it orders buffers better than the number of sections.
struct Job {
  uint32_t lower = 0;
  uint32_t upper = 0;
  int64_t size = 0;  // rounded up to the alignment, in units
};

// What a job with gaps occupies during a part of its lifetime: [window_lower, window_upper), in
// units from its address.
struct Piece {
  uint32_t lower = 0;
  uint32_t upper = 0;
  int64_t window_lower = 0;
  int64_t window_upper = 0;
};

// Time is compressed to sections: the maximal sets of buffers that are live at once, in time order.
// Two buffers overlap in time iff they share a section, and the max load is that of some section.
// Addresses and sizes are counted in units, the largest step that every size is a multiple of, from
// `base` on: offset = base + address * unit.
struct Problem {
  const Instance* instance = nullptr;
  std::vector<Job> jobs;  // one per buffer
  uint32_t sections = 0;
  std::vector<int64_t> load;  // units, per section
  int64_t unit = 1;           // bytes
  int64_t base = 0;           // bytes: the lowest legal offset
  int64_t max_load = 0;       // units
  int64_t lower_bound = 0;    // units: no plan ends lower
  int64_t end_bound = 0;      // units: a sane plan ends at or below this

  // Plain: no gaps, no fixed offsets and no stricter alignments. The fast strategies need that.
  bool plain = true;
  bool solid = true;                  // no gaps and no stricter alignments
  std::vector<uint32_t> fixed;        // the jobs whose address is given
  std::vector<uint32_t> first_piece;  // per job and one more; empty when there are no gaps
  std::vector<Piece> pieces;

  uint32_t size() const { return static_cast<uint32_t>(jobs.size()); }
  // In the instance's own time; INT64_MAX when it is longer.
  int64_t lifespan(uint32_t job) const {
    const Buffer& buffer = instance->buffers[job];
    int64_t span = 0;
    return __builtin_sub_overflow(buffer.upper, buffer.lower, &span) ? INT64_MAX : span;
  }
  // The step of the addresses that `job` may have, and their remainder: legal addresses are those
  // with (address + origin) % alignment == 0.
  int64_t alignment(uint32_t job) const;
  int64_t origin() const { return (instance->start_address + base) / unit; }
  int64_t AlignUp(uint32_t job, int64_t address) const;
  // The given address of a job in `fixed`.
  int64_t fixed_address(uint32_t job) const { return (instance->fixed_offsets[job] - base) / unit; }
  int64_t ToBytes(int64_t end) const { return jobs.empty() ? 0 : base + end * unit; }
};

// `instance` must be valid and outlive the problem. O(n log n); linear when time is dense.
Problem MakeProblem(const Instance& instance);

// The address just above the highest job.
int64_t Makespan(const Problem& problem, const std::vector<int64_t>& addresses);

// The largest load within the span of each of `jobs`, or of all.
std::vector<int64_t> MaxLoadInSpan(const Problem& problem, const std::vector<uint32_t>& jobs);
std::vector<int64_t> MaxLoadInSpan(const Problem& problem);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_PROBLEM_H_
