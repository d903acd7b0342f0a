#include "planner/peak_sweep.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/portfolio.h"
#include "planner/sort.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

constexpr uint32_t kMostRocks = 16384;

uint64_t StackKey(const Job& job, PeakSweep::Stack stack) {
  switch (stack) {
    case PeakSweep::Stack::kSoonestDead:
      return job.upper;
    case PeakSweep::Stack::kLatestDead:
      return ~uint64_t{job.upper};
    case PeakSweep::Stack::kLatestBorn:
      return ~uint64_t{job.lower};
    case PeakSweep::Stack::kEarliestBorn:
      return job.lower;
    case PeakSweep::Stack::kLargest:
      return Descending(job.size);
  }
  return 0;
}

// Where the load comes within 2 % of its maximum on both sides of a section where it is below 70 %,
// time is cut there.
std::vector<uint32_t> Valleys(const Problem& problem) {
  const double high = 0.98 * static_cast<double>(problem.max_load);
  const double low = 0.7 * static_cast<double>(problem.max_load);
  std::vector<uint32_t> cuts;
  bool seen_peak = false;
  uint32_t lowest = 0;
  for (uint32_t s = 0; s < problem.sections; ++s) {
    if (static_cast<double>(problem.load[s]) >= high) {
      if (seen_peak && static_cast<double>(problem.load[lowest]) < low) cuts.push_back(lowest);
      seen_peak = true;
      lowest = s;
    } else if (problem.load[s] < problem.load[lowest]) {
      lowest = s;
    }
  }
  return cuts;
}

Hill MakeHill(const Problem& problem, uint32_t lower, uint32_t upper) {
  Hill hill{lower, upper, lower, {}};
  for (uint32_t s = lower; s < upper; ++s) {
    if (problem.load[s] > problem.load[hill.peak]) hill.peak = s;
  }
  return hill;
}

}  // namespace

PeakTables::PeakTables(const Problem& the_problem)
    : problem(the_problem), births(Births(the_problem)), deaths(Deaths(the_problem)) {
  whole = MakeHill(problem, 0, problem.sections);
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const Job& job = problem.jobs[j];
    if (job.lower <= whole.peak && whole.peak < job.upper) whole.at_peak.push_back(j);
  }
  // What is born in one section lives together, so its order is ours. The backward sweep sees
  // deaths as births.
  const auto larger = [&](uint32_t a, uint32_t b) {
    const int64_t size_a = problem.jobs[a].size;
    const int64_t size_b = problem.jobs[b].size;
    return size_a != size_b ? size_a > size_b : a < b;
  };
  for (Groups* groups : {&births, &deaths}) {
    for (size_t g = 0; g + 1 < groups->first.size(); ++g) {
      const auto begin = groups->ids.begin() + groups->first[g];
      const auto end = groups->ids.begin() + groups->first[g + 1];
      if (end - begin > 1) std::sort(begin, end, larger);
    }
  }
  const uint32_t count = std::min(problem.size() / 8, kMostRocks);
  largest.resize(problem.size());
  for (uint32_t j = 0; j < problem.size(); ++j) largest[j] = j;
  std::nth_element(largest.begin(), largest.begin() + count, largest.end(), larger);
  largest.resize(count);
  largest.shrink_to_fit();
  std::sort(largest.begin(), largest.end(), larger);
  max_load = MaxLoadInSpan(problem, largest);

  const std::vector<uint32_t> valleys = Valleys(problem);
  if (valleys.empty()) return;
  std::vector<uint32_t> hill_of(problem.sections);
  uint32_t lower = 0;
  for (size_t v = 0; v <= valleys.size(); ++v) {
    const uint32_t upper = v < valleys.size() ? valleys[v] : problem.sections;
    std::fill(hill_of.begin() + lower, hill_of.begin() + upper, static_cast<uint32_t>(v));
    hills.push_back(MakeHill(problem, lower, upper));
    lower = upper;
  }
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const Job& job = problem.jobs[j];
    Hill& hill = hills[hill_of[job.lower]];
    if (job.upper > hill.upper) {
      across.push_back(j);
    } else if (job.lower <= hill.peak && hill.peak < job.upper) {
      hill.at_peak.push_back(j);
    }
  }
  std::sort(across.begin(), across.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t span_a = problem.jobs[a].upper - problem.jobs[a].lower;
    const uint32_t span_b = problem.jobs[b].upper - problem.jobs[b].lower;
    return span_a != span_b ? span_a > span_b : a < b;
  });
}

