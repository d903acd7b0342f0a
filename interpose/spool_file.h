// The file that an image's events go into: made, mapped, and its header filled in.
#ifndef REPRISE_INTERPOSE_SPOOL_FILE_H_
#define REPRISE_INTERPOSE_SPOOL_FILE_H_

#include <stdint.h>

#include "trace/spool_format.h"

namespace reprise::interpose {

struct SpoolFile {
  trace::SpoolHeader* header = nullptr;  // without its magic; null: see OpenSpool
  uint64_t bytes = 0;                    // of the mapping
  bool in_place = false;  // what has been written once can be written again on a full disk
};

// Whether the file system is known to write changed pages where they were before, so that they need
// no more room.
bool WritesInPlace(int fd);

// Backs [from, from + bytes) with memory and disk. The error, or 0: EFAULT when the disk has no
// room left, ENOMEM when the memory has none; another when the system does not do that for the
// program.
int PopulateOr(char* from, uint64_t bytes);
inline bool Populate(char* from, uint64_t bytes) { return PopulateOr(from, bytes) == 0; }

// Makes the spool of this image in the session's output directory, as large as the system allows.
// Without a header when no spool can be made (and a message was left for the launcher).
SpoolFile OpenSpool();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_SPOOL_FILE_H_
