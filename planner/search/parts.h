// Problems within a problem: parts that never meet in time, a copy without constraints.
#ifndef REPRISE_PLANNER_SEARCH_PARTS_H_
#define REPRISE_PLANNER_SEARCH_PARTS_H_

#include <cstdint>
#include <vector>

#include "planner/core/problem.h"
#include "planner/core/search.h"
#include "planner/search/portfolio.h"

namespace reprise::planner {

// The jobs between two times at which nothing is live, part by part in time order.
std::vector<std::vector<uint32_t>> SplitAtZeroLoad(const Problem& problem);

// Improves the incumbent of a problem part by part, always the one that reaches highest: an
// attempt at the whole must be lucky in all of them at once. Needs an incumbent to start from.
// False, and nothing is done, when the problem has only one part.
bool ImproveParts(Search& search);

// For problems that are not plain: improves a copy without gaps, given addresses and alignments,
// while that is of use, and squeezes what it finds into the problem, in turns with attempts at the
// problem itself.
void ImproveByCopy(Search& search, Portfolio& portfolio);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_PARTS_H_
