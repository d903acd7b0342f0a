// The ways in which a peak sweep (peak_sweep.h) can pack a problem.
#ifndef REPRISE_PLANNER_SEARCH_PEAK_RECIPE_H_
#define REPRISE_PLANNER_SEARCH_PEAK_RECIPE_H_

#include <cstdint>
#include <vector>

#include "planner/core/random.h"
#include "planner/core/search.h"
#include "planner/placement/free_blocks.h"
#include "planner/search/peak_tables.h"

namespace reprise::planner {

struct PeakRecipe {
  // How what lives at the peak is stacked, from below. kTwoEnded: what is born closer to the peak
  // than it dies lies below, the latest born at the bottom; the others above, the soonest dead at
  // the top. So what a sweep frees first is one piece that grows, in either direction.
  enum class Stack { kLatestDead, kSoonestDead, kLatestBorn, kEarliestBorn, kLargest, kTwoEnded };
  static constexpr int kStacks = 6;

  std::vector<uint32_t> rocks;  // in the order of their placement
  Stack stack = Stack::kLatestDead;
  bool by_hills = false;
  // For heaps that stay full, slower: FreeBlocks::TakeBestScored, MakeRoom and Reshuffle instead
  // of best fit. Each direction takes the best of these weights; their lifespans are filled in.
  std::vector<FreeBlocks::CostWeights> weights = {};
  double balance = 1;  // of kTwoEnded: the larger, the more lies at the upper end
  // Where the rocks lie, of a plain problem. Empty: each where it fits first.
  Addresses places = {};
};

// The `number`-th of a few recipes that are worth trying first; number < kPeakRecipes.
inline constexpr int kPeakRecipes = 28;
PeakRecipe StandardPeakRecipe(const PeakTables& tables, int number);

// A random one.
PeakRecipe DrawPeakRecipe(const PeakTables& tables, Random& random);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_PEAK_RECIPE_H_
