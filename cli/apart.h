// Work that may need more memory than there is, in a process of its own.
#ifndef REPRISE_CLI_APART_H_
#define REPRISE_CLI_APART_H_

#include <functional>
#include <string>

namespace reprise::cli {

// Runs `work` in a forked child and returns its exit code. The child is the first to go when memory
// runs out (a cgroup's limit, say), and this process lives on. When it was killed, or ran out of
// memory otherwise, `what` is said in one line with that reason. Then, and when an exception ended
// the work, `otherwise` is returned. Where there can be no child the work is done here. For a
// process without other threads.
int RunApart(const std::function<int()>& work, const std::string& what, int otherwise);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_APART_H_
