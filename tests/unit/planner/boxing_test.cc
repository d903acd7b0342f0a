// The promises of the boxing algorithm, which its proofs rest on.
#include "planner/placement/boxing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

// The greatest sum of heights of what a box holds, at any section.
double Content(const Boxing& boxing, const BoxItem& box) {
  std::map<uint32_t, double> change;
  for (uint32_t c = box.first_content; c < box.last_content; ++c) {
    const BoxItem& item = boxing.items[boxing.contents[c]];
    change[item.lower] += item.height;
    change[item.upper] -= item.height;
  }
  double now = 0;
  double most = 0;
  for (const auto& [section, difference] : change) {
    now += difference;
    most = std::max(most, now);
  }
  return most;
}

Instance Mixed(uint64_t seed, int buffers, int64_t spread) {
  Shape shape;
  shape.buffers = buffers;
  shape.horizon = 1 + buffers / 2;
  Instance instance = RandomInstance(seed, shape);
  std::mt19937_64 random(seed);
  for (Buffer& b : instance.buffers) b.size = 1 + static_cast<int64_t>(random() % 7);
  for (size_t i = 0; i < instance.buffers.size(); i += 3) {
    instance.buffers[i].size *= 1 + static_cast<int64_t>(random() % spread);
  }
  return instance;
}

class BoxingTest : public testing::TestWithParam<int64_t> {};

// With heights that differ little there is a dummy; with the others the upper branch runs.
INSTANTIATE_TEST_SUITE_P(Spreads, BoxingTest, testing::Values(1, 100, 100'000, 1'000'000'000));

TEST_P(BoxingTest, BoxesHoldNoMoreThanTheirHeightAndEveryBufferOnce) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = Mixed(seed, 20 + static_cast<int>(seed) * 20, GetParam());
    const Problem problem = MakeProblem(instance);
    const Boxer boxer(problem);
    Random random(seed);
    const EpsilonRange legal = boxer.legal();
    ASSERT_LT(legal.lower, legal.upper);
    const double calibrated = boxer.Calibrate(random);
    EXPECT_TRUE(legal.contains(calibrated));
    for (const double epsilon :
         {calibrated, legal.lower, legal.upper, (legal.lower + legal.upper) / 2}) {
      const Boxing boxing = boxer.Run(epsilon, random);
      std::vector<int> boxed(boxing.items.size());
      for (uint32_t id = boxing.jobs + (boxing.dummy ? 1 : 0); id < boxing.items.size(); ++id) {
        const BoxItem& box = boxing.items[id];
        EXPECT_LT(box.first_content, box.last_content);
        EXPECT_LE(Content(boxing, box), box.height * (1 + 1e-9));
        for (uint32_t c = box.first_content; c < box.last_content; ++c) {
          const BoxItem& item = boxing.items[boxing.contents[c]];
          EXPECT_LE(box.lower, item.lower);
          EXPECT_GE(box.upper, item.upper);
          ++boxed[boxing.contents[c]];
        }
      }
      // The outermost boxes are in no box and all of one height; everything else is in just one.
      for (const uint32_t id : boxing.top) {
        EXPECT_EQ(boxed[id], 0);
        EXPECT_EQ(boxing.items[id].height, boxing.items[boxing.top[0]].height);
        boxed[id] = 1;
      }
      EXPECT_EQ(std::count(boxed.begin(), boxed.end(), 1), boxing.items.size());
      std::vector<uint32_t> order = Boxer::Unbox(boxing, random);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(order.size(), problem.size());
      for (uint32_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
    }
  }
}

// Enough of them that classes and sub-problems are shared out.
TEST(BoxingThreadsTest, TheirNumberDoesNotChangeTheBoxes) {
  Shape shape;
  shape.buffers = 60'000;
  shape.horizon = 20'000;
  shape.most = 40'000;
  const Instance instance = RandomInstance(5, shape);
  const Problem problem = MakeProblem(instance);
  const Boxer boxer(problem);
  const EpsilonRange legal = boxer.legal();
  for (const double share : {0.0, 0.5}) {
    const double epsilon = legal.lower + share * (legal.upper - legal.lower);
    Random first(9);
    Random second(9);
    const Boxing one = boxer.Run(epsilon, first, 1);
    const Boxing four = boxer.Run(epsilon, second, 4);
    EXPECT_EQ(one.contents, four.contents);
    EXPECT_EQ(one.top, four.top);
    EXPECT_EQ(one.items.size(), four.items.size());
    EXPECT_EQ(Boxer::Unbox(one, first), Boxer::Unbox(four, second));
  }
}

TEST(EpsilonTest, TheRangeIsNotEmptyAboveTheLeastRatio) {
  for (double ratio = kLeastRatio + 0.01; ratio < 1e18; ratio *= 1.1) {
    const EpsilonRange range = LegalEpsilon(1, ratio);
    EXPECT_LE(range.lower, range.upper) << ratio;
  }
  EXPECT_GT(LegalEpsilon(1, 2000).lower, LegalEpsilon(1, 2000).upper);
}

}  // namespace
}  // namespace reprise::planner
