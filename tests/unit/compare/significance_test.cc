#include "replay/compare/significance.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprise::replay {
namespace {

TEST(SignificanceTest, QuartilesLieBetweenTheValues) {
  const Spread spread = SpreadOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(spread.median, 2.5);
  EXPECT_DOUBLE_EQ(spread.lower_quartile, 1.75);
  EXPECT_DOUBLE_EQ(spread.upper_quartile, 3.25);
  EXPECT_DOUBLE_EQ(spread.least, 1);
  EXPECT_DOUBLE_EQ(spread.most, 4);
  EXPECT_DOUBLE_EQ(SpreadOf({7}).upper_quartile, 7);
  EXPECT_DOUBLE_EQ(SpreadOf({}).median, 0);
}

// Of the 70 ways to choose 4 of 8, two are as far apart as can be.
TEST(SignificanceTest, GroupsApartAreAsLikelyAsTheirArrangement) {
  EXPECT_NEAR(ProbabilityOfNoDifference({1, 2, 3, 4}, {5, 6, 7, 8}), 2.0 / 70, 1e-12);
  EXPECT_NEAR(ProbabilityOfNoDifference({5, 6, 7, 8}, {1, 2, 3, 4}), 2.0 / 70, 1e-12);
}

TEST(SignificanceTest, EqualGroupsDoNotDiffer) {
  EXPECT_DOUBLE_EQ(ProbabilityOfNoDifference({3, 3, 3}, {3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(ProbabilityOfNoDifference({1, 4, 5}, {1, 4, 5}), 1);
  EXPECT_DOUBLE_EQ(ProbabilityOfNoDifference({}, {1, 4, 5}), 1);
}

// Three runs can never be told apart at one in twenty.
TEST(SignificanceTest, FewRunsProveNothing) {
  EXPECT_GT(ProbabilityOfNoDifference({1, 2, 3}, {100, 101, 102}), 0.05);
}

// Both ways to compute it agree where both apply, and hold what a test promises: of groups from the
// same population, one in twenty is called different.
TEST(SignificanceTest, FalseAlarmsAreAsRareAsPromised) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const size_t size : {6, 15}) {
    int alarms = 0;
    constexpr int kTrials = 400;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> first, second;
      for (size_t i = 0; i < size; ++i) {
        first.push_back(normal(random));
        second.push_back(normal(random));
      }
      alarms += ProbabilityOfNoDifference(first, second) < 0.05;
    }
    EXPECT_LE(alarms, kTrials / 10) << size;
  }
}

TEST(SignificanceTest, ManyRunsThatDifferAreTold) {
  std::vector<double> first, second;
  for (int i = 0; i < 30; ++i) {
    first.push_back(i);
    second.push_back(i + 20);
  }
  EXPECT_LT(ProbabilityOfNoDifference(first, second), 1e-4);
}

}  // namespace
}  // namespace reprise::replay
