// synthetic_trace: writes a synthetic malloc trace as minimalloc CSV.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>

#include "synthetic_trace.h"

int main(int argc, char** argv) {
  int kind = 1;
  int64_t buffers = 1'000'000;
  uint64_t seed = 1;
  CLI::App app{"Writes a synthetic malloc trace to standard output: id,lower,upper,size."};
  app.add_option("--kind", kind, "1: phases; 2: many long-lived blocks")->check(CLI::Range(1, 2));
  app.add_option("-n,--buffers", buffers, "how many allocations")->check(CLI::PositiveNumber);
  app.add_option("--seed", seed, "any number");
  CLI11_PARSE(app, argc, argv);

  std::puts("id,lower,upper,size");
  int64_t id = 0;
  for (const workloads::SyntheticBuffer& b : workloads::SyntheticTrace(kind, buffers, seed)) {
    std::printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", id++, b.lower, b.upper,
                b.size);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
