// The largest jobs first, as a problem of their own, and of those the largest first.
#ifndef REPRISE_PLANNER_LAYERS_H_
#define REPRISE_PLANNER_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/portfolio.h"
#include "planner/search.h"
#include "planner/sub_search.h"

namespace reprise::planner {

// Where few jobs make up most of the load, as in programs that keep matrices, the others fit
// between them and above them. A search of the whole is slow because of the many, and fails because
// of the few: so the largest are packed as a problem of their own, which goes by layers itself, and
// all others are swept around them (PeakSweep). Our own.
class Layers {
 public:
  // Both must outlive it. `kinds` are the attempts at the whole.
  Layers(Search& search, Portfolio& portfolio, std::vector<Portfolio::Kind> kinds);

  // Whether few jobs make up most of the load of a plain problem that searches find too large.
  bool OfUse() const { return !largest_.empty(); }

  // Improves the record, layers (where they are of use) and whole in turns, until it reaches the
  // target, time is up or options.iterations attempts at the whole were made.
  void Improve();

 private:
  Layers(Search& search, Portfolio& portfolio, std::vector<Portfolio::Kind> kinds, size_t most);

  void FindLargest(size_t most);
  void ImproveLargest();
  void Turn(int64_t attempts);

  Search& search_;
  Portfolio& portfolio_;
  std::vector<Portfolio::Kind> kinds_;
  std::vector<uint32_t> largest_;
  int64_t rest_ = 0;       // the load of all others where that of the whole is greatest
  uint64_t packings_ = 0;  // of the largest that were begun
  std::unique_ptr<SubSearch> packing_;
  std::unique_ptr<Layers> layers_;  // of the packing
  int64_t swept_ = INT64_MAX;       // its makespan when the others were last swept around it
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_LAYERS_H_
