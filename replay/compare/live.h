// A real program under each allocator: started, watched from outside, and measured.
#ifndef REPRISE_REPLAY_COMPARE_LIVE_H_
#define REPRISE_REPLAY_COMPARE_LIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace reprise::replay {

// One run of a program.
struct LiveRun {
  int status = 0;  // its own, or 128 + signal
  double wall_seconds = 0;
  double cpu_seconds = 0;  // user and system, of it and of the children that it waited for
  int64_t peak_rss = 0;    // bytes: the most of any of those processes
  int64_t page_faults = 0;
  uint64_t output_hash = 0;  // XXH3 of what it wrote to standard output
  uint64_t output_bytes = 0;
};

struct LiveCommand {
  std::vector<std::string> words;  // path or name, then arguments
  std::string preload{};           // library; empty: none
  // A file to read as standard input from its start; -1: /dev/null.
  int input = -1;
};

// Runs it once, with nothing else preloaded and address randomisation off; its standard error goes
// to /dev/null. `player` is reprise-player. Unavailable when the system refused.
absl::StatusOr<LiveRun> RunLive(const std::string& player, const LiveCommand& command);

// The path of the object from which a program, when started with `preload`, gets malloc. Asked of
// the dynamic linker, which binds all symbols and then ends without running the program. NotFound
// when it does not tell: the program is static, or a script.
absl::StatusOr<std::string> BindingOfMalloc(const std::string& program, const std::string& preload);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_LIVE_H_
