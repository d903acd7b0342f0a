// Pages that go back to the system.
#ifndef REPRISE_BASE_GIVE_BACK_H_
#define REPRISE_BASE_GIVE_BACK_H_

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

namespace reprise::replay {

// Gives whole pages back: they read as zeros afterwards, or as the file that they map. False: the
// program has locked them, and nothing has happened. Hook-safe; leaves errno alone, as a free must.
inline bool GiveBack(const void* begin, uint64_t bytes) {
  const int before = errno;
  const bool given = madvise(const_cast<void*>(begin), bytes, MADV_DONTNEED) == 0;
  errno = before;
  return given;
}

}  // namespace reprise::replay

#endif  // REPRISE_BASE_GIVE_BACK_H_
