// What the CPU experiments share. Results are one JSON object a line on standard output.
#ifndef REPRISE_WORKLOADS_BENCH_CPU_BENCH_H_
#define REPRISE_WORKLOADS_BENCH_CPU_BENCH_H_

#include <cmath>
#include <cstdint>
#include <vector>

namespace bench {

struct Mean {
  double value = 0, error = 0;  // standard error
};
inline Mean mean_of(const std::vector<double>& values) {
  Mean mean;
  const double n = static_cast<double>(values.size());
  for (const double value : values) mean.value += value / n;
  for (const double value : values) mean.error += (value - mean.value) * (value - mean.value);
  mean.error = n > 1 ? std::sqrt(mean.error / (n - 1) / n) : 0;
  return mean;
}

__attribute__((format(printf, 1, 2))) void emit(const char* format, ...);

// Steps of RW, RW-BM and CoRW for `pages` pages, `seeds` seeds, beside the formulas.
void simulate_steps(uint32_t pages, int seeds);
// Memory in use when RW_malloc is out of it.
void simulate_utilisation(uint64_t pool_bytes);
// Threads take and free pages, and each page says who has it. Returns the errors.
uint64_t stress(uint64_t operations, int threads);
// Fixed-size pages against mimalloc and a free list under a mutex.
void race(int threads, int rounds);

}  // namespace bench

#endif  // REPRISE_WORKLOADS_BENCH_CPU_BENCH_H_
