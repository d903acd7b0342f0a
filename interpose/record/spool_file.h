// The file that an image's events go into: made, mapped, and its header filled in.
#ifndef REPRISE_INTERPOSE_RECORD_SPOOL_FILE_H_
#define REPRISE_INTERPOSE_RECORD_SPOOL_FILE_H_

#include <stdint.h>

#include "interpose/process/address_limit.h"
#include "interpose/process/address_map.h"
#include "trace/spool_format.h"

namespace reprise::interpose {

struct SpoolFile {
  trace::SpoolHeader* header = nullptr;  // without its magic; null: see OpenSpool
  uint64_t bytes = 0;                    // of the mapping
  bool in_place = false;  // what has been written once can be written again on a full disk
};

// Of a spool under such a limit of addresses, what the system may allow.
inline uint64_t SpoolBytes(uint64_t address_limit) {
  return ShareOf(address_limit, kSpool.bytes, 3 << 20);
}

// Makes the spool of this image in the session's output directory, as large as the system allows.
// Without a header when no spool can be made (and a message was left for the launcher).
SpoolFile OpenSpool();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_SPOOL_FILE_H_
