// Packing outward from the peak: the strategy for traces of a heap.
#ifndef REPRISE_PLANNER_SEARCH_PEAK_SWEEP_H_
#define REPRISE_PLANNER_SEARCH_PEAK_SWEEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/core/occupancy.h"
#include "planner/core/search.h"
#include "planner/placement/free_blocks.h"
#include "planner/placement/reshuffle.h"
#include "planner/search/peak_recipe.h"
#include "planner/search/peak_tables.h"

namespace reprise::planner {

// Only the peak leaves no room, so it is packed first and without waste: what lives there is
// stacked. From there two best-fit sweeps run, one forwards and one backwards in time. The load
// falls behind the peak, and what fragmentation costs is paid out of that slack. A block that needs
// much room at once would find it in pieces, so the largest buffers ("rocks") are placed before all
// others, by first fit, and the sweeps flow around them. Jobs whose address is given are rocks,
// too; of the others a sweep leaves gaps unused.
class PeakSweep {
 public:
  explicit PeakSweep(const PeakTables& tables);

  // Empty when the packing would reach `limit`, or when `stop` says so.
  Addresses Run(const PeakRecipe& recipe, int64_t limit, const std::function<bool()>& stop);

 private:
  // The rocks in the order in which a sweep meets them, and the section in which it does: forwards
  // that of their birth, backwards the one after their last.
  struct Arrival {
    uint32_t section;
    uint32_t rock;
  };

  bool PlaceRocks(const std::vector<uint32_t>& rocks, const Addresses& places, int64_t limit,
                  const std::function<bool()>& stop);
  bool SweepHill(const Hill& hill, const PeakRecipe& recipe, int64_t limit,
                 const std::function<bool()>& stop);
  void StackAtPeak(const Hill& hill, const PeakRecipe& recipe, FreeBlocks& space);
  void RestorePeak(const Hill& hill, bool rocks_only, FreeBlocks& space);
  bool SweepForwards(const Hill& hill, const PeakRecipe& recipe, int64_t limit,
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
