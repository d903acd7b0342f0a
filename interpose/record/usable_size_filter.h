// Blocks whose usable size is in the recording. Programs that ask (redis, SQLite) do so after each
// allocation and before each free, and the answer is the same.
//
// Only the latest block of each place modulo 64 KiB is known; what is forgotten is written once
// more. The table is so small that it stays in the cache, which counts for more. Plain loads and
// stores are enough, as for epochs (epochs.h).
#ifndef REPRISE_INTERPOSE_RECORD_USABLE_SIZE_FILTER_H_
#define REPRISE_INTERPOSE_RECORD_USABLE_SIZE_FILTER_H_

#include <stdint.h>

#include "trace/spool_format.h"

namespace reprise::interpose {

inline constexpr int kKnownUsableBits = 13;
extern __attribute__((visibility("hidden"))) uint32_t known_usable[1 << kKnownUsableBits];

inline uint32_t* AskedEntry(uint64_t address) {
  return &known_usable[(address >> trace::kSpoolAddressShift) % (1 << kKnownUsableBits)];
}

// What stands in its entry: the rest of the address, and that there is one.
inline uint32_t AskedWord(uint64_t address) {
  constexpr uint32_t kPresent = uint32_t{1} << 31;
  return static_cast<uint32_t>(address >> (trace::kSpoolAddressShift + kKnownUsableBits)) |
         kPresent;
}

inline bool IsKnownUsable(uint64_t address) {
  return __atomic_load_n(AskedEntry(address), __ATOMIC_RELAXED) == AskedWord(address);
}

inline void SetAsked(uint64_t address) {
  __atomic_store_n(AskedEntry(address), AskedWord(address), __ATOMIC_RELAXED);
}

// Another block takes its place. Whose answer stands in the entry is not looked at: that would be a
// guess for the processor, and who asks after each allocation takes the entry at once.
inline void ForgetAsked(uint64_t address) {
  __atomic_store_n(AskedEntry(address), 0, __ATOMIC_RELAXED);
}

}  // namespace reprise::interpose

#endif  // REPRISE_INTERPOSE_RECORD_USABLE_SIZE_FILTER_H_
