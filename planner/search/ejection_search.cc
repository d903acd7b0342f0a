#include "planner/search/ejection_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise::planner {

EjectionSearch::EjectionSearch(const Problem& problem)
    : problem_(problem),
      concurrent_(problem.jobs),
      hardness_(problem.size()),
      weight_(problem.size()) {}

// Calls visit(other) for the jobs with an address whose lifetimes overlap that of `job`.
template <typename Visit>
void EjectionSearch::ForConcurrent(uint32_t job, Visit visit) const {
  concurrent_.ForEach(problem_.jobs[job], [&](uint32_t other) {
    if (addresses_[other] >= 0) visit(other);
  });
}

// Calls visit(lower, upper) for the open ranges of addresses at which `job` would meet `other`.
template <typename Visit>
void EjectionSearch::ForRanges(uint32_t job, uint32_t other, Visit visit) const {
  const int64_t at = addresses_[other];
  if (problem_.first_piece.empty()) {
    return visit(at - problem_.jobs[job].size, at + problem_.jobs[other].size);
  }
  uint32_t p = problem_.first_piece[job];
  uint32_t q = problem_.first_piece[other];
  while (p < problem_.first_piece[job + 1] && q < problem_.first_piece[other + 1]) {
    const Piece& x = problem_.pieces[p];
    const Piece& y = problem_.pieces[q];
    if (x.lower < y.upper && y.lower < x.upper) {
      visit(at + y.window_lower - x.window_upper, at + y.window_upper - x.window_lower);
    }
    (x.upper < y.upper ? p : q)++;
  }
}

void EjectionSearch::DrawWeights(Random& random) {
  const double by_span = random.Unit();
  const double by_size = 0.5 + random.Unit();
  growth_ = 0.02 + 0.5 * random.Unit() * random.Unit();
  for (uint32_t j = 0; j < problem_.size(); ++j) {
    const Job& job = problem_.jobs[j];
    const double span = static_cast<double>(job.upper - job.lower) / problem_.sections;
    const int64_t need = RoundUp(job.size, problem_.alignment(j));
    const double size = static_cast<double>(need) / static_cast<double>(problem_.max_load);
    hardness_[j] = 1 + 1e6 * std::pow(span, by_span) * std::pow(size, by_size);
  }
  weight_ = hardness_;
}

void EjectionSearch::EjectAbove(int64_t capacity) {
  for (uint32_t j = 0; j < problem_.size(); ++j) {
    if (given_[j] || addresses_[j] + problem_.jobs[j].size <= capacity) continue;
    addresses_[j] = -1;
    pool_.push_back(j);
  }
}

// The one that weighs most: the others may still fit beside it.
uint32_t EjectionSearch::TakeFromPool() {
  const auto heaviest = std::max_element(
      pool_.begin(), pool_.end(), [&](uint32_t a, uint32_t b) { return weight_[a] < weight_[b]; });
  const uint32_t job = *heaviest;
  *heaviest = pool_.back();
  pool_.pop_back();
  return job;
}

int64_t EjectionSearch::AlignDown(uint32_t job, int64_t address) const {
  return problem_.AlignUp(job, address - problem_.alignment(job) + 1);
}

void EjectionSearch::AddEvents(uint32_t job, uint32_t other, int64_t last) {
  int64_t lower = 0;  // what ranges overlap is one
  int64_t upper = -1;
  const auto add = [&] {
    if (lower >= upper || upper <= 0 || last <= lower) return;
    const auto from = static_cast<uint64_t>(std::max<int64_t>(lower + 1, 0));
    events_.push_back({2 * from + 1, other});
    events_.push_back({2 * static_cast<uint64_t>(upper), other});
  };
  ForRanges(job, other, [&](int64_t from, int64_t to) {
    if (from < upper && lower < to) {
      lower = std::min(lower, from);
      upper = std::max(upper, to);
    } else {
      add();
      lower = from;
      upper = to;
    }
  });
  add();
}

