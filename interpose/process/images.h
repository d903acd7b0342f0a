// The process images of a session: this one's entry in the registry, and its session's files.
#ifndef REPRISE_INTERPOSE_PROCESS_IMAGES_H_
#define REPRISE_INTERPOSE_PROCESS_IMAGES_H_

#include <stdint.h>

#include "interpose/process/address_limit.h"
#include "interpose/process/address_map.h"
#include "interpose/process/session.h"

namespace reprise::interpose {

// Maps a file of the session in `directory`, at most `most` bytes of it, for writing or not; null
// when it cannot be, or when the folder is not ours alone.
void* MapSessionFile(const char* directory, const char* name, Range range, bool writable,
                     uint64_t most = UINT64_MAX);

// Of the registry, under such a limit of addresses: so many bytes of it are mapped.
inline uint64_t RegistryBytes(uint64_t address_limit) {
  constexpr uint64_t kLeast = 256 << 10;  // some 180 images
  const bool limited = address_limit != RLIM_INFINITY;
  return ShareOf(limited ? address_limit / 8 : address_limit, kRegistryBytes, kLeast);
}

// Images for which the launcher's registry has room, by its limit when it first asks.
inline uint32_t ImagesUnderLimit() {
  static const uint32_t images = EntriesIn(RegistryBytes(LimitOf(RLIMIT_AS)));
  return images;
}

// Enters this image into the tree of process.registry. False when there is no room in it. Called
// once, in Start().
bool RegisterImage();

// Enters a forked child, which is the `fork_number`-th of its parent. Null when there is no room;
// then process.image is still the parent's.
ImageEntry* RegisterForkedImage(uint32_t fork_number);

// VmHWM in bytes; 0 when it cannot be read. Async-signal-safe, with a small stack.
uint64_t PeakRss();

// Gives the memory back that registering took. It may be taken again.
void DropImageScratch();

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_IMAGES_H_
