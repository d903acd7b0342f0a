// `replay --runs N`: the same replay several times, and how far the runs lie apart.
#ifndef REPRISE_CLI_REPLAY_RUNS_H_
#define REPRISE_CLI_REPLAY_RUNS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace reprise::cli {

// Runs the command line of this process `runs` times without its --runs; each run reads standard
// input from its start. Says on stderr how time, memory and addresses varied. `stats`: where the
// statistics of the last run go, with those of all runs in `runs`; empty: nowhere. Returns the exit
// status of the program. There is no run after one that ends otherwise than the first, or was none.
// What the runs say of themselves is said once.
absl::StatusOr<int> RepeatReplay(int64_t runs, const std::string& stats);

// In such a run: where it writes what it says of itself; else empty. To be called before the
// program is started, which does not see it.
std::string LinesOfThisRun();

// From here on what goes to stderr goes to the file `lines`, unless that is empty.
void SpeakInto(const std::string& lines);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_REPLAY_RUNS_H_
