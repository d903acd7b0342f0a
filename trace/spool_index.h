// The first pass over a spool: where each thread's events lie, and what about them is out of the
// ordinary. The second pass (spool_reader.cc) merges by epoch.
#ifndef REPRISE_TRACE_SPOOL_INDEX_H_
#define REPRISE_TRACE_SPOOL_INDEX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "trace/mapped_file.h"
#include "trace/recording.h"
#include "trace/spool_format.h"

namespace reprise::trace {

// One event as it lies in the spool.
struct SpoolEvent {
  uint64_t kind = 0;
  uint64_t address = 0;  // in units of the block alignment; names the block
  uint64_t epoch = 0;
  uint64_t words[3] = {};  // those after word 0
  uint64_t bytes = 0;      // that it takes
  bool flag = false;       // kSpoolWaste
  bool mark = false;       // kSpoolMark
  uint64_t position = 0;   // of word 0, bytes from the start of the file
  // kSpoolStack: its addresses, in the file, and its number.
  std::span<const uint64_t> stack{};
  uint64_t number = 0;
};

// Events of one thread that lie one after another in one chunk.
struct SpoolSegment {
  uint32_t thread = 0;          // index into Recording::threads
  uint64_t begin = 0, end = 0;  // bytes from the start of the file
  uint64_t epoch = 0;           // at its beginning
};

struct SpoolIndex {
  std::vector<SpoolSegment> segments;  // by epoch
  // Positions of kSpoolReallocFree events whose realloc failed: the block lives on.
  absl::flat_hash_set<uint64_t> revoked;
};

// Decodes the event at `position`, which must end before `end`; `epoch` is that of what lies before
// it in the segment. False: there is none (word 0 is zero), or it is malformed (`malformed` is
// set).
bool DecodeSpoolEvent(const MappedFile& file, uint64_t position, uint64_t end, uint64_t epoch,
                      SpoolEvent& event, bool& malformed);

// Goes through every chunk; fills in recording.threads, damage and lost_events.
SpoolIndex IndexSpool(const MappedFile& file, const SpoolHeader& header, Recording& recording);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_SPOOL_INDEX_H_
