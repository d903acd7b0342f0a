// What every fuzz target demands of what it reads.
#ifndef REPRISE_TESTS_FUZZ_REQUIRE_H_
#define REPRISE_TESTS_FUZZ_REQUIRE_H_

#include <cstdlib>

#include "absl/status/status.h"

namespace reprise::fuzz {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

// A refusal: an input error (exit status 3) with one line.
inline void RequireRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument ||
          status.code() == absl::StatusCode::kDataLoss ||
          status.code() == absl::StatusCode::kUnimplemented);
  Require(!status.message().empty());
}

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_REQUIRE_H_