void EjectionSearch::CollectEvents(uint32_t job, int64_t last) {
  events_.clear();
  ForConcurrent(job, [&](uint32_t other) { AddEvents(job, other, last); });
  SortByKey(events_, scratch_);
}

void EjectionSearch::EjectWhatMeets(uint32_t job, int64_t address) {
  ForConcurrent(job, [&](uint32_t other) {
    bool meets = false;
    ForRanges(job, other, [&](int64_t lower, int64_t upper) {
      meets = meets || (lower < address && address < upper);
    });
    if (!meets) return;
    addresses_[other] = -1;
    pool_.push_back(other);
  });
}

// False: there is no room beside what is given.
bool EjectionSearch::Place(uint32_t job, int64_t capacity, Random& random) {
  const int64_t last = capacity - problem_.jobs[job].size;
  CollectEvents(job, last);
  double weight = 0;
  int64_t met = 0;
  int64_t met_given = 0;
  double least = std::numeric_limits<double>::infinity();
  int64_t tightest = INT64_MAX;  // of the gaps in which nothing is met
  int64_t address = -1;
  uint32_t ties = 0;
  // Between two events the same is met everywhere: it lies at one end or the other.
  auto event = events_.begin();
  for (int64_t from = 0, next = 0; from <= last; from = next) {
    for (; event != events_.end() && static_cast<int64_t>(event->key / 2) <= from; ++event) {
      const int sign = event->key % 2 == 1 ? 1 : -1;
      if (given_[event->id]) {
        met_given += sign;
      } else {
        met += sign;
        weight += sign * weight_[event->id];
      }
    }
    next = last + 1;
    if (event != events_.end()) next = std::min(next, static_cast<int64_t>(event->key / 2));
    // Rounding may have taken all from the sum, or left something; none weighs less than 1.
    const double cost = met == 0 ? 0 : std::max(weight, 1.0);
    if (met_given > 0 || cost > least) continue;
    const int64_t lowest = problem_.AlignUp(job, from);
    const int64_t highest = problem_.solid ? next - 1 : AlignDown(job, next - 1);
    const int64_t spare = cost == 0 ? next - from : INT64_MAX;
    if (lowest > highest || (cost == least && spare > tightest)) continue;
    ties = cost < least || spare < tightest ? 1 : ties + 1;
    least = cost;
    tightest = spare;
    if (random.Below(ties) == 0) address = random.Below(2) == 0 ? lowest : highest;
  }
  if (address < 0) return false;
  if (least > 0) EjectWhatMeets(job, address);
  addresses_[job] = address;
  weight_[job] += growth_ * hardness_[job];
  return true;
}

bool EjectionSearch::Run(const Start& start, int64_t bound, Random& random, int64_t moves,
                         const std::function<bool()>& stop) {
  addresses_ = start.addresses;
  given_.assign(problem_.size(), 0);
  for (const uint32_t j : problem_.fixed) given_[j] = 1;
  for (const uint32_t j : start.stay) {
    given_[j] = addresses_[j] + problem_.jobs[j].size <= bound ? 1 : 0;
  }
  DrawWeights(random);
  bool better = false;
  int64_t makespan = start.makespan;
  int64_t step = std::max<int64_t>(1, (makespan - bound) / 32);
  while (makespan > bound) {
    const int64_t capacity = std::max(bound, makespan - step);
    pool_.clear();
    EjectAbove(capacity);
    for (int64_t done = 0; !pool_.empty(); ++done) {
      if (done >= moves || (done % 8 == 0 && stop())) return better;
      if (!Place(TakeFromPool(), capacity, random)) return better;
    }
    best_ = addresses_;
    better = true;
    makespan = Makespan(problem_, best_);
    step = std::max<int64_t>(1, std::min(2 * step, (makespan - bound) / 4));
  }
  return better;
}

}  // namespace reprise::planner
