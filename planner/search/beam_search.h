// Beam search for a packing within a capacity: quick and good where depth-first search is lost.
#ifndef REPRISE_PLANNER_SEARCH_BEAM_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_BEAM_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/core/problem.h"
#include "planner/core/random.h"
#include "planner/core/skyline.h"
#include "planner/placement/sweep.h"

namespace reprise::planner {

// Packings grow from below, as in ValleySearch: a job is put into the lowest valley of the skyline,
// and what stays free below it is waste, of which every section can afford as much as the capacity
// exceeds its load by. But instead of one packing and its alternatives, `width` partial packings
// with equally many jobs are kept at a time, those that waste least. A job whose address is given
// is the next one when the floor has risen to it; nothing is put or wasted across it before. Not
// complete.
class BeamSearch {
 public:
  // Solid problems only.
  explicit BeamSearch(const Problem& problem);

  // Whether it found a packing that ends at or below `capacity`, in units, at least the max load.
  // `random` draws the direction of time and how waste is weighed.
  bool Run(int64_t capacity, Random& random, int64_t width, const std::function<bool()>& stop);

  // After success.
  const std::vector<int64_t>& addresses() const { return addresses_; }

 private:
  // A partial packing; its skyline and the jobs it holds are in arrays beside it.
  struct State {
    uint64_t hash = 0;     // of the jobs and where they are
    double waste = 0;      // weighed
    double area = 0;       // of its jobs
    uint32_t history = 0;  // its last move
  };
  struct Beam {
    std::vector<State> states;
    std::vector<int64_t> heights;  // of section s at s + 1, with two sentinels, per state
    std::vector<int64_t> slacks;   // what a section may still waste, per state
    std::vector<uint64_t> placed;  // a bit per job, per state
  };
  // A job for the lowest valley of a state, and how good that would be: the lower the better.
  struct Candidate {
    double score;
    uint64_t hash;
    uint32_t parent;
    uint32_t job;
    uint32_t raises;  // valleys given up before
  };
  struct Move {
    uint32_t before;  // index of the move before it; 0: none
    uint32_t job;
    int64_t address;
  };

  static bool Better(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.hash < b.hash;
  }
  void Start(int64_t capacity, Random& random);
  // Wastes sections [lower, upper) from `floor` up to `level`. False, and nothing is done: that is
  // more than can be afforded.
  bool Fill(uint32_t lower, uint32_t upper, int64_t floor, int64_t level, int64_t* height,
            int64_t* slack, double& waste) const;
  void FindEnds(const Valley& valley, const uint64_t* placed);
  // The given address at or above `floor` in sections [lower, upper) that is the lowest, and whose
  // it is; heights there must be `floor`, so no job that it belongs to is placed.
  struct Given {
    int64_t address;
    uint32_t job;
  };
  Given Ceiling(uint32_t lower, uint32_t upper, int64_t floor) const;
  int64_t Level(const Valley& valley) const;
  void Expand(uint32_t parent, Random& random);
  void Apply(const Candidate& candidate);

  const Problem& problem_;
  uint32_t sections_;
  uint32_t count_;
  uint32_t words_;         // that hold a bit per job
  std::vector<Job> jobs_;  // perhaps mirrored in time
  std::vector<int64_t> load_;
  std::vector<double> weight_;                // of a unit wasted in a section
  Groups by_start_;                           // jobs by first section
  std::vector<int64_t> given_;                // address per job, or -1; empty: none is given
  std::vector<std::vector<Given>> given_in_;  // per section, ascending
  int64_t capacity_ = 0;
  double exponent_ = 1;  // of the area that waste is divided by
  double noise_ = 0;     // share of the score that is left to chance
  Beam beam_;
  Beam next_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> children_;
  std::vector<Move> history_;
  std::vector<int64_t> height_;  // of the state that is being expanded
  std::vector<int64_t> slack_;
  std::vector<uint32_t> ends_;  // see FindEnds
  std::vector<int64_t> addresses_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_BEAM_SEARCH_H_