PeakSweep::PeakSweep(const PeakTables& tables)
    : tables_(tables),
      problem_(tables.problem),
      aligned_(!problem_.instance->alignments.empty()),
      least_alignment_(problem_.instance->alignment / problem_.unit),
      handles_(problem_.size()) {}

PeakSweep::Recipe PeakSweep::Standard(int number) const {
  // The second group is the hills; where there are none, some rocks.
  constexpr std::array<size_t, kRecipes / kStacks> kRocks = {0, 16, 64, 512, 4096};
  const int group = number / kStacks;
  const bool by_hills = group == 1 && !tables_.hills.empty();
  const size_t rocks = by_hills ? 0 : std::min(kRocks[group], tables_.largest.size());
  return {{tables_.largest.begin(), tables_.largest.begin() + rocks},
          static_cast<Stack>(number % kStacks),
          by_hills};
}

PeakSweep::Recipe PeakSweep::Draw(Random& random) const {
  const double most = std::max<double>(static_cast<double>(tables_.largest.size()), 1);
  const auto rocks = static_cast<uint32_t>(std::pow(most, 0.3 + 0.7 * random.Unit()));
  const double a = std::tan(random.Unit() * 1.57);
  const double b = random.Unit() * 2;
  const double g = random.Unit() * 2 - 0.5;
  const double jitter = std::pow(random.Unit(), 2);
  std::vector<std::pair<double, uint32_t>> scored;
  for (uint32_t i = 0; i < rocks && i < tables_.largest.size(); ++i) {
    const uint32_t j = tables_.largest[i];
    const double score = a * std::log(static_cast<double>(tables_.max_load[i])) +
                         b * std::log(static_cast<double>(problem_.jobs[j].size)) +
                         g * std::log(static_cast<double>(problem_.lifespan(j))) +
                         jitter * random.Unit();
    scored.emplace_back(-score, j);
  }
  std::sort(scored.begin(), scored.end());
  Recipe recipe;
  for (const auto& [score, job] : scored) recipe.rocks.push_back(job);
  recipe.stack = static_cast<Stack>(random.Below(kStacks));
  recipe.by_hills = !tables_.hills.empty() && random.Below(2) == 0;
  return recipe;
}

bool PeakSweep::PlaceRocks(const std::vector<uint32_t>& rocks, int64_t limit,
                           const std::function<bool()>& stop) {
  rocky_ = !rocks.empty() || !problem_.fixed.empty();
  if (!rocky_) return true;
  if (occupancy_) {
    occupancy_->Clear();
  } else {
    occupancy_ = std::make_unique<Occupancy>(problem_);
  }
  for (const uint32_t job : problem_.fixed) {
    handles_[job] = kRock;
    addresses_[job] = problem_.fixed_address(job);
    occupancy_->Place(job, addresses_[job]);
  }
  uint32_t placed = 0;
  for (const uint32_t rock : rocks) {
    if (IsRock(rock)) continue;
    if ((++placed & 255) == 0 && stop()) return false;
    handles_[rock] = kRock;
    const int64_t highest = limit == INT64_MAX ? limit : limit - problem_.jobs[rock].size - 1;
    const int64_t address = occupancy_->FirstFit(rock, 0, highest);
    if (address > highest) return false;
    addresses_[rock] = address;
    occupancy_->Place(rock, address);
  }
  return true;
}

void PeakSweep::Put(uint32_t job, FreeBlocks& space) {
  const int64_t size = problem_.jobs[job].size;
  if (rocky_ && occupancy_->Look(job)) {
    handles_[job] = space.TakeWhere(size, [&](int64_t lower, int64_t upper) {
      return occupancy_->FirstFitAgain(job, lower, upper - size);
    });
  } else if (aligned_ && problem_.alignment(job) > least_alignment_) {
    handles_[job] =
        space.TakeWhere(size, [&](int64_t lower, int64_t) { return problem_.AlignUp(job, lower); });
  } else {
    handles_[job] = space.Take(size);
  }
  addresses_[job] = space.address(handles_[job]);
}

