// The image's spool, and the chunks of it that its threads write into. A chunk is given to a
// thread, filled, sealed, copied away by the launcher and given back, or passed on when the thread
// ends. All of that is the slow way, with signals blocked; memory is made sure of first, as a full
// disk must not become a SIGBUS in the host.
#ifndef REPRISE_INTERPOSE_RECORD_SPOOL_CHUNKS_H_
#define REPRISE_INTERPOSE_RECORD_SPOOL_CHUNKS_H_

#include <stdint.h>

#include "base/mutex.h"
#include "interpose/process/process.h"
#include "interpose/record/record_event.h"
#include "interpose/record/spool_file.h"
#include "trace/spool_format.h"

namespace reprise::interpose {

struct Spool {
  trace::SpoolHeader* header;  // null: nothing is recorded
  replay::Mutex lock;          // of slow ways only, signals blocked
};

extern __attribute__((visibility("hidden"))) Spool spool;

// The spool's chunks can be taken from now on.
void StartChunks(const SpoolFile& file);

// Makes the spool's mapping as small as such a limit of addresses wants it, or what is in use: so
// many bytes of it are needed. Whoever calls unmaps the rest.
uint64_t ShrinkSpool(uint64_t address_limit);

// The thread ends: its chunk goes on to the next thread that needs one.
void ReleaseChunk();

// In a forked child: the parent's spool is not mapped here.
void ForgetSpool();

// Events that were written nowhere.
inline void Lose(int64_t events) {
  __atomic_fetch_add(&spool.header->lost_events, events, __ATOMIC_RELAXED);
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_SPOOL_CHUNKS_H_
