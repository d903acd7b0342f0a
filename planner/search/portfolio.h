// Many attempts at one problem, run in parallel, with an outcome that does not depend on threads.
#ifndef REPRISE_PLANNER_SEARCH_PORTFOLIO_H_
#define REPRISE_PLANNER_SEARCH_PORTFOLIO_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/core/search.h"
#include "planner/placement/boxing.h"
#include "planner/placement/fit.h"
#include "planner/search/beam_search.h"
#include "planner/search/ejection_search.h"
#include "planner/search/kernel.h"
#include "planner/search/peak_sweep.h"
#include "planner/search/sampled_order.h"
#include "planner/search/valley_search.h"

namespace reprise::planner {

// Attempts run in rounds. One depends on nothing but its number, the seed and the incumbent as it
// was when its round began; between rounds a single thread looks at what was learned.
class Portfolio {
 public:
  explicit Portfolio(Search& search);

  // First fit and best fit in the named orders, each once.
  struct NamedOrder {
    Fit fit;
    std::string by;
  };
  void TryOrders(const std::vector<NamedOrder>& orders);

  // The standard peak sweeps [from, to).
  void TryPeakSweeps(int from, int to);

  // Peak sweeps of a plain problem around rocks that lie at `places`.
  void SweepAround(const std::vector<uint32_t>& rocks, const Addresses& places);

  enum class Kind {
    kSampleFirstFit,
    kSampleBestFit,
    kPeakSweep,
    kBoxing,
    kKernel,
    kValley,
    kValleyRelaxed,
    kBeam,
    kEjection
  };
  static constexpr size_t kKinds = 9;

  // Rounds of attempts of these kinds, over and over, until the incumbent reaches the target, time
  // is up or options.iterations attempts were made, or as many as `attempts` says.
  void Improve(const std::vector<Kind>& kinds, int64_t attempts = 0);

  // First fit in the order of the addresses of a packing that need not be legal.
  void Squeeze(const Addresses& addresses, const std::string& finder);

  // Those that suit a problem, for `auto`.
  static std::vector<Kind> KindsFor(const Problem& problem);

  // Whether the problem is small enough for valley search, for beam search.
  static bool SuitsValleySearch(const Problem& problem);
  static bool SuitsBeamSearch(const Problem& problem);

 private:
  struct Worker {
    std::unique_ptr<Occupancy> occupancy;
    std::unique_ptr<PeakSweep> sweep;
    std::unique_ptr<ValleySearch> valley;
    std::unique_ptr<BeamSearch> beam;
    std::unique_ptr<EjectionSearch> ejection;
  };

  // One of a round. Its outcome depends on nothing else but the round's members.
  struct Attempt {
    Kind kind;
    int64_t number;  // among those of its kind
    int64_t rank;    // of what it finds (Incumbent::Offer)
  };
  struct Round {
    std::vector<Attempt> attempts;
    int64_t bound = 0;  // a makespan below which there is nothing, units
    int64_t room = 0;   // from there to the best makespan that would be an improvement, units
    int helpers = 1;    // threads for one attempt
  };
  // Makes the tables that these kinds need. False: there is no time for them.
  bool Prepare(const std::vector<Kind>& kinds);
  Round BeginRound(const std::vector<Kind>& kinds, int64_t done, int64_t count);
  void Run(const Attempt& attempt, const Round& round, Worker& worker);

  void SqueezeAs(const Addresses& addresses, const std::string& finder, int64_t rank,
                 Worker& worker);
  void SampleOrder(Fit fit, int64_t rank, Worker& worker);
  void SolveKernel(int64_t attempt, int64_t capacity, int64_t rank, Worker& worker);
  void NoteImpossible(int64_t capacity);
  void Valley(int64_t capacity, int64_t attempt, int64_t rank, Worker& worker);
  void Beam(int64_t capacity, int64_t attempt, int64_t rank, Worker& worker);
  void Eject(int64_t attempt, int64_t rank, Worker& worker);
  void FindLongLived();
  void PinLongLived();
  void Sweep(const PeakRecipe& recipe, int64_t rank, Worker& worker);
  PeakSweep& SweepOf(Worker& worker);
  void Box(int64_t attempt, int threads, int64_t rank, Worker& worker);
  void FitInOrder(Fit fit, const std::vector<uint32_t>& order, const std::string& finder,
                  int64_t rank, Worker& worker);
  Occupancy& OccupancyOf(Worker& worker);

  Search& search_;
  std::unique_ptr<OrderSampler> sampler_;
  std::unique_ptr<PeakTables> peak_tables_;
  std::unique_ptr<Boxer> boxer_;
  std::vector<Kernel> kernels_;
  double epsilon_ = 0;  // calibrated
  std::vector<Worker> workers_;
  int64_t next_rank_ = 1;
  std::array<int64_t, kKinds> next_number_{};  // by Kind: of its next attempt
  Addresses round_start_;                      // the incumbent when the round began
  int64_t round_makespan_ = INT64_MAX;         // its makespan
  std::vector<uint32_t> long_lived_;     // the few that live for a quarter of the time or more
  Addresses round_settled_;              // the incumbent with those at the bottom; empty: as it is
  std::atomic<int64_t> impossible_{-1};  // the largest capacity shown to be too small this round
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_PORTFOLIO_H_
