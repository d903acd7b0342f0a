#include "planner/search/peak_recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace reprise::planner {
namespace {

constexpr size_t kMostScoredRocks = 64;

// What did best on heaps of perl, Python, mawk and C++, in usual lifespans.
constexpr std::array<FreeBlocks::CostWeights, 3> kStandardWeights = {
    {{6, 0.06F, 0.05F, 0.2F}, {2.5F, 0.17F, 0, 0.14F}, {2, 0.06F, 0.1F, 0.1F}}};

// More find a better pair of directions, and a sweep above the incumbent soon ends.
constexpr size_t kRandomWeights = 6;

// The standard recipes that are scored: how the two ends of the stack are balanced, and how many
// weights are tried. The first ones are there soon.
struct ScoredRecipe {
  double balance;
  size_t weights;
};
constexpr std::array<ScoredRecipe, 5> kScored = {
    {{1, 1}, {0.5, 1}, {2, 1}, {0.7, kStandardWeights.size()}, {1.4, kStandardWeights.size()}}};

FreeBlocks::CostWeights RandomWeights(Random& random) {
  const auto spread = [&](double middle) {
    return static_cast<float>(middle * std::exp(3 * random.Unit() - 1.5));
  };
  const auto lifespan = static_cast<float>(std::exp2(0.5 + 2.5 * random.Unit()));
  const float large = random.Below(3) == 0 ? 0 : spread(0.07);
  return {lifespan, spread(0.06), large, spread(0.1)};
}

// The jobs above a fraction of the max load, but at least and at most so many.
std::vector<uint32_t> Rocks(const PeakTables& tables, int64_t fraction, size_t least, size_t most) {
  const auto smallest = tables.problem.max_load / fraction;
  const auto& largest = tables.largest;
  const auto end = std::partition_point(largest.begin(), largest.end(), [&](uint32_t j) {
    return tables.problem.jobs[j].size >= smallest;
  });
  const size_t rocks = std::clamp<size_t>(end - largest.begin(), least, most);
  return {largest.begin(), largest.begin() + std::min(rocks, largest.size())};
}

// Only those that nobody would find room for: what meets rocks can be placed in fewer ways. Where
// the heap is made of such jobs, as a cache of documents is, the sweep itself packs them better.
PeakRecipe Scored(const PeakTables& tables, double balance,
                  std::vector<FreeBlocks::CostWeights> weights) {
  std::vector<uint32_t> rocks = Rocks(tables, 256, 0, kMostScoredRocks + 1);
  if (rocks.size() > kMostScoredRocks) rocks.clear();
  return {std::move(rocks), PeakRecipe::Stack::kTwoEnded, false, std::move(weights), balance};
}

}  // namespace

PeakRecipe StandardPeakRecipe(const PeakTables& tables, int number) {
  // Without rocks or with those above a fraction of the max load: what a block too many costs.
  struct Group {
    int64_t fraction;
    size_t least;
    size_t most;
  };
  constexpr std::array<Group, 5> kGroups = {
      {{1, 0, 0}, {256, 16, 4096}, {1024, 128, 4096}, {4096, 1024, 4096}, {64, 4, 4096}}};
  constexpr int kPerStack = kGroups.size();
  // Careful ones come soon, and right after the first where the heap stays full.
  const int first_scored = tables.stays_full ? 1 : kPerStack;
  const int end_scored = first_scored + static_cast<int>(kScored.size());
  const bool scored = number >= first_scored && number < end_scored;
  if (scored) {
    const auto& [balance, weights] = kScored[number - first_scored];
    return Scored(tables, balance, {kStandardWeights.begin(), kStandardWeights.begin() + weights});
  }
  if (number >= end_scored) number -= end_scored - first_scored;
  // Where there are hills nothing fits as well as to go by them. Then the last group is left out.
  constexpr int kByHills = 4;
  const bool hills = !tables.hills.empty();
  if (hills && number < kByHills) return {{}, static_cast<PeakRecipe::Stack>(number), true};
  const int groups = hills ? kPerStack - 1 : kPerStack;
  if (hills) number -= kByHills;
  const auto stack = static_cast<PeakRecipe::Stack>(number / groups);
  int group = number % groups;
  // Where single blocks can cost percents, rocks come first.
  const bool large = !tables.largest.empty() &&
                     tables.problem.jobs[tables.largest[0]].size >= tables.problem.max_load / 64;
  if (large && group < 2) group = 1 - group;
  const auto& [fraction, least, most] = kGroups[group];
  return {Rocks(tables, fraction, least, most), stack};
}

PeakRecipe DrawPeakRecipe(const PeakTables& tables, Random& random) {
  if (random.Below(4) != 0) {
    std::vector<FreeBlocks::CostWeights> weights(kRandomWeights);
    for (FreeBlocks::CostWeights& some : weights) some = RandomWeights(random);
    return Scored(tables, std::exp2(2 * (random.Unit() + random.Unit() - 1)), std::move(weights));
  }
  const double most = std::max<double>(static_cast<double>(tables.largest.size()), 1);
  const auto rocks = static_cast<uint32_t>(std::pow(most, 0.3 + 0.7 * random.Unit()));
  const double a = std::tan(random.Unit() * 1.57);
  const double b = random.Unit() * 2;
  const double g = random.Unit() * 2 - 0.5;
  const double jitter = std::pow(random.Unit(), 2);
  std::vector<std::pair<double, uint32_t>> scored;
  for (uint32_t i = 0; i < rocks && i < tables.largest.size(); ++i) {
    const uint32_t j = tables.largest[i];
    const double score = a * std::log(static_cast<double>(tables.max_load[i])) +
                         b * std::log(static_cast<double>(tables.problem.jobs[j].size)) +
                         g * std::log(static_cast<double>(tables.problem.lifespan(j))) +
                         jitter * random.Unit();
    scored.emplace_back(-score, j);
  }
  std::sort(scored.begin(), scored.end());
  PeakRecipe recipe;
  for (const auto& [score, job] : scored) recipe.rocks.push_back(job);
  recipe.stack = static_cast<PeakRecipe::Stack>(random.Below(PeakRecipe::kStacks));
  recipe.by_hills = !tables.hills.empty() && random.Below(2) == 0;
  return recipe;
}

}  // namespace reprise::planner
