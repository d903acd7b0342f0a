// The first pass over a spool: where each thread's events lie, and what about them is out of the
// ordinary. The second pass (spool_reader.cc) merges by stamp.
#ifndef REPRISE_TRACE_SPOOL_INDEX_H_
#define REPRISE_TRACE_SPOOL_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"
#include "trace/spool_format.h"

namespace reprise::trace {

// One event as it lies in the spool.
struct SpoolEvent {
  uint64_t kind = 0;
  uint64_t address = 0;    // in units of the block alignment; names the block
  uint64_t stamp = 0;      // in full
  uint64_t words[3] = {};  // those after word 0
  uint64_t bytes = 0;      // that it takes
  bool flag = false;       // kSpoolWaste, kSpoolImplied
  uint64_t position = 0;   // of word 0, bytes from the start of the file
};

// What an event's stamp is told from.
struct SpoolClock {
  uint64_t stamp = 0;  // of the event before: the stamp's low bits are in the event
  // Set where the stamps are implied: position and stamp of the thread event.
  uint64_t implied_at = 0;
  uint64_t implied_stamp = 0;
};

// Events of one thread that lie one after another in one chunk.
struct SpoolSegment {
  uint32_t thread = 0;          // index into Recording::threads
  uint64_t begin = 0, end = 0;  // bytes from the start of the file
  SpoolClock clock;             // before the first event
  uint64_t first_stamp = 0;     // the lowest of its events' stamps
  // Range in SpoolIndex::late.
  uint64_t late_begin = 0, late_end = 0;
};

// An event that lies after one with a higher stamp of the same thread: a signal handler came in
// between taking the stamp and taking the slot.
struct LateEvent {
  uint64_t stamp = 0;
  uint64_t base_stamp = 0;
  uint64_t position = 0;
};

struct SpoolIndex {
  std::vector<SpoolSegment> segments;  // by first_stamp
  std::vector<LateEvent> late;         // by stamp within a segment
  // Positions of kSpoolReallocFree events whose realloc failed: the block lives on.
  absl::flat_hash_set<uint64_t> revoked;
};

// Decodes the event at `position`, which must end before `end`. False: there is none (word 0 is
// zero), or it is malformed (`malformed` is set).
bool DecodeSpoolEvent(const MappedFile& file, uint64_t position, uint64_t end,
                      const SpoolClock& clock, SpoolEvent& event, bool& malformed);

// Goes through every chunk; fills in recording.threads, damage and lost_events.
SpoolIndex IndexSpool(const MappedFile& file, const SpoolHeader& header, Recording& recording);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_INDEX_H_
