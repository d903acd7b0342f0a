// Runs reprise-player and reads what it printed.
#ifndef REPRISE_REPLAY_PLAYER_PROCESS_H_
#define REPRISE_REPLAY_PLAYER_PROCESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace reprise::replay {

// The lines "name value" that the player printed.
using Answers = std::map<std::string, std::string>;

// Starts `player` with the library `preload` (empty: none) and nothing else preloaded, and waits
// for it. It performs `script`; an empty script asks only who serves malloc. Its standard error is
// shown when `script` is given. Errors: Aborted when the player ended badly, Unavailable when the
// system refused to start it.
absl::StatusOr<Answers> RunPlayer(const std::string& player, const std::string& preload,
                                  const std::vector<uint64_t>& script);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAYER_PROCESS_H_
