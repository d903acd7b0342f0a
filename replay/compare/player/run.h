// Runs a program and says what it cost. A process of its own does that, because the kernel counts
// the memory of whoever starts a program as the program's: this one has next to none.
#ifndef REPRISE_REPLAY_COMPARE_PLAYER_RUN_H_
#define REPRISE_REPLAY_COMPARE_PLAYER_RUN_H_

namespace reprise::replay {

// Starts argv[0] with argv, address randomisation off, and with what the environment variable
// REPRISE_LIVE_PRELOAD names (if set) preloaded; waits for it and prints lines of "name value" to
// descriptor `out`. Returns 0, or 4 when the system refused.
int RunProgram(char** argv, int out);

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_COMPARE_PLAYER_RUN_H_
