// Whether two groups of measurements differ, or may just as well be the same.
#ifndef REPRISE_REPLAY_COMPARE_SIGNIFICANCE_H_
#define REPRISE_REPLAY_COMPARE_SIGNIFICANCE_H_

#include <vector>

namespace reprise::replay {

struct Spread {
  double median = 0;
  double lower_quartile = 0, upper_quartile = 0;
  double least = 0, most = 0;
};

// Quartiles by linear interpolation. Zeros for no values.
Spread SpreadOf(std::vector<double> values);

// The probability that two samples of one population differ at least as much as these (two-sided
// Mann-Whitney test; ties share their ranks). Exact when there are at most about 100,000 ways to
// choose, else by the normal approximation with continuity correction. 1 when either is empty.
double ProbabilityOfNoDifference(const std::vector<double>& first,
                                 const std::vector<double>& second);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_SIGNIFICANCE_H_
