// What is refused as an instance, and why.
#include "planner/core/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "planner/core/problem.h"
#include "planner/solve.h"
#include "tests/unit/planner/random.h"

namespace reprise::planner {
namespace {

struct Case {
  std::string name;
  std::function<void(Instance&)> spoil;
  std::string message;
};

class ValidateTest : public testing::TestWithParam<Case> {};

TEST_P(ValidateTest, RefusesWithAReason) {
  Instance instance;
  instance.buffers = {{0, 10, 4}, {2, 8, 4}, {3, 9, 8}};
  ASSERT_TRUE(Validate(instance).ok());
  GetParam().spoil(instance);
  const absl::Status status = Validate(instance);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(GetParam().message));
  EXPECT_EQ(Solve(instance, {}).status(), status);
}

INSTANTIATE_TEST_SUITE_P(
    BadInput, ValidateTest,
    testing::Values(
        Case{"empty_lifetime", [](Instance& i) { i.buffers[1].upper = 2; }, "buffer 1: lower 2"},
        Case{"backward_lifetime", [](Instance& i) { i.buffers[2].lower = 11; }, "buffer 2: lower"},
        Case{"size_zero", [](Instance& i) { i.buffers[0].size = 0; }, "buffer 0: size 0"},
        Case{"size_negative", [](Instance& i) { i.buffers[0].size = -5; }, "buffer 0: size -5"},
        Case{"size_huge", [](Instance& i) { i.buffers[2].size = INT64_MAX; }, "buffer 2: size"},
        Case{"sum_overflows",
             [](Instance& i) {
               for (Buffer& b : i.buffers) b.size = int64_t{1} << 60;
             },
             "buffer 1: the sum"},
        Case{"alignment", [](Instance& i) { i.alignment = 12; }, "alignment 12"},
        Case{"alignment_zero", [](Instance& i) { i.alignment = 0; }, "alignment 0"},
        Case{"alignments_short",
             [](Instance& i) {
               i.alignments = {4, 4};
             },
             "found 2 for 3"},
        Case{"alignments_bad",
             [](Instance& i) {
               i.alignments = {4, 4, 3};
             },
             "buffer 2: align"},
        Case{"fixed_short", [](Instance& i) { i.fixed_offsets = {0}; }, "found 1 for 3"},
        Case{"fixed_negative",
             [](Instance& i) {
               i.fixed_offsets = {-1, -2, -1};
             },
             "buffer 1: fixed offset -2"},
        Case{"fixed_misaligned",
             [](Instance& i) {
               i.alignment = 8;
               i.fixed_offsets = {-1, 12, -1};
             },
             "buffer 1: fixed offset 12 is not aligned"},
        Case{"start", [](Instance& i) { i.start_address = -16; }, "start address"},
        Case{"capacity", [](Instance& i) { i.capacity = -1; }, "capacity -1"},
        Case{"gap_owner",
             [](Instance& i) {
               i.gaps = {{7, 1, 2, 0, 0}};
             },
             "no buffer 7"},
        Case{"gap_outside",
             [](Instance& i) {
               i.gaps = {{1, 1, 4, 0, 0}};
             },
             "outside the buffer's"},
        Case{"gap_empty",
             [](Instance& i) {
               i.gaps = {{1, 4, 4, 0, 0}};
             },
             "a gap's lower"},
        Case{"gap_window",
             [](Instance& i) {
               i.gaps = {{1, 4, 5, 0, 5}};
             },
             "window"},
        Case{"gaps_overlap",
             [](Instance& i) {
               i.gaps = {{1, 3, 5, 0, 0}, {1, 4, 6, 0, 0}};
             },
             "gaps overlap"},
        Case{"gaps_unsorted",
             [](Instance& i) {
               i.gaps = {{1, 3, 5, 0, 0}, {0, 4, 6, 0, 0}};
             },
             "not sorted"}),
    [](const testing::TestParamInfo<Case>& which) { return which.param.name; });

// Dense times are compressed by bits, others by sorting.
TEST(ProblemTest, SectionsDoNotDependOnHowTimeIsCounted) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape;
    shape.buffers = 1 + static_cast<int>(seed);
    shape.constrained = seed % 2 == 1;
    const Instance dense = RandomInstance(seed, shape);
    Instance sparse = dense;
    const auto stretch = [](int64_t& time) { time = time * 1'000'000 - 7; };
    for (Buffer& buffer : sparse.buffers) {
      stretch(buffer.lower);
      stretch(buffer.upper);
    }
    for (Gap& gap : sparse.gaps) {
      stretch(gap.lower);
      stretch(gap.upper);
    }
    const Problem a = MakeProblem(dense);
    const Problem b = MakeProblem(sparse);
    EXPECT_EQ(a.sections, b.sections);
    EXPECT_EQ(a.load, b.load);
    EXPECT_EQ(a.max_load * a.unit, MaxLoadByBrute(dense));
    for (uint32_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a.jobs[i].lower, b.jobs[i].lower);
      EXPECT_EQ(a.jobs[i].upper, b.jobs[i].upper);
    }
  }
}

TEST(SolveTest, FixedOffsetsThatContradictAreNamed) {
  Instance instance;
  instance.buffers = {{0, 10, 8}, {0, 4, 8}, {5, 9, 8}};
  instance.fixed_offsets = {0, Instance::kFree, 4};
  const auto plan = Solve(instance, {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("buffer 0 and buffer 2"));
}

TEST(SolveTest, UnknownStrategy) {
  Options options;
  options.strategy = "magic";
  const auto plan = Solve({}, options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("'magic'"));
}

TEST(SolveTest, CapacityThatCannotBeKept) {
  Instance instance;
  instance.buffers = {{0, 10, 8}, {0, 4, 8}, {5, 9, 4}};
  instance.capacity = 16;
  EXPECT_TRUE(Solve(instance, {}).ok());
  instance.capacity = 15;
  const auto plan = Solve(instance, {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("at least 16 needed"));
}

TEST(SolveTest, AnythingIsGoodEnough) {
  const Instance instance = RandomInstance(1, {.buffers = 400, .horizon = 100, .most = 1000});
  Options options;
  options.worst_case_fragmentation = INT64_MAX;
  int packings = 0;
  options.on_improvement = [&](int64_t, std::string_view) { ++packings; };
  EXPECT_TRUE(Solve(instance, options).ok());
  EXPECT_EQ(packings, 1);
}

TEST(SolveTest, MessagesNameBuffersAsTheCallerDoes) {
  Instance instance;
  instance.buffers = {{0, 10, 8}, {0, 4, 8}, {5, 9, 8}};
  instance.fixed_offsets = {0, Instance::kFree, 4};
  Options options;
  options.name = [](uint32_t buffer) { return std::string("tensor ") + "xyz"[buffer]; };
  EXPECT_THAT(std::string(Solve(instance, options).status().message()),
              testing::HasSubstr("tensor x and tensor z"));
  instance.buffers[1].size = 0;
  EXPECT_THAT(std::string(Solve(instance, options).status().message()),
              testing::HasSubstr("tensor y: size 0"));
}

}  // namespace
}  // namespace reprise::planner
