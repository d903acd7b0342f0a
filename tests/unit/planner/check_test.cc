// The checker against an oracle that paints every byte at every instant.
#include "planner/core/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/solve.h"
#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

using Kind = Violation::Kind;

TEST(CheckTest, AgreesWithBruteForceOnRandomPlans) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 1 + static_cast<int>(seed % 9);
    shape.constrained = seed % 2 == 1;
    const Instance instance = RandomInstance(seed, shape);
    ASSERT_TRUE(Validate(instance).ok()) << Validate(instance);
    std::mt19937_64 random(seed);
    std::vector<int64_t> offsets;
    for (uint32_t i = 0; i < instance.buffers.size(); ++i) {
      const int64_t alignment = std::max<int64_t>(
          instance.alignment, instance.alignments.empty() ? 1 : instance.alignments[i]);
      const int64_t address =
          RoundUp(instance.start_address + static_cast<int64_t>(random() % 48), alignment);
      offsets.push_back(address - instance.start_address);
      if (!instance.fixed_offsets.empty() && instance.fixed_offsets[i] != Instance::kFree) {
        offsets[i] = instance.fixed_offsets[i];
      }
    }
    const CheckResult result = Check(instance, offsets, 100);
    const auto expected = OverlapsByBrute(instance, offsets);
    EXPECT_EQ(result.valid, expected.empty());
    EXPECT_EQ(result.violations.empty(), expected.empty());
    EXPECT_EQ(result.max_load, MaxLoadByBrute(instance));
    for (const Violation& violation : result.violations) {
      EXPECT_EQ(violation.kind, Kind::kOverlap);
      EXPECT_TRUE(expected.contains({violation.first, violation.second}));
    }
  }
}

TEST(CheckTest, NamesThePair) {
  Instance instance;
  instance.buffers = {{0, 10, 4}, {5, 15, 4}, {10, 20, 4}};
  const std::vector<int64_t> offsets = {0, 3, 0};
  const CheckResult result = Check(instance, offsets);
  ASSERT_FALSE(result.valid);
  EXPECT_EQ(result.violations[0].first, 0);
  EXPECT_EQ(result.violations[0].second, 1);
  EXPECT_THAT(Describe(result.violations[0], instance, offsets),
              testing::AllOf(testing::HasSubstr("buffer 0"), testing::HasSubstr("buffer 1"),
                             testing::HasSubstr("[5, 15)")));
}

TEST(CheckTest, OneMayStartWhereAnotherEnds) {
  Instance instance;
  instance.buffers = {{0, 10, 4}, {10, 20, 8}};
  EXPECT_TRUE(Check(instance, {0, 0}).valid);
  EXPECT_EQ(Check(instance, {0, 0}).makespan, 8);
}

TEST(CheckTest, FindsEachKindOfViolation) {
  Instance instance;
  instance.buffers = {{0, 10, 4}};
  EXPECT_EQ(Check(instance, {-4}).violations[0].kind, Kind::kNegativeOffset);
  EXPECT_EQ(Check(instance, {INT64_MAX - 3}).violations[0].kind, Kind::kOverflow);
  instance.alignment = 4;
  EXPECT_EQ(Check(instance, {6}).violations[0].kind, Kind::kMisaligned);
  EXPECT_TRUE(Check(instance, {8}).valid);
  instance.start_address = 2;
  EXPECT_TRUE(Check(instance, {6}).valid);
  instance.start_address = 0;
  instance.alignments = {16};
  EXPECT_EQ(Check(instance, {8}).violations[0].kind, Kind::kMisaligned);
  instance.start_address = 4;
  EXPECT_THAT(Describe(Check(instance, {8}).violations[0], instance, {8}),
              testing::HasSubstr("expected an address that is a multiple of 16, found 12"));
  instance.start_address = 0;
  instance.fixed_offsets = {32};
  EXPECT_EQ(Check(instance, {16}).violations[0].kind, Kind::kMoved);
  EXPECT_TRUE(Check(instance, {32}).valid);
  for (const Kind kind :
       {Kind::kOverlap, Kind::kNegativeOffset, Kind::kMisaligned, Kind::kMoved, Kind::kOverflow}) {
    EXPECT_THAT(Describe({kind, 0, 0}, instance, {16}), testing::HasSubstr("buffer 0"));
  }
}

TEST(CheckTest, RoundedSizesCount) {
  Instance instance;
  instance.buffers = {{0, 10, 17}, {0, 10, 1}};
  instance.alignment = 16;
  EXPECT_FALSE(Check(instance, {0, 16}).valid);
  EXPECT_TRUE(Check(instance, {0, 32}).valid);
  EXPECT_EQ(Check(instance, {0, 32}).makespan, 48);
  EXPECT_EQ(Check(instance, {0, 32}).max_load, 48);
}

// Two buffers share memory only where the window of the one's gap leaves room for the other.
TEST(CheckTest, GapsFreeAllButTheirWindow) {
  Instance instance;
  instance.buffers = {{0, 10, 8}, {4, 6, 6}};
  instance.gaps = {{0, 4, 6, 0, 2}};
  EXPECT_TRUE(Check(instance, {0, 2}).valid);
  EXPECT_FALSE(Check(instance, {0, 1}).valid);
  instance.buffers[1].upper = 7;
  EXPECT_FALSE(Check(instance, {0, 2}).valid);
}

TEST(CheckTest, FindsTheOnlyOverlapOfAMillionBuffers) {
  Instance instance;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < 1'000'000; ++i) {
    instance.buffers.push_back({i, i + 1000, 16});
    offsets.push_back(i % 1000 * 16);
  }
  EXPECT_TRUE(Check(instance, offsets).valid);
  offsets[500'000] = offsets[500'001];
  const CheckResult result = Check(instance, offsets);
  ASSERT_FALSE(result.valid);
  EXPECT_EQ(result.violations[0].kind, Kind::kOverlap);
}

}  // namespace
}  // namespace reprise::planner
