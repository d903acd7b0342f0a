// The formulas against values that can be worked out by hand, and against each other.
#include "random_walk/formulas.h"

#include <gtest/gtest.h>

namespace reprise::random_walk {
namespace {

TEST(FormulasTest, RandomWalkIsTheHarmonicSum) {
  EXPECT_DOUBLE_EQ(random_walk_tas(100, 50, 1), 2);
  EXPECT_DOUBLE_EQ(random_walk_tas(8, 4, 4), 2.0 * (1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0) * 4 / 4);
  const double t = 1 << 20, a = t / 10, n = a * 0.9;
  EXPECT_NEAR(random_walk_tas(t, a, n), t / n * std::log(a / (a - n)), 0.01);
}

TEST(FormulasTest, AWordOfOneBitMakesTheBitmapARandomWalk) {
  const double t = 1 << 20, a = t / 10;
  for (const double part : {0.1, 0.5, 0.99}) {
    const double expected = random_walk_tas(t, a, a * part);
    EXPECT_NEAR(bitmap_tas(t, a, a * part, 1), expected, expected * 1e-3);
    EXPECT_NEAR(bitmap_tas_paper(t, a, a * part, 1), expected, expected * 1e-3);
  }
}

TEST(FormulasTest, FewRequestsFindTheBitmapAsItWas) {
  const double t = 1 << 20;
  for (const double share : {0.5, 0.1, 0.01, 0.005}) {
    const double expected = 1 / (1 - std::pow(1 - share, 32));
    EXPECT_NEAR(bitmap_tas(t, t * share, 32, 32), expected, expected * 0.01);
    EXPECT_NEAR(bitmap_tas_paper(t, t * share, 32, 32), expected, expected * 0.01);
  }
}

TEST(FormulasTest, EvenSpreadingIsALowerBoundOfWhatTheBitmapTakes) {
  const double t = 1 << 20;
  for (const double share : {0.5, 0.1, 0.01}) {
    for (const double part : {0.5, 0.9, 0.99}) {
      const double a = t * share, n = a * part;
      EXPECT_GT(bitmap_tas(t, a, n, 32), bitmap_tas_paper(t, a, n, 32) * 0.999);
      EXPECT_GT(bitmap_was_bound(t, a, n, 32), bitmap_was_bound_paper(t, a, n, 32) * 0.999);
    }
  }
}

TEST(FormulasTest, TheLongestOfAWarpOfSureSearchesIsOneStep) {
  EXPECT_DOUBLE_EQ(longest_of_warp(0), 1);
  EXPECT_NEAR(longest_of_warp(0.5), 6.355, 0.01);  // the mean maximum of 32 geometric draws
  EXPECT_EQ(longest_of_warp(1), INFINITY);
}

TEST(FormulasTest, AQueueServesOneAfterAnother) {
  EXPECT_DOUBLE_EQ(queue_tas(1), 1);
  EXPECT_DOUBLE_EQ(queue_tas(64), 32.5);
  EXPECT_DOUBLE_EQ(queue_was(64), 48);  // 32 and 64
}

}  // namespace
}  // namespace reprise::random_walk
