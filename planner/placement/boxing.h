// The boxing algorithm of Buchsbaum, Karloff, Kenyon, Reingold and Thorup, "OPT versus LOAD in
// dynamic storage allocation" (STOC 2003), with the corrections of idealloc (arXiv 2504.04874,
// sections 3 and 4): it turns jobs into boxes of one height, which hold boxes, which hold jobs.
// What comes out is an order for first fit.
#ifndef REPRISE_PLANNER_PLACEMENT_BOXING_H_
#define REPRISE_PLANNER_PLACEMENT_BOXING_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/core/problem.h"
#include "planner/core/random.h"

namespace reprise::planner {

// A job or a box. Item i < problem.size() is job i; the item after them is the dummy job, if any.
struct BoxItem {
  uint32_t lower = 0;  // sections [lower, upper)
  uint32_t upper = 0;
  double height = 0;           // units
  uint32_t first_content = 0;  // of Boxing::contents; an empty range for jobs
  uint32_t last_content = 0;
};

struct Boxing {
  std::vector<BoxItem> items;
  std::vector<uint32_t> contents;  // items in boxes, box by box
  std::vector<uint32_t> top;       // the outermost boxes
  uint32_t jobs = 0;               // items below this are the problem's jobs
  bool dummy = false;              // item `jobs` is the dummy
};

// The values of the error parameter for which the algorithm ends and keeps its promises
// (section 3.2).
struct EpsilonRange {
  double lower = 0;
  double upper = 0;
  bool contains(double epsilon) const { return lower <= epsilon && epsilon <= upper; }
};

// For heights between `least` and `most`. Not empty when most / least > kLeastRatio.
EpsilonRange LegalEpsilon(double least, double most);
constexpr double kLeastRatio = 2216.53;

class Boxer {
 public:
  using Stop = std::function<bool()>;

  // Adds the dummy job where the heights differ by too little. The problem is not empty, and every
  // job is live in some section. Jobs with gaps count as live throughout.
  explicit Boxer(const Problem& problem);

  EpsilonRange legal() const { return legal_; }

  // The epsilon that leaves the smallest ratio of heights before the last boxing (section 5.6).
  // When `stop` says so, the best one up to then.
  double Calibrate(Random& random, int threads = 1, const Stop& stop = {}) const;

  // Boxes everything (Theorem 16). Critical points are drawn from `random`. When `stop` says so it
  // ends early, and what it returns is of no use. Classes and sub-problems are shared out among
  // `threads`; their number does not change the result.
  Boxing Run(double epsilon, Random& random, int threads = 1, const Stop& stop = {}) const;

  // An order of the jobs by the address that unboxing gives them (section 4). The rows of a
  // colouring may be stacked in any order: `random` draws whether as they come, the largest
  // contents first, or shuffled.
  static std::vector<uint32_t> Unbox(const Boxing& boxing, Random& random);

 private:
  struct Progress;
  static constexpr double kPhi = 0.6180339887498949;  // above it the error parameter breaks Cor. 15

  // Boxes small items while there are any (the upper branch of Theorem 16).
  Progress Raise(double epsilon, Random& random, Boxing& boxing, int threads,
                 const Stop& stop) const;

  const Problem& problem_;
  double least_ = 0;  // heights, the dummy's included
  double most_ = 0;
  double dummy_height_ = 0;  // 0: none
  EpsilonRange legal_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLACEMENT_BOXING_H_
