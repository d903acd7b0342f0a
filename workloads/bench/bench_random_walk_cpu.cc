// Experiments with random-walk allocation on the CPU. Prints a JSON object a line.
//   bench_random_walk_cpu steps [SEEDS [PAGES]]
//   bench_random_walk_cpu utilisation [MIB]
//   bench_random_walk_cpu stress [OPERATIONS [THREADS]]
//   bench_random_walk_cpu race [THREADS [ROUNDS]]
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "workloads/bench/cpu_bench.h"

namespace bench {

void emit(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace bench

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const auto number = [&](int index, double otherwise) {
    return index < count ? std::atof(words[index]) : otherwise;
  };
  if (what == "steps") {
    bench::simulate_steps(static_cast<uint32_t>(number(3, 1 << 20)),
                          static_cast<int>(number(2, 10)));
  } else if (what == "utilisation") {
    bench::simulate_utilisation(static_cast<uint64_t>(number(2, 256)) << 20);
  } else if (what == "stress") {
    return bench::stress(static_cast<uint64_t>(number(2, 1e9)), static_cast<int>(number(3, 8))) == 0
               ? 0
               : 1;
  } else if (what == "race") {
    bench::race(static_cast<int>(number(2, 2)), static_cast<int>(number(3, 20)));
  } else {
    std::fprintf(stderr, "usage: bench_random_walk_cpu steps|utilisation|stress|race [NUMBERS]\n");
    return 2;
  }
  return 0;
}
