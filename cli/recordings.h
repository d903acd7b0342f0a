// The directory that a recording goes into.
#ifndef REPRISE_CLI_RECORDINGS_H_
#define REPRISE_CLI_RECORDINGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/launch.h"

namespace reprise::cli {

// Makes `path` a directory for new traces and returns its absolute path. Traces of an earlier
// recording there are kept: they move to a new folder, PATH.old, PATH.old.2 … (set_aside.h).
// Unavailable while another `reprise` records there.
absl::StatusOr<std::string> PrepareOutput(const std::string& path);

// Turns the spools in `directory` into compact traces, or finishes those that were begun, and says
// on stderr what was recorded. Spools that a process still writes to, and those that cannot be
// read, stay as they are and are named; of the former a process in the background cuts the unused
// end off when their process has ended.
void FinishRecordings(const std::string& directory, LaunchResult& result);

// The same in a process of its own (apart.h): when there is not enough memory the spools stay, that
// is said, and the caller still knows how the program ended.
void FinishApart(const std::string& directory, LaunchResult& result);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_RECORDINGS_H_
