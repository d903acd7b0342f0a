// Local search: what reaches too high takes the place of others, and those that of others again.
#ifndef REPRISE_PLANNER_SEARCH_EJECTION_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_EJECTION_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/core/concurrent.h"
#include "planner/core/problem.h"
#include "planner/core/random.h"
#include "planner/core/search.h"
#include "planner/core/sort.h"

namespace reprise::planner {

// Starts from a packing and a capacity below its makespan. Jobs that end above the capacity go into
// a pool. A job of the pool is put where it meets the least, into the tightest gap where there are
// some, and what it meets goes into the pool. What comes back often weighs more from then on, so
// that others have to give way (as in Nagata and Braysy's search for fewer vehicle routes, 2009).
// When the pool is empty there is a better packing, and the capacity falls. All that a move looks
// at is what lives at the same time: so it mends what is wrong at a few instants of a long problem.
// Not complete.
class EjectionSearch {
 public:
  explicit EjectionSearch(const Problem& problem);

  struct Start {
    const Addresses& addresses;
    int64_t makespan;                   // to be beaten: that of `addresses`, or less
    const std::vector<uint32_t>& stay;  // jobs that keep their addresses
  };

  // Brings `start` down, at most to `bound`, until so many moves made it no better. Whether any
  // did.
  bool Run(const Start& start, int64_t bound, Random& random, int64_t moves,
           const std::function<bool()>& stop);

  // After success.
  const Addresses& addresses() const { return best_; }

 private:
  void DrawWeights(Random& random);
  void EjectAbove(int64_t capacity);
  uint32_t TakeFromPool();
  bool Place(uint32_t job, int64_t capacity, Random& random);
  void CollectEvents(uint32_t job, int64_t last);
  void AddEvents(uint32_t job, uint32_t other, int64_t last);
  int64_t AlignDown(uint32_t job, int64_t address) const;
  void EjectWhatMeets(uint32_t job, int64_t address);
  template <typename Visit>
  void ForConcurrent(uint32_t job, Visit visit) const;
  template <typename Visit>
  void ForRanges(uint32_t job, uint32_t other, Visit visit) const;

  const Problem& problem_;
  const Concurrent concurrent_;
  std::vector<uint8_t> given_;
  std::vector<double> hardness_;  // by size and lifespan: how much a job weighs at first
  std::vector<double> weight_;
  double growth_ = 0;    // of a weight per move, in hardness
  Addresses addresses_;  // -1: in the pool
  Addresses best_;
  std::vector<uint32_t> pool_;
  // Where what a job meets changes as its address rises: twice the address, and one more where it
  // begins to meet `id`.
  std::vector<KeyedId> events_;
  std::vector<KeyedId> scratch_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_EJECTION_SEARCH_H_
