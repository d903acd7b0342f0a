// Replay begins: the plan of this image is found and mapped, its keys get their addresses in this
// process, and the arena is laid out. What is served from it then is the replayer's.
#ifndef REPRISE_INTERPOSE_REPLAY_REPLAY_SETUP_H_
#define REPRISE_INTERPOSE_REPLAY_REPLAY_SETUP_H_

#include "replay/arena/arena.h"

namespace reprise::interpose {

// Hidden, so that no table of addresses is read to find it. Serves nobody before StartReplay.
extern __attribute__((visibility("hidden"))) replay::Arena replay_arena;

// Finds the plan of this image and sets the arena up; false when there is none (and a message was
// left for the launcher, when that is a surprise).
bool StartReplay();

// Of what replay has mapped, from the beginning of each part; 0: nothing.
uint64_t ReplayCounterBytes();
uint64_t ReplayStateBytes();
uint64_t ReplayPlanBytes();
uint64_t ReplayBlockBytes();

// Inside of these parts: the heap grows no further, and what it would grow into is given back.
void CutReplay();  // not while the thread is in a hook

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_REPLAY_REPLAY_SETUP_H_
