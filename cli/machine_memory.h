// How much memory this process may use.
#ifndef REPRISE_CLI_MACHINE_MEMORY_H_
#define REPRISE_CLI_MACHINE_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace reprise::cli {

// The machine's memory, or the limit of a cgroup that this process is in, in bytes; the smaller
// one. UINT64_MAX when neither can be read.
uint64_t MachineMemory();

// Whether blocks of `max_load` bytes at one time may be written to: InvalidArgument, which begins
// with `path`, when they are more than half of that memory.
absl::Status FitsInMemory(const std::string& path, uint64_t max_load);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_MACHINE_MEMORY_H_
