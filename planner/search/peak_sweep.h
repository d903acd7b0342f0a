// Packing outward from the peak: the strategy for traces of a heap.
#ifndef REPRISE_PLANNER_SEARCH_PEAK_SWEEP_H_
#define REPRISE_PLANNER_SEARCH_PEAK_SWEEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/core/occupancy.h"
#include "planner/core/random.h"
#include "planner/core/search.h"
#include "planner/placement/free_blocks.h"
#include "planner/placement/reshuffle.h"
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

// Only the peak leaves no room, so it is packed first and without waste: what lives there is
// stacked. From there two best-fit sweeps run, one forwards and one backwards in time. The load
// falls behind the peak, and what fragmentation costs is paid out of that slack. A block that needs
// much room at once would find it in pieces, so the largest buffers ("rocks") are placed before all
// others, by first fit, and the sweeps flow around them. Jobs whose address is given are rocks,
// too; of the others a sweep leaves gaps unused.
class PeakSweep {
 public:
  // How what lives at the peak is stacked, from below. kTwoEnded: what is born closer to the peak
  // than it dies lies below, the latest born at the bottom; the others above, the soonest dead at
  // the top. So what a sweep frees first is one piece that grows, in either direction.
  enum class Stack { kLatestDead, kSoonestDead, kLatestBorn, kEarliestBorn, kLargest, kTwoEnded };
  static constexpr int kStacks = 6;

  struct Recipe {
    std::vector<uint32_t> rocks;  // in the order of their placement
    Stack stack = Stack::kLatestDead;
    bool by_hills = false;
    // For heaps that stay full, slower: FreeBlocks::TakeBestScored, MakeRoom and Reshuffle instead
    // of best fit. Each direction takes the best of these weights; their lifespans are filled in.
    std::vector<FreeBlocks::CostWeights> weights = {};
    double balance = 1;  // of kTwoEnded: the larger, the more lies at the upper end
    // Where the rocks lie, of a plain problem. Empty: each where it fits first.
    Addresses places = {};
  };

  explicit PeakSweep(const PeakTables& tables);

  // The `number`-th of a few recipes that are worth trying first; number < kRecipes.
  static constexpr int kRecipes = 28;
  Recipe Standard(int number) const;

  // A random one.
  Recipe Draw(Random& random) const;

  // Empty when the packing would reach `limit`, or when `stop` says so.
  Addresses Run(const Recipe& recipe, int64_t limit, const std::function<bool()>& stop);

 private:
  // The jobs above a fraction of the max load, but at least and at most so many.
  std::vector<uint32_t> Rocks(int64_t fraction, size_t least, size_t most) const;
  Recipe Scored(double balance, std::vector<FreeBlocks::CostWeights> weights) const;

  // The rocks in the order in which a sweep meets them, and the section in which it does: forwards
  // that of their birth, backwards the one after their last.
  struct Arrival {
    uint32_t section;
    uint32_t rock;
  };

  bool PlaceRocks(const std::vector<uint32_t>& rocks, const Addresses& places, int64_t limit,
                  const std::function<bool()>& stop);
  bool SweepHill(const Hill& hill, const Recipe& recipe, int64_t limit,
                 const std::function<bool()>& stop);
  void StackAtPeak(const Hill& hill, const Recipe& recipe, FreeBlocks& space);
  void RestorePeak(const Hill& hill, bool rocks_only, FreeBlocks& space);
  bool SweepForwards(const Hill& hill, const Recipe& recipe, int64_t limit,
                     const std::function<bool()>& stop);
  bool SweepBackwards(const Hill& hill, int64_t limit, const std::function<bool()>& stop);
  bool Sweep(const Hill& hill, FreeBlocks& space, int64_t limit, const std::function<bool()>& stop);
  void Put(uint32_t job, bool look, FreeBlocks& space);
  uint32_t TakeScored(uint32_t job, FreeBlocks& space);
  bool MoveOthers(uint32_t job, FreeBlocks& space);
  FreeBlocks::Note NoteOf(uint32_t job, bool movable) const;
  void Pin(uint32_t job, FreeBlocks& space);

  const PeakTables& tables_;
  const Problem& problem_;
  bool aligned_ = false;  // some jobs more strictly than all must be
  int64_t least_alignment_ = 1;
  std::optional<Occupancy> occupancy_;                // of the rocks
  const FreeBlocks::CostWeights* weights_ = nullptr;  // of a scored sweep
  int moves_left_ = 0;
  bool reshuffles_ = false;  // the sweep does
  Reshuffle reshuffle_;
  int64_t swept_top_ = 0;     // of the last sweep that ended
  bool forwards_now_ = true;  // the direction of the sweep
  std::vector<uint32_t> rocks_;
  std::vector<bool> is_rock_;
  // Rocks are blocks of the space while they live, so that jobs need to look out only for those
  // that they meet later. Not so with gaps: then rocks may share addresses.
  bool solid_ = true;
  std::vector<Arrival> forwards_;
  std::vector<Arrival> backwards_;
  std::vector<uint32_t> handles_;
  Addresses addresses_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_PEAK_SWEEP_H_
