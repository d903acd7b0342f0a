// Fetching ahead what other processors have in their caches. Hook-safe.
#ifndef REPRISE_BASE_FETCH_H_
#define REPRISE_BASE_FETCH_H_

namespace reprise::replay {

// The cache line there is going to be written to: other processors need not be asked twice. It may
// be anywhere, also where nothing is. (gcc's own prefetch only reads, as the oldest processors
// must; to those that do not know this instruction it is none.)
inline void FetchToWrite(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw (%0)" : : "r"(line));
#else
  __builtin_prefetch(line, /*rw=*/1);
#endif
}

}  // namespace reprise::replay

#endif  // REPRISE_BASE_FETCH_H_
