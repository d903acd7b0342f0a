// The recorder: writes every event into the thread's chunk of the spool (trace/spool_format.h).
//
// One allocation, walked through: the hook calls the real malloc, takes a stamp (the event's place
// in the global order: one plain add while the process has one thread, one atomic add afterwards),
// reserves 24 bytes of the chunk with one instruction that no signal handler can tear, stores site
// and size, and last the word that makes the event valid. No lock, no call, no branch that is
// usually taken. Every few thousand events the chunk is full: the slow path, with signals blocked,
// seals it and takes the next one, whose memory it makes sure of first (a full disk must not become
// a SIGBUS in the host).
//
// An allocation is stamped after it returns and a free before it is passed on, so that the reuse of
// an address by another thread never appears before the free that allowed it.
#ifndef REPRISE_INTERPOSE_RECORDER_H_
#define REPRISE_INTERPOSE_RECORDER_H_

#include <stddef.h>
#include <stdint.h>

#include "trace/spool_format.h"

namespace reprise::interpose {

// Opens the image's spool and records from now on; false when no spool can be made (and a message
// was left for the launcher). Called in Start() and in a forked child.
bool StartRecording();

// In a forked child: the parent's spool is not mapped here.
void StopRecordingAfterFork();

// The image ends: marks the spool complete. Events may still follow.
void EndRecording();

// It did not: an exec failed.
void ResumeRecording();

// A child was started that cannot be preloaded.
void CountUnpreloadable();

// The thread ends: its chunk goes on to the next thread that needs one.
void ReleaseChunk();

// Events of the calling thread. `site` is thread_state.h, SiteWord.
void RecordAllocation(trace::SpoolEventKind kind, const void* pointer, size_t size, uint64_t site,
                      unsigned log2_alignment = 0);
void RecordFree(trace::SpoolEventKind kind, const void* pointer);
void RecordUsable(const void* pointer, size_t answer);

// A module may have left its addresses: look afresh at the next one.
void ForgetModules();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORDER_H_
