#include <cstdio>

#include "planner/core/instance.h"
#include "planner/solve.h"
#include "trace/reader.h"

int main() {
  reprise::planner::Instance instance;
  instance.buffers = {{0, 2, 64}, {1, 3, 32}, {2, 4, 64}};  // live in [lower, upper), size
  const auto plan = reprise::planner::Solve(instance, {});
  if (!plan.ok()) return 1;
  std::printf("makespan %lld of %lld\n", static_cast<long long>(plan->makespan),
              static_cast<long long>(plan->max_load));
  const auto recording = reprise::trace::LoadRecording("/nowhere.trace");
  return plan->makespan == plan->max_load && !recording.ok() ? 0 : 1;
}
