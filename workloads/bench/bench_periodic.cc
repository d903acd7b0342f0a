// bench_periodic: the time that it takes to plan the body of a loop, as a program would before each
// pass (MemoMalloc plans with greedy by size). Prints Markdown: CPU milliseconds of one call to
// SolvePeriodic, which also checks the plan, and how far the plan is above the lower bound.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "planner/solve.h"

namespace {

using namespace reprise::planner;  // NOLINT: all of it is about plans

// As one inference of a convolutional network allocates: most blocks are small and die after a few
// events; one in 50 is an activation of 64 KiB to 1 MiB; `crossing` small ones are live across the
// end of the period, two of them for more than a period.
Instance Body(int64_t buffers, int64_t crossing, uint64_t seed, int64_t& period) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Instance instance;
  instance.alignment = 16;
  period = 2 * buffers;
  for (int64_t b = 0; b < buffers; ++b) {
    const int64_t lower = 2 * b;
    const bool activation = below(50) == 0;
    const int64_t size =
        activation ? (int64_t{1} << (16 + below(5))) - below(1 << 15) : int64_t{16} << below(9);
    int64_t lifetime = 1 + below(activation ? 2000 : 60);
    if (b >= buffers - crossing) {
      lifetime = period - lower + 1 + below(2000);
      if (b < buffers - crossing + 2) lifetime += period;
      instance.buffers.push_back({lower, lower + lifetime, 16 + below(4096)});
      continue;
    }
    lifetime = std::min(lifetime, period - lower);
    instance.buffers.push_back({lower, lower + lifetime, size});
  }
  return instance;
}

double CpuMilliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

bool Measure(const std::string& strategy, const Instance& instance, int64_t period, int rounds) {
  Options options;
  options.strategy = strategy;
  options.budget_seconds = 60;
  options.iterations = 1;
  options.threads = 1;
  std::vector<double> times;
  double above = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = CpuMilliseconds();
    const auto plan = SolvePeriodic(instance, period, options);
    times.push_back(CpuMilliseconds() - start);
    if (!plan.ok()) {
      std::fprintf(stderr, "%s: %s\n", strategy.c_str(), plan.status().ToString().c_str());
      return false;
    }
    above = 100.0 * static_cast<double>(plan->plan.makespan - plan->plan.lower_bound) /
            static_cast<double>(plan->plan.lower_bound);
  }
  double mean = 0, variance = 0;
  for (const double time : times) mean += time / rounds;
  for (const double time : times) variance += (time - mean) * (time - mean) / (rounds - 1);
  std::printf("| %s | %.2f ± %.2f | %.2f | %.3f |\n", strategy.c_str(), mean,
              std::sqrt(variance / rounds), *std::min_element(times.begin(), times.end()), above);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("bench_periodic: CPU time to plan the body of a loop");
  int64_t buffers = 7500, crossing = 29;
  uint64_t seed = 1;
  int rounds = 50;
  std::vector<std::string> strategies = {"greedy_by_size",        "first_fit_by_size",
                                         "best_fit_by_size",      "sweep_best_fit",
                                         "first_fit_by_max_load", "gergov",
                                         "mincost_flow"};
  app.add_option("--buffers", buffers, "of the body")->check(CLI::Range(100, 10'000'000));
  app.add_option("--crossing", crossing, "of these, across the end")->check(CLI::Range(2, 100));
  app.add_option("--seed", seed, "of the body");
  app.add_option("--rounds", rounds, "calls per strategy")->check(CLI::Range(2, 100'000));
  app.add_option("--strategies", strategies, "to measure")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  int64_t period = 0;
  const Instance instance = Body(buffers, crossing, seed, period);
  const std::vector<uint32_t> first = FirstSlots(instance, period);
  std::printf("%lld buffers, %u slots, period %lld, max load %lld\n\n",
              static_cast<long long>(buffers), first.back(), static_cast<long long>(period),
              static_cast<long long>(PeriodicMaxLoad(instance, period)));
  std::printf("| strategy | CPU ms | least | above the bound, %% |\n|---|---|---|---|\n");
  for (const std::string& strategy : strategies) {
    if (!Measure(strategy, instance, period, rounds)) return 1;
  }
  return 0;
}
