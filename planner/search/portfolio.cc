#include "planner/search/portfolio.h"

#include <algorithm>

#include "planner/core/order.h"
#include "planner/core/parallel.h"
#include "planner/core/runs.h"
#include "planner/core/sort.h"

namespace reprise::planner {
namespace {

// Attempts in a round; more than any machine has threads, or cores would idle at its end.
constexpr int64_t kRound = 32;

// Decisions of the shortest valley search. The n-th may take Luby(n) times as many: run times have
// heavy tails, so most searches are cut short and a few run long (Luby, Sinclair, Zuckerman 1993).
// Each takes at least one decision per job.
constexpr int64_t kNodes = 2000;

// Jobs: a problem with more is seldom packed from nothing, by decisions that must all be right.
constexpr uint32_t kMostFromNothing = 4000;

// Partial packings of the narrowest beam search; the others follow Luby's sequence, too.
constexpr int64_t kBeamWidth = 16;

// Jobs times sections: above this a beam search takes seconds and copies too much.
constexpr uint64_t kMostBeamCells = 1'000'000;

// Per buffer: about what the tables of peak sweeps and the better part of a sweep take. With less
// time left they would only delay the end.
constexpr double kTableSeconds = 1.6e-7;
constexpr uint32_t kMostWhenLate = 3'000'000;

// Moves without success that end the shortest ejection search.
constexpr int64_t kMoves = 300;

// Ejection searches that begin with the long-lived at the bottom, before every other one does.
// Where the first packings have those in the middle, a search takes a hundred times as long.
constexpr int64_t kSettledFirst = 32;

// Peak sweeps for each ejection search where the heap stays full: those take that much longer.
constexpr size_t kSweepsPerSearch = 15;

// Around rocks whose places are given. The first takes a fraction of the time of the others.
constexpr int64_t kSweepsAround = 4;

int64_t Luby(int64_t n) {
  for (int64_t k = 1;; k = 2 * k + 1) {
    if (n == k) return (k + 1) / 2;
    if (n < 2 * k + 1) return Luby(n - k);
  }
}

bool Contains(const std::vector<Portfolio::Kind>& kinds, Portfolio::Kind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

Portfolio::Portfolio(Search& search) : search_(search), workers_(search.threads) {}

bool Portfolio::SuitsValleySearch(const Problem& problem) {
  return problem.sections > 0 && problem.size() <= 20'000 && problem.sections <= 4'000;
}

bool Portfolio::SuitsBeamSearch(const Problem& problem) {
  return problem.solid && uint64_t{problem.size()} * problem.sections <= kMostBeamCells;
}

std::vector<Portfolio::Kind> Portfolio::KindsFor(const Problem& problem) {
  if (SuitsValleySearch(problem)) {
    // Searches at the bound end it at once when they are lucky; those above it see to it that the
    // incumbent is good when they are not. A beam search takes as long as a dozen of them.
    constexpr Kind kBound = Kind::kValley;
    constexpr Kind kAbove = Kind::kValleyRelaxed;
    const Kind beam = SuitsBeamSearch(problem) ? Kind::kBeam : Kind::kSampleFirstFit;
    const Kind kernel = problem.plain ? Kind::kKernel : Kind::kEjection;
    std::vector<Kind> kinds = {kBound,
                               kAbove,
                               kernel,
                               kAbove,
                               kBound,
                               kAbove,
                               kBound,
                               kAbove,
                               kBound,
                               kAbove,
                               kBound,
                               kAbove,
                               Kind::kSampleFirstFit,
                               kBound,
                               kAbove,
                               beam,
                               kAbove,
                               kBound,
                               kAbove,
                               Kind::kEjection,
                               kernel,
                               kAbove,
                               kBound,
                               kAbove,
                               kBound,
                               kAbove,
                               Kind::kSampleBestFit,
                               kBound,
                               kAbove};
    if (problem.size() > kMostFromNothing) {
      // An ejection search begins with a packing: half of the attempts.
      for (size_t i = 0; i < kinds.size(); i += 2) kinds.insert(kinds.begin() + i, Kind::kEjection);
    }
    if (!problem.solid && problem.pieces.empty()) {
      // With alignments the order of a few large ones may be all that matters. Orders take a
      // thirtieth of the time of a search.
      std::vector<Kind> with_orders;
      for (const Kind kind : kinds) {
        with_orders.insert(with_orders.end(), {kind, Kind::kSampleFirstFit, Kind::kSampleBestFit,
                                               Kind::kSampleFirstFit, Kind::kSampleBestFit});
      }
      return with_orders;
    }
    return kinds;
  }
  if (problem.plain && StaysFull(problem)) {
    std::vector<Kind> kinds(kSweepsPerSearch, Kind::kPeakSweep);
    kinds.push_back(Kind::kEjection);
    return kinds;
  }
  if (problem.plain) {
    // Ejection searches take less time than placement in an order, and peak sweeps the least.
    std::vector<Kind> kinds;
    for (const Kind kind : {Kind::kSampleFirstFit, Kind::kKernel, Kind::kSampleBestFit,
                            Kind::kKernel, Kind::kBoxing, Kind::kKernel}) {
      for (const Kind search : {Kind::kEjection, kind}) {
        kinds.push_back(search);
        kinds.insert(kinds.end(), 4, Kind::kPeakSweep);
      }
    }
    return kinds;
  }
  return {Kind::kSampleFirstFit, Kind::kEjection, Kind::kPeakSweep,
          Kind::kSampleBestFit,  Kind::kEjection, Kind::kPeakSweep};
}

Occupancy& Portfolio::OccupancyOf(Worker& worker) {
  if (!worker.occupancy) worker.occupancy = std::make_unique<Occupancy>(search_.problem);
  return *worker.occupancy;
}

void Portfolio::TryOrders(const std::vector<NamedOrder>& orders) {
  const int64_t first_rank = next_rank_;
  next_rank_ += static_cast<int64_t>(orders.size());
  ParallelFor(search_.threads, static_cast<int64_t>(orders.size()), [&](int64_t i, int w) {
    const int64_t rank = first_rank + i;
    if (search_.Stop(rank)) return false;
    const auto& [fit, by] = orders[i];
    FitInOrder(fit, OrderByName(search_.problem, by),
               (fit == Fit::kFirst ? "first_fit_by_" : "best_fit_by_") + by, rank, workers_[w]);
    return true;
  });
}

void Portfolio::FitInOrder(Fit fit, const std::vector<uint32_t>& order, const std::string& finder,
                           int64_t rank, Worker& worker) {
  Addresses addresses =
      PlaceInOrder(search_.problem, OccupancyOf(worker), order, fit, search_.incumbent.Limit(rank),
                   [&] { return search_.Stop(rank); });
  if (addresses.empty()) return;
  const int64_t makespan = Makespan(search_.problem, addresses);
  search_.incumbent.Offer(std::move(addresses), makespan, finder, rank);
}

void Portfolio::Box(int64_t attempt, int threads, int64_t rank, Worker& worker) {
  Random random(search_.options.seed, rank);
  const EpsilonRange legal = boxer_->legal();
  // Now and then the calibrated epsilon, else a random one (idealloc, section 7.2.1).
  const double epsilon =
      attempt % 4 == 0 ? epsilon_ : legal.lower + random.Unit() * (legal.upper - legal.lower);
  const auto stop = [&] { return search_.Stop(rank); };
  const Boxing boxing = boxer_->Run(epsilon, random, threads, stop);
  if (stop()) return;
  FitInOrder(Fit::kFirst, Boxer::Unbox(boxing, random), "idealloc", rank, worker);
}

void Portfolio::SqueezeAs(const Addresses& addresses, const std::string& finder, int64_t rank,
                          Worker& worker) {
  std::vector<KeyedId> keyed;
  for (uint32_t j = 0; j < search_.problem.size(); ++j) {
    keyed.push_back({Ascending(addresses[j]), j});
  }
  std::vector<KeyedId> scratch;
  SortByKey(keyed, scratch);
  std::vector<uint32_t> order;
  for (const KeyedId& k : keyed) order.push_back(k.id);
  FitInOrder(Fit::kFirst, order, finder, rank, worker);
}

void Portfolio::Squeeze(const Addresses& addresses, const std::string& finder) {
  SqueezeAs(addresses, finder, next_rank_++, workers_[0]);
}

PeakSweep& Portfolio::SweepOf(Worker& worker) {
  if (!worker.sweep) worker.sweep = std::make_unique<PeakSweep>(*peak_tables_);
  return *worker.sweep;
}

void Portfolio::Sweep(const PeakRecipe& recipe, int64_t rank, Worker& worker) {
  // A sweep makes no use of gaps: with them it is a mere order.
  const bool gaps = !search_.problem.pieces.empty();
  // What would come in place of the first packing, were it cut short, would take as long.
  const auto stop = [&] { return rank == 1 ? search_.Cancelled() : search_.Settled(rank); };
  Addresses addresses =
      SweepOf(worker).Run(recipe, gaps ? INT64_MAX : search_.incumbent.Limit(rank), stop);
  if (addresses.empty()) return;
  if (gaps) return SqueezeAs(addresses, "peak_sweep", rank, worker);
  const int64_t makespan = Makespan(search_.problem, addresses);
  search_.incumbent.Offer(std::move(addresses), makespan, "peak_sweep", rank);
}

void Portfolio::TryPeakSweeps(int from, int to) {
  const bool late = search_.SecondsLeft() < kTableSeconds * search_.problem.size();
  // A first plan is worth a tenth of a second per million buffers, but not seconds.
  const bool needed =
      search_.incumbent.makespan() == INT64_MAX && search_.problem.size() <= kMostWhenLate;
  if (!peak_tables_ && late && !needed) return;
  if (!peak_tables_) peak_tables_ = std::make_unique<PeakTables>(search_.problem);
  const int64_t first_rank = next_rank_;
  next_rank_ += to - from;
  ParallelFor(search_.threads, to - from, [&](int64_t i, int w) {
    const int64_t rank = first_rank + i;
    if (search_.Settled(rank) && !(needed && i == 0)) return false;
    Sweep(StandardPeakRecipe(*peak_tables_, from + static_cast<int>(i)), rank, workers_[w]);
    return true;
  });
}

void Portfolio::SweepAround(const std::vector<uint32_t>& rocks, const Addresses& places) {
  if (!peak_tables_) peak_tables_ = std::make_unique<PeakTables>(search_.problem);
  const int64_t first_rank = next_rank_;
  next_rank_ += kSweepsAround;
  ParallelFor(search_.threads, kSweepsAround, [&](int64_t i, int w) {
    const int64_t rank = first_rank + i;
    if (search_.Settled(rank)) return false;
    Random random(search_.options.seed, rank);
    PeakRecipe recipe;
    if (i > 0) recipe = DrawPeakRecipe(*peak_tables_, random);
    recipe.rocks = rocks;
    recipe.places = places;
    recipe.by_hills = false;
    Sweep(recipe, rank, workers_[w]);
    return true;
  });
}

void Portfolio::SampleOrder(Fit fit, int64_t rank, Worker& worker) {
  Random random(search_.options.seed, rank);
  const std::vector<uint32_t> order = sampler_->Draw(random);
  FitInOrder(fit, order, "sampled_orders", rank, worker);
}

// Packs a kernel by valley search, then everything else around it by first fit.
void Portfolio::SolveKernel(int64_t attempt, int64_t capacity, int64_t rank, Worker& worker) {
  const auto count = static_cast<int64_t>(kernels_.size());
  const Kernel& kernel = kernels_[attempt % count];
  Random random(search_.options.seed, rank);
  ValleySearch valley(kernel.problem);
  const auto stop = [&] { return search_.Stop(rank); };
  const ValleySearch::Outcome outcome =
      valley.Run(capacity / kernel.scale, random, kNodes * Luby(attempt / count + 1), stop);
  if (outcome == ValleySearch::Outcome::kImpossible) {
    NoteImpossible((capacity / kernel.scale + 1) * kernel.scale - 1);
  }
  if (outcome != ValleySearch::Outcome::kFound) return;
  Addresses placed(search_.problem.size(), -1);
  for (uint32_t k = 0; k < kernel.jobs.size(); ++k) {
    placed[kernel.jobs[k]] = valley.addresses()[k] * kernel.scale;
  }
  constexpr int kCompletions = 3;
  for (int i = 0; i < kCompletions && !stop(); ++i) {
    const std::vector<uint32_t> order =
        i == 0 ? OrderByName(search_.problem, "max_load") : sampler_->Draw(random);
    Addresses addresses = PlaceInOrder(search_.problem, OccupancyOf(worker), order, Fit::kFirst,
                                       search_.incumbent.Limit(rank), stop, placed);
    if (addresses.empty()) continue;
    const int64_t makespan = Makespan(search_.problem, addresses);
    search_.incumbent.Offer(std::move(addresses), makespan, "kernel_first", rank);
  }
}

void Portfolio::NoteImpossible(int64_t capacity) {
  int64_t known = impossible_;
  while (known < capacity && !impossible_.compare_exchange_weak(known, capacity)) {
  }
}

void Portfolio::Valley(int64_t capacity, int64_t attempt, int64_t rank, Worker& worker) {
  if (!worker.valley) worker.valley = std::make_unique<ValleySearch>(search_.problem);
  Random random(search_.options.seed, rank);
  const int64_t nodes = std::max<int64_t>(kNodes, search_.problem.size()) * Luby(attempt + 1);
  const ValleySearch::Outcome outcome =
      worker.valley->Run(capacity, random, nodes, [&] { return search_.Stop(rank); });
  if (outcome == ValleySearch::Outcome::kFound) {
    Addresses addresses = worker.valley->addresses();
    const int64_t makespan = Makespan(search_.problem, addresses);
    search_.incumbent.Offer(std::move(addresses), makespan, "valley_search", rank);
  } else if (outcome == ValleySearch::Outcome::kImpossible) {
    NoteImpossible(capacity);
  }
}

void Portfolio::Beam(int64_t capacity, int64_t attempt, int64_t rank, Worker& worker) {
  if (!worker.beam) worker.beam = std::make_unique<BeamSearch>(search_.problem);
  Random random(search_.options.seed, rank);
  if (!worker.beam->Run(capacity, random, kBeamWidth * Luby(attempt + 1),
                        [&] { return search_.Stop(rank); })) {
    return;
  }
  Addresses addresses = worker.beam->addresses();
  const int64_t makespan = Makespan(search_.problem, addresses);
  search_.incumbent.Offer(std::move(addresses), makespan, "beam_search", rank);
}

// A few small jobs that live long, here and there in the middle of a long problem, are in the way
// all the time; and where one of them gives way it meets half of the problem wherever it goes.
void Portfolio::FindLongLived() {
  const Problem& problem = search_.problem;
  const auto span = [&](uint32_t j) { return problem.jobs[j].upper - problem.jobs[j].lower; };
  long_lived_.clear();
  // Placement in an order takes longer than the searches of a heap.
  if (!SuitsValleySearch(problem) && StaysFull(problem)) return;
  for (uint32_t j = 0; j < problem.size(); ++j) {
    if (span(j) >= problem.sections / 4) long_lived_.push_back(j);
  }
  if (long_lived_.size() > problem.size() / 16) long_lived_.clear();
  std::stable_sort(long_lived_.begin(), long_lived_.end(),
                   [&](uint32_t a, uint32_t b) { return span(a) > span(b); });
}

// Packs them first, then the others from the bottom up.
void Portfolio::PinLongLived() {
  round_settled_.clear();
  if (long_lived_.empty() || round_start_.empty()) return;
  std::vector<KeyedId> keyed, scratch;
  for (uint32_t j = 0; j < search_.problem.size(); ++j) {
    keyed.push_back({Ascending(round_start_[j]), j});
  }
  SortByKey(keyed, scratch);
  std::vector<uint32_t> order = long_lived_;
  for (const KeyedId& k : keyed) order.push_back(k.id);
  round_settled_ = PlaceInOrder(search_.problem, OccupancyOf(workers_[0]), order, Fit::kFirst,
                                INT64_MAX, [&] { return search_.OutOfTime(); });
}

void Portfolio::Eject(int64_t attempt, int64_t rank, Worker& worker) {
  if (round_start_.empty()) return;
  if (!worker.ejection) worker.ejection = std::make_unique<EjectionSearch>(search_.problem);
  Random random(search_.options.seed, rank);
  static const std::vector<uint32_t> kNone;
  const bool settled = (attempt % 2 == 1 || attempt < kSettledFirst) && !round_settled_.empty();
  const EjectionSearch::Start start{settled ? round_settled_ : round_start_, round_makespan_,
                                    settled && attempt % 4 == 1 ? long_lived_ : kNone};
  if (!worker.ejection->Run(start, search_.lower_bound, random, kMoves * Luby(attempt + 1),
                            [&] { return search_.Stop(rank); })) {
    return;
  }
  Addresses addresses = worker.ejection->addresses();
  const int64_t makespan = Makespan(search_.problem, addresses);
  search_.incumbent.Offer(std::move(addresses), makespan, "ejection_search", rank);
}

bool Portfolio::Prepare(const std::vector<Kind>& kinds) {
  for (const Kind kind : kinds) {
    const bool samples =
        kind == Kind::kSampleFirstFit || kind == Kind::kSampleBestFit || kind == Kind::kKernel;
    if (kind == Kind::kKernel && kernels_.empty()) kernels_ = MakeKernels(search_.problem);
    if (samples && !sampler_) sampler_ = std::make_unique<OrderSampler>(search_.problem);
    if (kind == Kind::kBoxing && !boxer_) {
      boxer_ = std::make_unique<Boxer>(search_.problem);
      Random random(search_.options.seed);
      epsilon_ = boxer_->Calibrate(random, search_.threads, [&] { return search_.OutOfTime(); });
    }
    if (kind == Kind::kPeakSweep && !peak_tables_) {
      if (search_.SecondsLeft() < kTableSeconds * search_.problem.size()) return false;
      peak_tables_ = std::make_unique<PeakTables>(search_.problem);
    }
  }
  if (Contains(kinds, Kind::kEjection)) FindLongLived();
  return true;
}

Portfolio::Round Portfolio::BeginRound(const std::vector<Kind>& kinds, int64_t done,
                                       int64_t count) {
  Round round;
  round.bound = search_.lower_bound;
  round.room = search_.incumbent.makespan() - 1 - round.bound;
  // With fewer attempts than threads, the others help within.
  round.helpers = std::max<int>(1, static_cast<int>(search_.threads / count));
  for (int64_t i = 0; i < count; ++i) {
    const Kind kind = kinds[(done + i) % kinds.size()];
    // Numbered before they start, so that their node limits do not depend on threads.
    const int64_t number =
        kind == Kind::kBoxing ? done + i : next_number_[static_cast<int>(kind)]++;
    round.attempts.push_back({kind, number, next_rank_ + i});
  }
  next_rank_ += count;
  impossible_ = -1;
  if (Contains(kinds, Kind::kEjection) && search_.incumbent.makespan() != round_makespan_) {
    round_start_ = search_.incumbent.addresses();
    round_makespan_ = search_.incumbent.makespan();
    PinLongLived();
  }
  return round;
}

void Portfolio::Run(const Attempt& attempt, const Round& round, Worker& worker) {
  const auto& [kind, number, rank] = attempt;
  switch (kind) {
    case Kind::kSampleFirstFit:
      return SampleOrder(Fit::kFirst, rank, worker);
    case Kind::kSampleBestFit:
      return SampleOrder(Fit::kBest, rank, worker);
    case Kind::kPeakSweep: {
      Random random(search_.options.seed, rank);
      return Sweep(DrawPeakRecipe(*peak_tables_, random), rank, worker);
    }
    case Kind::kBoxing:
      return Box(number, round.helpers, rank, worker);
    case Kind::kKernel: {
      if (kernels_.empty()) return SampleOrder(Fit::kFirst, rank, worker);
      // Mostly at the bound, sometimes with room to spare: 1/4 of it, 1/8 ...
      const int64_t spare = number / static_cast<int64_t>(kernels_.size()) % 8;
      const int64_t more = spare % 2 == 0 ? 0 : round.room >> (2 + spare / 2);
      return SolveKernel(number, round.bound + more, rank, worker);
    }
    case Kind::kValley:
      return Valley(round.bound, number, rank, worker);
    case Kind::kValleyRelaxed: {
      // Halfway to the incumbent, 1/4 of the way, 1/8 ...; the last just beats it.
      const int64_t more = number % 5 == 4 ? round.room : round.room >> (1 + number % 5);
      return Valley(round.bound + more, number, rank, worker);
    }
    case Kind::kBeam:
      return Beam(round.bound + (round.room >> (number % 4)), number, rank, worker);
    case Kind::kEjection:
      return Eject(number, rank, worker);
  }
}

void Portfolio::Improve(const std::vector<Kind>& kinds, int64_t attempts) {
  if (search_.Done() || search_.OutOfTime()) return;  // the tables below take their time
  int64_t most = search_.options.iterations > 0 ? search_.options.iterations : INT64_MAX;
  if (attempts > 0) most = attempts;
  if (!Prepare(kinds)) return;
  for (int64_t done = 0; done < most && !search_.Done() && !search_.OutOfTime();) {
    const int64_t count = std::min(kRound, most - done);
    const Round round = BeginRound(kinds, done, count);
    ParallelFor(search_.threads, count, [&](int64_t i, int worker) {
      if (search_.Stop(round.attempts[i].rank)) return false;
      Run(round.attempts[i], round, workers_[worker]);
      return true;
    });
    done += count;
    if (impossible_ >= 0) search_.RaiseBound(impossible_ + 1);
  }
}

}  // namespace reprise::planner
