// Public instances, where they are at hand: the fragmentation that `auto` must reach, with time to
// spare for a loaded machine. docs/benchmarks.md has the measured times.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "planner/solve.h"
#include "trace/csv.h"

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

TEST_P(BenchmarkTest, ReachesItsBar) {
  const std::filesystem::path path = std::filesystem::path(REPRISE_BENCHMARKS) / GetParam().file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto csv = trace::ReadCsv(path.string());
  ASSERT_TRUE(csv.ok()) << csv.status();
  Instance instance;
  for (const trace::CsvBuffer& b : csv->buffers) {
    instance.buffers.push_back({b.lower, b.upper, b.size});
  }
  EXPECT_EQ(instance.buffers.size(), GetParam().buffers);
  Options options;
  options.budget_seconds = GetParam().budget;
  const auto plan = Solve(instance, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(static_cast<double>(plan->fragmentation()),
            GetParam().percent / 100 * static_cast<double>(plan->max_load));
  EXPECT_EQ(plan->proven_optimal, plan->makespan == plan->lower_bound);
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
