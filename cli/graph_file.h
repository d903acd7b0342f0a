// `reprise plan` and `reprise check` on a graph as JSON (docs/reference/graph_format.md).
#ifndef REPRISE_CLI_GRAPH_FILE_H_
#define REPRISE_CLI_GRAPH_FILE_H_

#include <string>

#include "planner/solve.h"

namespace reprise::cli {

// The options of `reprise plan` that only graphs have; see planner::graph::GraphOptions.
struct GraphChoices {
  std::string order = "auto";
  std::string safety = "stream_graph";
  bool ignore_unknown = false;  // fields: warn, do not refuse
};

// Plans `input` into `output` and prints what came of it. Returns the exit code.
int PlanGraphFile(const std::string& input, const std::string& output,
                  const planner::Options& options, const GraphChoices& choices, bool json);

// Checks `plan` against the graph in `input`, prints the verdict, returns the exit code.
int CheckGraphFile(const std::string& input, const std::string& plan, bool ignore_unknown,
                   bool json);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_GRAPH_FILE_H_
