// Standard output whose first failure is known: stdio forgets why an early flush failed.
#ifndef REPRISE_CLI_STANDARD_OUTPUT_H_
#define REPRISE_CLI_STANDARD_OUTPUT_H_

#include "absl/status/status.h"

namespace reprise::cli {

// Makes `stdout` a stream that writes to the same descriptor and keeps the errno of the first write
// that fails. To be called once, before anything is printed. std::cout does not follow.
void OpenStandardOutput();

// Writes what is left. Unavailable "cannot write to standard output: errno text" when anything that
// was printed could not be written.
absl::Status FlushStandardOutput();

}  // namespace reprise::cli

#endif  // REPRISE_CLI_STANDARD_OUTPUT_H_
