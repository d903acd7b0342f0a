// What a recording holds at most. Writers stop there, and a reader takes more for damage, so that a
// small file cannot cost much memory or time.
#ifndef REPRISE_TRACE_LIMITS_H_
#define REPRISE_TRACE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "trace/spool_format.h"

namespace reprise::trace {

inline constexpr size_t kMostModules = kSpoolMostModules;
inline constexpr size_t kMostStacks = kSpoolMostStacks;
inline constexpr size_t kMostFrames = kSpoolStackCount;  // of a stack
inline constexpr size_t kMostThreads = 1 << 20;
inline constexpr size_t kMostSites = 1 << 24;
inline constexpr size_t kMostReasonBytes = 200;  // of a damage

// Definitions (modules, threads, stacks, sites) that a compact trace may hold, in bytes before
// compression: they compress to a tenth at best.
inline constexpr uint64_t MostDefinitionBytes(uint64_t file_bytes) {
  return (uint64_t{4} << 20) + 64 * file_bytes;
}

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_LIMITS_H_
