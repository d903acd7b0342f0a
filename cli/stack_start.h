// Where a program's stack begins, as far as its launcher decides that.
#ifndef REPRISE_CLI_STACK_START_H_
#define REPRISE_CLI_STACK_START_H_

#include <string>
#include <vector>

namespace reprise::cli {

bool IsElf(const std::string& path);

// A name for the ELF file at `path` with which its stack begins at the same address modulo 64,
// whatever arguments and environment it gets: as many slashes are added. Code for vectors aligns
// its frames to 64 bytes; how deep the calls below them lie, which tells call sites apart, would
// else depend on the length of all arguments. A script keeps its name, which it can see.
std::string NameForStackStart(const std::string& path, const std::vector<std::string>& arguments,
                              char* const environment[]);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_STACK_START_H_
