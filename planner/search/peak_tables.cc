#include "planner/search/peak_tables.h"

#include <algorithm>
#include <cstddef>

namespace reprise::planner {
namespace {

constexpr uint32_t kMostRocks = 16384;

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

bool StaysFull(const Problem& problem) {
  const auto high = static_cast<int64_t>(0.98 * static_cast<double>(problem.max_load));
  const auto full = std::count_if(problem.load.begin(), problem.load.end(),
                                  [&](int64_t load) { return load >= high; });
  return full >= problem.sections / 100;
}

PeakTables::PeakTables(const Problem& the_problem)
    : problem(the_problem), births(Births(the_problem)), deaths(Deaths(the_problem)) {
  whole = MakeHill(problem, 0, problem.sections);
  stays_full = StaysFull(problem);
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

}  // namespace reprise::planner
