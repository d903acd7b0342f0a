// Starts recording or replay in a process image, renews it in a forked child, and ends it.
#ifndef REPRISE_INTERPOSE_STARTUP_H_
#define REPRISE_INTERPOSE_STARTUP_H_

#include "interpose/process/process.h"

namespace reprise::interpose {

// Finds the session and decides the mode. Called by the first hook of an image; other threads and
// signal handlers that come in meanwhile see kStarting.
void Start();

// Renews the state in a forked child: recording goes on in a file of its own, replay ends.
void AfterFork();

// Makes sure that the library has been started, and that a fork has been noticed.
inline void NoticeProcess() {
  if (process.mode == Mode::kUnstarted) Start();
  if (process.mode > Mode::kPlain && Forked()) AfterFork();
}

// Called when the image ends in the ordinary way, and before an exec: notes its peak memory, and
// how far its replay came.
void RecordImageEnd();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_STARTUP_H_
