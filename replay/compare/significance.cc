#include "replay/compare/significance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace reprise::replay {
namespace {

// The rank of each value among all, from 1; equal ones share the mean of their ranks.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

double WaysToChoose(size_t all, size_t some) {
  double ways = 1;
  for (size_t i = 1; i <= some; ++i) {
    ways *= static_cast<double>(all - some + i) / static_cast<double>(i);
  }
  return ways;
}

// Goes over every way to choose `left` ranks from `at` on, and counts those whose sum lies at least
// `distance` from `expected`.
struct Enumeration {
  const std::vector<double>& ranks;
  double expected, distance;
  double extreme = 0, all = 0;

  void Choose(size_t at, size_t left, double sum) {
    if (left == 0) {
      ++all;
      if (std::abs(sum - expected) >= distance - 1e-9) ++extreme;
      return;
    }
    for (size_t i = at; i + left <= ranks.size(); ++i) Choose(i + 1, left - 1, sum + ranks[i]);
  }
};

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {at(0.5), at(0.25), at(0.75), values.front(), values.back()};
}

double ProbabilityOfNoDifference(const std::vector<double>& first,
                                 const std::vector<double>& second) {
  if (first.empty() || second.empty()) return 1;
  std::vector<double> all = first;
  all.insert(all.end(), second.begin(), second.end());
  const std::vector<double> ranks = Ranks(all);
  const auto count = static_cast<double>(all.size());
  const auto ours = static_cast<double>(first.size());
  const auto theirs = static_cast<double>(second.size());
  const double sum = std::accumulate(
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(first.size()), 0.0);
  const double expected = ours * (count + 1) / 2;
  constexpr double kMostWays = 100'000;
  if (WaysToChoose(all.size(), first.size()) <= kMostWays) {
    Enumeration enumeration{ranks, expected, std::abs(sum - expected)};
    enumeration.Choose(0, first.size(), 0);
    return enumeration.extreme / enumeration.all;
  }
  double squares = 0;  // of the ranks' distance from their mean: less where there are ties
  for (const double rank : ranks) squares += (rank - (count + 1) / 2) * (rank - (count + 1) / 2);
  const double variance = ours * theirs / (count * (count - 1)) * squares;
  if (variance <= 0) return 1;
  const double distance = std::max(0.0, std::abs(sum - expected) - 0.5);
  return std::min(1.0, std::erfc(distance / std::sqrt(2 * variance)));
}

}  // namespace reprise::replay
