// Jobs as the searches that grow skylines see them: what each occupies, section by section.
#ifndef REPRISE_PLANNER_CORE_SHAPES_H_
#define REPRISE_PLANNER_CORE_SHAPES_H_

#include <cstdint>
#include <vector>

#include "planner/core/problem.h"

namespace reprise::planner {

// Copyable, so that a search can turn its copy around in time.
struct Shapes {
  explicit Shapes(const Problem& problem);

  // Backwards in time.
  void Mirror();

  // Whether the job is anything but a rectangle.
  bool HasGaps(uint32_t job) const { return !gaps.empty() && gaps[job] != 0; }

  // The first section in which it lies at its very address. A job that never occupies anything has
  // none.
  uint32_t Start(uint32_t job) const;
  bool IsNothing(uint32_t job) const { return jobs[job].lower == jobs[job].upper; }

  // Calls visit(piece) for all that it occupies, in time order.
  template <typename Visit>
  void ForPieces(uint32_t job, Visit visit) const {
    if (!HasGaps(job)) {
      if (!IsNothing(job)) visit(Piece{jobs[job].lower, jobs[job].upper, 0, jobs[job].size});
      return;
    }
    for (uint32_t p = first_piece[job]; p < first_piece[job + 1]; ++p) visit(pieces[p]);
  }

  // Whether one may take the other's place.
  bool Twins(uint32_t a, uint32_t b) const;

  std::vector<Job> jobs;
  std::vector<int64_t> load;          // units, per section
  std::vector<uint32_t> first_piece;  // as in Problem; empty when there are no gaps
  std::vector<Piece> pieces;
  std::vector<uint8_t> gaps;  // per job

  // Every window begins at its job's address: what rests on a skyline wastes nothing by itself.
  bool flat = true;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_CORE_SHAPES_H_
