// Depth-first search for a packing within a capacity; for small, hard problems.
#ifndef REPRISE_PLANNER_SEARCH_VALLEY_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_VALLEY_SEARCH_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/core/problem.h"
#include "planner/core/random.h"
#include "planner/core/shapes.h"
#include "planner/core/skyline.h"

namespace reprise::planner {

// The packing grows from below. Its skyline is the height reached in each section; its lowest
// valley is a run of sections between two higher ones. Whatever rests on the valley's floor lies
// within it, so the sections of the floor are decided from left to right: a job that starts there,
// or none. Where none is put, space is wasted, and every section can waste no more than the
// capacity exceeds its load by. That prunes hard where the load is near the capacity. A dead end is
// blamed on a range of sections, and decisions that did not touch it are undone without trying
// their other options (conflict-directed backjumping). A job whose address is given is put there
// when the floor has risen to it, and until then nothing may reach above that address. A job with
// gaps may lie in several valleys of the same floor at once; so all of them are decided before one
// is given up. Floors also rise to where a job's alignment lets it begin. Complete: when the search
// ends without a packing there is none. Only where windows do not begin at a buffer's offset may it
// overlook one, because what lies under such a window is wasted.
class ValleySearch {
 public:
  enum class Outcome { kFound, kImpossible, kGaveUp };

  explicit ValleySearch(const Problem& problem);

  // Searches for a packing that ends at or below `capacity`, in units, at least the max load.
  // Starts anew, trying jobs in an order that `random` picks; gives up after `nodes` decisions or
  // when `stop` says so.
  Outcome Run(int64_t capacity, Random& random, int64_t nodes, const std::function<bool()>& stop);

  // After kFound.
  const std::vector<int64_t>& addresses() const { return addresses_; }

 private:
  // Sections [lower, upper).
  struct Range {
    uint32_t lower;
    uint32_t upper;
  };
  static Range Hull(Range a, Range b) {
    return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
  }
  struct Step {
    enum class Kind : uint8_t { kJob, kClose, kRaise } kind;
    uint32_t lower;   // of the valley for kRaise, else the section decided
    uint32_t upper;   // of the valley
    uint32_t choice;  // kJob: index into by_start_
    int64_t floor;    // before
    Range blame;      // what made the options before this one fail
  };

  void Start(int64_t capacity, Random& random);
  void SortOptions(Random& random);
  bool Advance();
  bool Backtrack();
  Valley OpenValley() const;
  bool Fits(uint32_t job, uint32_t upper, int64_t floor) const;
  bool PiecesFit(uint32_t job, int64_t floor) const;
  int64_t Ceiling(uint32_t lower, uint32_t upper) const;
  int64_t Level(const Valley& valley, Range& blame) const;
  int64_t Rest(uint32_t job) const;
  int64_t NextEvent(int64_t floor) const;
  void Place(uint32_t job, int64_t address);
  void PlacePieces(uint32_t job, int64_t address);
  void Remove(uint32_t job, int64_t floor);
  void RemovePieces(uint32_t job, int64_t address);
  bool TryFrom(uint32_t section, uint32_t upper, uint32_t choice, int64_t floor, Range blame);
  Range Around(uint32_t lower, uint32_t upper) const;
  Range Reach(uint32_t section, Range range) const;

  uint32_t sections_;
  uint32_t count_;
  const Problem& problem_;
  const Shapes original_;
  Shapes shapes_;  // perhaps mirrored in time
  int64_t capacity_ = 0;
  Skyline skyline_;
  std::vector<int64_t> slack_;  // what a section may still waste
  std::vector<uint8_t> closed_;
  std::vector<uint8_t> placed_;
  uint32_t left_ = 0;              // jobs to place
  std::vector<uint32_t> special_;  // jobs with gaps or with stricter alignments
  std::vector<int64_t> covered_;   // heights below windows that do not begin at the job's address
  // Where addresses are given: that of each job, or -1; per section those given there, ascending,
  // and how many of them are placed. Else empty.
  std::vector<int64_t> given_;
  std::vector<std::vector<int64_t>> given_in_;
  std::vector<uint32_t> given_placed_;
  std::vector<uint32_t> first_start_;
  std::vector<uint32_t> by_start_;  // jobs by first section, in the order to try
  std::vector<Step> steps_;
  Range conflict_{};  // of the last dead end
  std::vector<int64_t> addresses_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_VALLEY_SEARCH_H_
