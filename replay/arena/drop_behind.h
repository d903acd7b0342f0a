// Walking once through a table of the plan without keeping it in memory.
#ifndef REPRISE_REPLAY_ARENA_DROP_BEHIND_H_
#define REPRISE_REPLAY_ARENA_DROP_BEHIND_H_

#include <stdint.h>

#include "base/give_back.h"
#include "base/page.h"

namespace reprise::replay {

// Gives back the pages of a file mapping behind a walk, and the rest when it ends: they come back
// from the file when they are read again. Hook-safe.
class DropBehind {
 public:
  DropBehind(const void* begin, uint64_t bytes)
      : begin_(Up(reinterpret_cast<uint64_t>(begin))),
        end_(reinterpret_cast<uint64_t>(begin) + bytes),
        done_(begin_) {}
  ~DropBehind() { Drop(end_); }
  DropBehind(const DropBehind&) = delete;
  DropBehind& operator=(const DropBehind&) = delete;

  // The walk has come to `at`, and has not read there yet.
  void At(const void* at) const {
    const auto here = reinterpret_cast<uint64_t>(at);
    if (__builtin_expect((here ^ done_) >= kStretch && here > done_, 0)) Drop(here);
  }

 private:
  static constexpr uint64_t kPage = base::kPageBytes;
  // So much may lie behind: each return of pages interrupts the program's other threads. A multiple
  // of what the system maps around a page that is read.
  static constexpr uint64_t kStretch = 256 << 10;
  static uint64_t Up(uint64_t address) { return (address + kPage - 1) & ~(kPage - 1); }

  // From the beginning each time: with a page that is read the system maps those around it, up to
  // 2 MiB, also pages that were given back.
  void Drop(uint64_t here) const {
    here &= ~(kPage - 1);
    if (here <= done_) return;
    GiveBack(reinterpret_cast<const void*>(begin_), here - begin_);
    done_ = here;
  }

  uint64_t begin_;
  uint64_t end_;
  mutable uint64_t done_;
};

// Gives back all pages of a table.
inline void DropPages(const void* begin, uint64_t bytes) { const DropBehind all(begin, bytes); }

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_DROP_BEHIND_H_
