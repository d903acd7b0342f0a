// Which processes of a session still run when its program has ended.
#ifndef REPRISE_CLI_STILL_RUNNING_H_
#define REPRISE_CLI_STILL_RUNNING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::cli {

struct RunningProcess {
  uint32_t pid;
  std::string name;  // as the system has it
};

// Those that were started with the session whose folder is `session`, or forked from one that was,
// without the calling one; as far as the caller may look at them.
std::vector<RunningProcess> ProcessesOf(const std::string& session);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_STILL_RUNNING_H_
