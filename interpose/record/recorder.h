// The recorder: writes every event into the thread's chunk of the spool (trace/spool_format.h).
// What runs for every event is in record_event.h, where chunks come from in spool_chunks.h, and how
// return addresses get their modules in spool_modules.h.
#ifndef REPRISE_INTERPOSE_RECORD_RECORDER_H_
#define REPRISE_INTERPOSE_RECORD_RECORDER_H_

#include <stddef.h>
#include <stdint.h>

#include "interpose/record/epochs.h"
#include "interpose/record/record_event.h"
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

// Writes the event of a call stack; its modules are known. Returns the epoch in which it lies; 0
// when there is no room.
uint64_t WriteStack(uint32_t number, const uint64_t* addresses, uint32_t count);

// Events of the calling thread. `site` is thread_state.h, SiteWord, or stacks.h, StackSiteWord; its
// module is known.
void WriteAllocation(trace::SpoolEventKind kind, void* pointer, size_t size, uint64_t site,
                     unsigned log2_alignment);
inline void RecordFree(trace::SpoolEventKind kind, const void* pointer) {
  WriteEvent<1>(Word0(kind, pointer));
}
void WriteUsableSize(const void* pointer, size_t answer);
void WriteMark();
inline void RecordUsable(const void* pointer, size_t answer) {
  if (!IsKnownUsable(reinterpret_cast<uint64_t>(pointer))) WriteUsableSize(pointer, answer);
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_RECORDER_H_
