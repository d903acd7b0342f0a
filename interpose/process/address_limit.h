// RLIMIT_AS and RLIMIT_DATA: what the process may map. Where one is set, our mappings count against
// what the program may have, so little is mapped, and nothing is reserved.
#ifndef REPRISE_INTERPOSE_PROCESS_ADDRESS_LIMIT_H_
#define REPRISE_INTERPOSE_PROCESS_ADDRESS_LIMIT_H_

#include <stdint.h>
#include <sys/resource.h>

#include "base/system_call.h"

namespace reprise::interpose {

// The soft limit, in bytes; RLIM_INFINITY: none.
inline uint64_t LimitOf(int resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  SystemCall(SYS_prlimit64, 0, resource, 0, reinterpret_cast<long>(&limit));
  return limit.rlim_cur;
}

// Of `bytes` that are wanted what may be mapped under a limit of addresses: 1/64 of it, but at
// least `least`.
inline uint64_t ShareOf(uint64_t limit, uint64_t bytes, uint64_t least) {
  if (limit == RLIM_INFINITY) return bytes;
  const uint64_t share = limit / 64 > least ? limit / 64 : least;
  return bytes < share ? bytes : share;
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_PROCESS_ADDRESS_LIMIT_H_
