// `reprise compare --live`: the program itself under each allocator, and replayed.
#ifndef REPRISE_CLI_COMPARE_LIVE_H_
#define REPRISE_CLI_COMPARE_LIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "replay/compare/compare.h"

namespace reprise::cli {

struct LiveSettings {
  std::vector<std::string> program;           // and its arguments
  std::string plan;                           // empty: without replay
  std::vector<replay::Allocator> allocators;  // as ParseAllocators returns them
  int64_t runs = 5;                           // of each, interleaved
  bool json = false;
};

// Runs, measures and prints. The exit code: kNo when the program failed under one of them or wrote
// something else. Errors: NotFound and FailedPrecondition for a program that cannot be run or
// preloaded, Unavailable when the system refused.
absl::StatusOr<int> CompareLive(const LiveSettings& settings);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_COMPARE_LIVE_H_