void PeakSweep::StackAtPeak(const Hill& hill, Stack stack, FreeBlocks& space) {
  std::vector<KeyedId> order;
  for (const uint32_t j : hill.at_peak) {
    const Job& job = problem_.jobs[j];
    if (IsRock(j)) continue;
    order.push_back({StackKey(job, stack), j});
  }
  std::vector<KeyedId> scratch;
  SortByKey(order, scratch);
  for (const KeyedId& item : order) Put(item.id, space);
}

// The same blocks at the same addresses in a space of their own.
void PeakSweep::RestorePeak(const Hill& hill, FreeBlocks& space) {
  std::vector<KeyedId> order;
  for (const uint32_t j : hill.at_peak) {
    if (!IsRock(j)) order.push_back({Ascending(addresses_[j]), j});
  }
  std::vector<KeyedId> scratch;
  SortByKey(order, scratch);
  for (const KeyedId& item : order) {
    handles_[item.id] = space.Append(addresses_[item.id], problem_.jobs[item.id].size);
  }
}

bool PeakSweep::Sweep(const Hill& hill, bool forwards, FreeBlocks& space, int64_t limit,
                      const std::function<bool()>& stop) {
  // Backwards, what is born in section s dies there, and what is dead in s + 1 is born.
  const Groups& arrivals = forwards ? tables_.births : tables_.deaths;
  const Groups& departures = forwards ? tables_.deaths : tables_.births;
  const uint32_t steps = forwards ? hill.upper - 1 - hill.peak : hill.peak - hill.lower;
  for (uint32_t step = 1; step <= steps; ++step) {
    const uint32_t group = forwards ? hill.peak + step : hill.peak - step + 1;
    for (uint32_t i = departures.first[group]; i < departures.first[group + 1]; ++i) {
      const uint32_t job = departures.ids[i];
      if (!IsRock(job)) space.Free(handles_[job]);
    }
    for (uint32_t i = arrivals.first[group]; i < arrivals.first[group + 1]; ++i) {
      const uint32_t job = arrivals.ids[i];
      if (!IsRock(job)) Put(job, space);
    }
    if (space.top() >= limit || ((step & 4095) == 0 && stop())) return false;
  }
  return true;
}

bool PeakSweep::SweepHill(const Hill& hill, Stack stack, int64_t limit,
                          const std::function<bool()>& stop) {
  {
    FreeBlocks space;
    StackAtPeak(hill, stack, space);
    if (space.top() >= limit || !Sweep(hill, true, space, limit, stop)) return false;
  }
  FreeBlocks space;
  RestorePeak(hill, space);
  return Sweep(hill, false, space, limit, stop);
}

Addresses PeakSweep::Run(const Recipe& recipe, int64_t limit, const std::function<bool()>& stop) {
  if (problem_.sections == 0) return {};
  addresses_.assign(problem_.size(), 0);
  if (!problem_.plain) {  // those that are one gap throughout are met by no sweep
    for (uint32_t j = 0; j < problem_.size(); ++j) addresses_[j] = problem_.AlignUp(j, 0);
  }
  std::fill(handles_.begin(), handles_.end(), 0);
  std::vector<uint32_t> rocks = recipe.rocks;
  if (recipe.by_hills) {
    rocks.insert(rocks.end(), tables_.across.begin(), tables_.across.end());
  }
  if (!PlaceRocks(rocks, limit, stop)) return {};
  if (recipe.by_hills) {
    for (const Hill& hill : tables_.hills) {
      if (!SweepHill(hill, recipe.stack, limit, stop)) return {};
    }
  } else if (!SweepHill(tables_.whole, recipe.stack, limit, stop)) {
    return {};
  }
  return std::move(addresses_);
}

void RunPeakSweep(Search& search, const std::string&) {
  if (search.problem.size() == 0) return RunBump(search, "bump");
  Portfolio portfolio(search);
  portfolio.TryPeakSweeps(0, PeakSweep::kRecipes);
  portfolio.Improve({Portfolio::Kind::kPeakSweep});
}

}  // namespace reprise::planner
