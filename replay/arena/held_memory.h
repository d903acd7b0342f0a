// How much the lanes of an arena hold at once beside their boxes, and when they are to give pages
// back.
//
// A lane that needs more than its box uses its annex. When all of them together hold more than they
// ever did, the ones that run free are asked for pages in which nothing lives: threads seldom need
// most at the same time. They are asked once in a step of growth, a share of the boxes, and give
// back a few times as much; so each byte of growth costs no more than so many bytes that the system
// has to clear again.
//
// Thread-safety: every function but Start may be called from any thread. Hook-safe.
#ifndef REPRISE_REPLAY_ARENA_HELD_MEMORY_H_
#define REPRISE_REPLAY_ARENA_HELD_MEMORY_H_

#include <stdint.h>

namespace reprise::replay {

class HeldMemory {
 public:
  // `boxes` bytes are held from the beginning. `most` is where it is told how much more was held at
  // the most, bytes; it is 0 and outlives the object.
  void Start(uint64_t boxes, uint64_t* most) {
    step_ = static_cast<int64_t>(boxes / kStepShare > kLeastStep ? boxes / kStepShare : kLeastStep);
    ask_at_ = step_;
    most_ = most;
  }

  void Take(uint64_t bytes) {
    const int64_t held = __atomic_add_fetch(&held_, static_cast<int64_t>(bytes), __ATOMIC_RELAXED);
    NoteMost(held);
    int64_t ask_at = __atomic_load_n(&ask_at_, __ATOMIC_RELAXED);
    if (held >= ask_at &&
        __atomic_compare_exchange_n(&ask_at_, &ask_at, held + step_,
                                    /*weak=*/false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      __atomic_fetch_add(&asks_, 1, __ATOMIC_RELAXED);
    }
  }
  void Give(uint64_t bytes) {
    __atomic_fetch_sub(&held_, static_cast<int64_t>(bytes), __ATOMIC_RELAXED);
  }

  // How often the lanes were asked.
  uint32_t Asks() const { return __atomic_load_n(&asks_, __ATOMIC_RELAXED); }
  // Bytes that are still to be given back for the latest of these.
  uint64_t Wanted() const {
    const int64_t more = __atomic_load_n(&held_, __ATOMIC_RELAXED) + kGivenBack * step_ -
                         __atomic_load_n(&ask_at_, __ATOMIC_RELAXED);
    return more > 0 ? static_cast<uint64_t>(more) : 0;
  }

 private:
  static constexpr uint64_t kLeastStep = 16 << 10;
  static constexpr uint64_t kStepShare = 512;
  static constexpr int64_t kGivenBack = 16;  // steps

  void NoteMost(int64_t held) {
    uint64_t most = __atomic_load_n(most_, __ATOMIC_RELAXED);
    while (held > static_cast<int64_t>(most) &&
           !__atomic_compare_exchange_n(most_, &most, static_cast<uint64_t>(held), /*weak=*/true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }

  int64_t step_ = 0;
  uint64_t* most_ = nullptr;
  alignas(64) int64_t held_ = 0;  // atomic, as the following; below 0 where pages of boxes are gone
  int64_t ask_at_ = 0;
  uint32_t asks_ = 0;
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_ARENA_HELD_MEMORY_H_
