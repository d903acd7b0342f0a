// synthetic_trace: writes a synthetic malloc trace as minimalloc CSV.
#include <cinttypes>
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "synthetic_trace.h"

ABSL_FLAG(int, kind, 1, "1: phases; 2: many long-lived blocks");
ABSL_FLAG(int64_t, buffers, 1'000'000, "how many allocations");
ABSL_FLAG(uint64_t, seed, 1, "any number");

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Writes a synthetic malloc trace: id,lower,upper,size.");
  absl::ParseCommandLine(argc, argv);
  const int kind = absl::GetFlag(FLAGS_kind);
  const int64_t buffers = absl::GetFlag(FLAGS_buffers);
  if (kind < 1 || kind > 2 || buffers < 1) {
    std::fprintf(stderr, "synthetic_trace: expected --kind 1 or 2 and --buffers above 0\n");
    return 2;
  }
  std::puts("id,lower,upper,size");
  int64_t id = 0;
  for (const workloads::SyntheticBuffer& b :
       workloads::SyntheticTrace(kind, buffers, absl::GetFlag(FLAGS_seed))) {
    std::printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", id++, b.lower, b.upper,
                b.size);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
