// Public instances, where they are at hand: the fragmentation that `auto` must reach, with time to
// spare for a loaded machine. docs/benchmarks.md has the measured times.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "planner/solve.h"
#include "trace/formats/csv.h"

namespace reprise::planner {
namespace {

struct Bar {
  std::string name;
  std::string file;
  size_t buffers;
  double budget;   // seconds
  double percent;  // fragmentation
};

class BenchmarkTest : public testing::TestWithParam<Bar> {};

// Empty when the file is not there.
Instance Read(const std::string& file) {
  Instance instance;
  const std::filesystem::path path = std::filesystem::path(REPRISE_BENCHMARKS) / file;
  if (!std::filesystem::exists(path)) return instance;
  const auto csv = trace::ReadCsv(path.string());
  EXPECT_TRUE(csv.ok()) << csv.status();
  for (const trace::CsvBuffer& b : csv->buffers) {
    instance.buffers.push_back({b.lower, b.upper, b.size});
  }
  return instance;
}

TEST_P(BenchmarkTest, ReachesItsBar) {
  const Instance instance = Read(GetParam().file);
  if (instance.buffers.empty()) GTEST_SKIP() << GetParam().file << " is not there";
  EXPECT_EQ(instance.buffers.size(), GetParam().buffers);
  Options options;
  options.budget_seconds = GetParam().budget;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(static_cast<double>(plan->fragmentation()),
            GetParam().percent / 100 * static_cast<double>(plan->max_load));
  EXPECT_EQ(plan->proven_optimal, plan->makespan == plan->lower_bound);
}

// A tenth of the offsets of an optimal plan are given; skylines grow around them.
TEST(GivenOffsetsTest, LeaveRoomForTheRest) {
  Instance instance = Read("minimalloc/A.1048576.csv");
  if (instance.buffers.empty()) GTEST_SKIP() << "the public instances are not there";
  Options options;
  options.budget_seconds = 20;
  const auto optimal = Solve(instance, options);
  ASSERT_TRUE(optimal.ok()) << optimal.status();
  instance.fixed_offsets.assign(instance.buffers.size(), Instance::kFree);
  for (size_t i = 0; i < instance.buffers.size(); i += 10) {
    instance.fixed_offsets[i] = optimal->offsets[i];
  }
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(static_cast<double>(plan->fragmentation()), 0.02 * static_cast<double>(plan->max_load));
}

// Buffers that an optimal plan puts at one place, one after the other, become one with gaps: the
// optimum stays, while the max load without gaps is a fifth higher.
TEST(GapsTest, AreFilled) {
  Instance instance = Read("minimalloc/C.1048576.csv");
  if (instance.buffers.empty()) GTEST_SKIP() << "the public instances are not there";
  Options options;
  options.budget_seconds = 20;
  const auto optimal = Solve(instance, options);
  ASSERT_TRUE(optimal.ok()) << optimal.status();
  std::map<std::pair<int64_t, int64_t>, std::vector<Buffer>> places;  // by offset and size
  for (size_t i = 0; i < instance.buffers.size(); ++i) {
    const Buffer& buffer = instance.buffers[i];
    places[{optimal->offsets[i], buffer.size}].push_back(buffer);
  }
  instance.buffers.clear();
  for (auto& [place, buffers] : places) {
    std::sort(buffers.begin(), buffers.end(),
              [](const Buffer& a, const Buffer& b) { return a.lower < b.lower; });
    const auto joined = static_cast<uint32_t>(instance.buffers.size());
    instance.buffers.push_back({buffers.front().lower, buffers.back().upper, place.second});
    for (size_t i = 1; i < buffers.size(); ++i) {
      if (buffers[i - 1].upper == buffers[i].lower) continue;
      instance.gaps.push_back({joined, buffers[i - 1].upper, buffers[i].lower, 0, 0});
    }
  }
  ASSERT_FALSE(instance.gaps.empty());
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->max_load, optimal->max_load);
  EXPECT_LE(static_cast<double>(plan->fragmentation()), 0.02 * static_cast<double>(plan->max_load));
}

INSTANTIATE_TEST_SUITE_P(
    Public, BenchmarkTest,
    testing::Values(Bar{"G", "iopddl/G_1.csv", 816, 5, 0}, Bar{"Y", "iopddl/Y_1.csv", 62185, 10, 0},
                    Bar{"pangu_at_once", "somas/pangu_2.6B.csv", 18692, 1, 0.8},
                    Bar{"pangu", "somas/pangu_2.6B.csv", 18692, 20, 0},
                    Bar{"A", "minimalloc/A.1048576.csv", 154, 20, 0},
                    Bar{"C", "minimalloc/C.1048576.csv", 203, 20, 0},
                    Bar{"E", "minimalloc/E.1048576.csv", 215, 20, 0},
                    Bar{"G_small", "minimalloc/G.1048576.csv", 308, 20, 0},
                    Bar{"I", "minimalloc/I.1048576.csv", 374, 20, 0},
                    Bar{"K", "minimalloc/K.1048576.csv", 454, 20, 0}),
    [](const testing::TestParamInfo<Bar>& which) { return which.param.name; });

}  // namespace
}  // namespace reprise::planner
