// Starting a program with the library inside: what `record` and `replay` share.
#ifndef REPRISE_CLI_LAUNCH_H_
#define REPRISE_CLI_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/spool_drainer.h"
#include "cli/still_running.h"
#include "interpose/process/session.h"

namespace reprise::cli {

struct LaunchRequest {
  std::string path;                  // of the program, as FindPreloadable returns it
  std::vector<std::string> program;  // its name and arguments
  uint32_t flags = 0;                // interpose::SessionFlags
  std::string output;                // directory for spools, absolute; empty when not recording
  uint32_t stack_frames = 0;         // callers to note for each allocation
  std::vector<interpose::PlanEntry> plans;  // sorted by place
  std::vector<uint64_t> counters_bytes;     // of each of them: of a counters file
  bool keep_aslr = false;                   // leave address randomisation and hash seeds alone
};

struct LaunchResult {
  int exit_code = 0;  // the program's: its status, or 128 + signal
  // In the order in which they started. The program can write anything there; the texts end.
  std::vector<interpose::ImageEntry> images;
  uint32_t left_out = 0;                // images of which nothing is known: no room
  uint32_t forbidden = 0;               // the same, because a sandbox forbids it
  bool session_removed = false;         // while the program ran
  std::vector<RunningProcess> running;  // when it had ended; of a recording
  std::vector<std::string> counters;    // per image, the bytes of its counters file; empty
                                        // when it has none
  BegunCompactions compactions;         // of spools
};

// Starts the program and waits for it. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are
// passed on to it; what comes when it has ended waits until the session is removed.
// Errors: NotFound (exit 127), PermissionDenied and FailedPrecondition (126), others (125).
absl::StatusOr<LaunchResult> Launch(const LaunchRequest& request);

// From now on a write beyond RLIMIT_FSIZE is an error here and no signal, and children can be
// waited for even where whoever started us ignores theirs. What Launch starts gets both as they
// were.
void SettleSignals();

// Prints the error of FindPreloadable or of a launch and returns the exit code that goes with it.
int FailLaunch(const absl::Status& status);

// Prints what images left to say, each message once.
void PrintMessages(const LaunchResult& result);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_LAUNCH_H_
