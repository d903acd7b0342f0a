#include "planner/core/problem.h"

#include <algorithm>
#include <numeric>

#include "planner/core/sections.h"
#include "planner/core/sort.h"

namespace reprise::planner {
namespace {

// A stretch of time in which a job occupies memory, before time is compressed.
struct Stretch {
  int64_t lower;
  int64_t upper;
  int64_t window_lower;  // bytes, then units
  int64_t window_upper;
};

void SplitAtGaps(const Instance& instance, Problem& problem, std::vector<Stretch>& stretches) {
  size_t gap = 0;
  for (uint32_t i = 0; i < instance.buffers.size(); ++i) {
    problem.first_piece.push_back(static_cast<uint32_t>(stretches.size()));
    const Buffer& buffer = instance.buffers[i];
    const int64_t size = RoundUp(buffer.size, instance.alignment);
    int64_t from = buffer.lower;
    for (; gap < instance.gaps.size() && instance.gaps[gap].buffer == i; ++gap) {
      const Gap& g = instance.gaps[gap];
      if (g.lower > from) stretches.push_back({from, g.lower, 0, size});
      if (g.window_lower < g.window_upper) {
        stretches.push_back({g.lower, g.upper, g.window_lower, g.window_upper});
      }
      from = g.upper;
    }
    if (from < buffer.upper) stretches.push_back({from, buffer.upper, 0, size});
  }
  problem.first_piece.push_back(static_cast<uint32_t>(stretches.size()));
}

// Above this many instants per item time is not dense.
constexpr uint64_t kDense = 32;

// Numbers the sections. `lower(i)`, `upper(i)` are the times of item i; `set(i, lower, upper)`
// receives its sections.
template <typename Lower, typename Upper, typename Set>
uint32_t Compress(uint32_t n, Lower lower, Upper upper, Set set) {
  int64_t least = INT64_MAX;
  int64_t most = INT64_MIN;
  for (uint32_t i = 0; i < n; ++i) {
    least = std::min(least, lower(i));
    most = std::max(most, upper(i));
  }
  const uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (n == 0) return 0;
  if (range / kDense < n) {
    DenseSections dense(range + 1);
    for (uint32_t i = 0; i < n; ++i) dense.Add(lower(i) - least, upper(i) - least);
    const uint32_t sections = dense.Number();
    for (uint32_t i = 0; i < n; ++i) set(i, dense.At(lower(i) - least), dense.At(upper(i) - least));
    return sections;
  }
  const std::vector<uint32_t> births = OrderByTime(n, lower);
  const std::vector<uint32_t> deaths = OrderByTime(n, upper);
  std::vector<uint32_t> first(n);
  uint32_t section = 0;
  bool died = false;  // since the last birth
  size_t dead = 0;
  const auto bury = [&](uint32_t i) {
    section += died ? 0 : 1;
    died = true;
    set(i, first[i], section);
  };
  for (const uint32_t i : births) {
    while (upper(deaths[dead]) <= lower(i)) bury(deaths[dead++]);
    died = false;
    first[i] = section;
  }
  while (dead < deaths.size()) bury(deaths[dead++]);
  return section;
}

// The load of every section from what is added and taken away there.
void SumLoads(Problem& problem) {
  int64_t now = 0;
  for (int64_t& load : problem.load) {
    now += load;
    load = now;
    problem.max_load = std::max(problem.max_load, now);
  }
}

// `load` more in the sections [lower, upper), for SumLoads.
void AddLoad(Problem& problem, uint32_t lower, uint32_t upper, int64_t load) {
  problem.load[lower] += load;
  if (upper < problem.sections) problem.load[upper] -= load;
}

// Divides all sizes, and where there are such things also alignments, given addresses and windows.
int64_t CommonUnit(const Problem& problem, const Instance& instance) {
  int64_t unit = problem.plain ? 0 : instance.alignment;
  for (const Job& job : problem.jobs) {
    unit = std::gcd(unit, job.size);
    if (unit == 1 || (problem.plain && unit == instance.alignment)) break;
  }
  for (const uint32_t i : problem.fixed) {
    unit = std::gcd(unit, instance.fixed_offsets[i] - problem.base);
  }
  for (const Gap& gap : instance.gaps) {
    unit = std::gcd(unit, std::gcd(gap.window_lower, gap.window_upper));
  }
  return std::max<int64_t>(unit, 1);
}

// With gaps: time is compressed by the pieces that jobs consist of.
void CompressPieces(const Instance& instance, Problem& problem) {
  std::vector<Stretch> stretches;
  SplitAtGaps(instance, problem, stretches);
  problem.pieces.resize(stretches.size());
  problem.sections = Compress(
      static_cast<uint32_t>(stretches.size()), [&](uint32_t i) { return stretches[i].lower; },
      [&](uint32_t i) { return stretches[i].upper; },
      [&](uint32_t i, uint32_t lower, uint32_t upper) {
        problem.pieces[i] = {lower, upper, stretches[i].window_lower / problem.unit,
                             stretches[i].window_upper / problem.unit};
      });
  for (uint32_t i = 0; i < problem.size(); ++i) {
    const uint32_t from = problem.first_piece[i];
    const uint32_t to = problem.first_piece[i + 1];
    if (from == to) continue;
    problem.jobs[i].lower = problem.pieces[from].lower;
    problem.jobs[i].upper = problem.pieces[to - 1].upper;
  }
}

}  // namespace

int64_t Problem::alignment(uint32_t job) const {
  if (plain) return 1;
  const int64_t own = instance->alignments.empty() ? 1 : instance->alignments[job];
  return std::max(instance->alignment, own) / unit;
}

int64_t Problem::AlignUp(uint32_t job, int64_t address) const {
  if (plain) return address;
  return RoundUp(address + origin(), alignment(job)) - origin();
}

Problem MakeProblem(const Instance& instance) {
  Problem problem;
  problem.instance = &instance;
  const uint32_t n = static_cast<uint32_t>(instance.buffers.size());
  problem.base = RoundUp(instance.start_address, instance.alignment) - instance.start_address;
  problem.jobs.reserve(n);
  for (const Buffer& buffer : instance.buffers) {
    problem.jobs.push_back({0, 0, RoundUp(buffer.size, instance.alignment)});
  }
  for (uint32_t i = 0; i < instance.fixed_offsets.size(); ++i) {
    if (instance.fixed_offsets[i] != Instance::kFree) problem.fixed.push_back(i);
  }
  problem.solid = instance.gaps.empty();
  for (const int64_t alignment : instance.alignments) {
    problem.solid = problem.solid && alignment <= instance.alignment;
  }
  problem.plain = problem.solid && problem.fixed.empty();
  problem.unit = CommonUnit(problem, instance);

  if (instance.gaps.empty()) {
    problem.sections = Compress(
        n, [&](uint32_t i) { return instance.buffers[i].lower; },
        [&](uint32_t i) { return instance.buffers[i].upper; },
        [&](uint32_t i, uint32_t lower, uint32_t upper) {
          problem.jobs[i].lower = lower;
          problem.jobs[i].upper = upper;
        });
  } else {
    CompressPieces(instance, problem);
  }
  problem.load.resize(problem.sections);
  for (const Piece& piece : problem.pieces) {
    AddLoad(problem, piece.lower, piece.upper, piece.window_upper - piece.window_lower);
  }
  for (uint32_t i = 0; i < n; ++i) {
    Job& job = problem.jobs[i];
    job.size /= problem.unit;
    problem.lower_bound = std::max(problem.lower_bound, job.size);
    problem.end_bound += job.size + (problem.plain ? 0 : problem.alignment(i));
    if (instance.gaps.empty()) AddLoad(problem, job.lower, job.upper, job.size);
  }
  SumLoads(problem);
  problem.lower_bound = std::max(problem.lower_bound, problem.max_load);
  for (const uint32_t i : problem.fixed) {
    const int64_t end = problem.fixed_address(i) + problem.jobs[i].size;
    problem.lower_bound = std::max(problem.lower_bound, end);
    problem.end_bound += std::max<int64_t>(problem.fixed_address(i), 0);
  }
  return problem;
}

int64_t Makespan(const Problem& problem, const std::vector<int64_t>& addresses) {
  int64_t makespan = 0;
  for (uint32_t i = 0; i < problem.size(); ++i) {
    makespan = std::max(makespan, addresses[i] + problem.jobs[i].size);
  }
  return makespan;
}

namespace {

// A segment tree of maxima over the sections' loads.
class LoadTree {
 public:
  explicit LoadTree(const Problem& problem)
      : width_(problem.sections), tree_(2 * size_t{problem.sections}) {
    std::copy(problem.load.begin(), problem.load.end(), tree_.begin() + width_);
    for (uint32_t i = width_; i-- > 1;) tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
  }

  int64_t MaxWithin(const Job& job) const {
    int64_t most = 0;
    for (uint32_t l = job.lower + width_, r = job.upper + width_; l < r; l /= 2, r /= 2) {
      if (l % 2 == 1) most = std::max(most, tree_[l++]);
      if (r % 2 == 1) most = std::max(most, tree_[--r]);
    }
    return most;
  }

 private:
  uint32_t width_;
  std::vector<int64_t> tree_;
};

}  // namespace

std::vector<int64_t> MaxLoadInSpan(const Problem& problem, const std::vector<uint32_t>& jobs) {
  const LoadTree tree(problem);
  std::vector<int64_t> most;
  most.reserve(jobs.size());
  for (const uint32_t j : jobs) most.push_back(tree.MaxWithin(problem.jobs[j]));
  return most;
}

std::vector<int64_t> MaxLoadInSpan(const Problem& problem) {
  const LoadTree tree(problem);
  std::vector<int64_t> most;
  most.reserve(problem.size());
  for (const Job& job : problem.jobs) most.push_back(tree.MaxWithin(job));
  return most;
}

}  // namespace reprise::planner
