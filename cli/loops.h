// What `plan` and `info` say of the loops of a recording.
#ifndef REPRISE_CLI_LOOPS_H_
#define REPRISE_CLI_LOOPS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replay/plan/loops.h"

namespace reprise::cli {

// A list with an object per loop (docs/reference/json.md).
nlohmann::ordered_json DescribeLoops(const replay::FoundLoops& found);

// A line for each of the first few in such a list, and for what is no loop.
std::vector<std::string> LoopLines(const nlohmann::ordered_json& loops);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_LOOPS_H_
