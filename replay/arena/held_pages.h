// How many pages the boxes that are followed, the regions and the heap hold: now, and at most.
//
// Thread-safety: Add may be called from any thread. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_HELD_PAGES_H_
#define REPRISE_REPLAY_ARENA_HELD_PAGES_H_

#include <stdint.h>

namespace reprise::replay {

class HeldPages {
 public:
  // `most` is where the most that was held is told, in pages; it is 0 and outlives the object.
  void Start(uint64_t* most) { most_ = most; }

  void Add(int64_t pages) {
    const int64_t held = __atomic_add_fetch(&held_, pages, __ATOMIC_RELAXED);
    uint64_t most = __atomic_load_n(most_, __ATOMIC_RELAXED);
    while (held > static_cast<int64_t>(most) &&
           !__atomic_compare_exchange_n(most_, &most, static_cast<uint64_t>(held), /*weak=*/true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }

 private:
  uint64_t* most_ = nullptr;
  int64_t held_ = 0;  // atomic
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_HELD_PAGES_H_
