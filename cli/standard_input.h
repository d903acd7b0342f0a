// Standard input that several runs of a program read.
#ifndef REPRISE_CLI_STANDARD_INPUT_H_
#define REPRISE_CLI_STANDARD_INPUT_H_

#include "absl/status/statusor.h"

namespace reprise::cli {

// All of standard input in a file without a name: its descriptor; -1 for a terminal, or when there
// is none.
absl::StatusOr<int> KeepInput();

}  // namespace reprise::cli

#endif  // REPRISE_CLI_STANDARD_INPUT_H_
