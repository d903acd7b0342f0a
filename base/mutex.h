// A lock for rare paths, of the library that is preloaded.
#ifndef REPRISE_BASE_MUTEX_H_
#define REPRISE_BASE_MUTEX_H_

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace reprise::replay {

inline __thread char mutex_holder;  // its address names the thread

// Taken only where a signal handler keeps out, so that it cannot wait for its own thread. Who waits
// looks again a few times and then sleeps: a real-time thread that went on trying would keep the
// processor from the thread that it waits for. errno stays as it is.
class Mutex {
 public:
  bool TryLock() { return TakeAs(Here()); }
  void Lock() {
    constexpr int kTries = 100;
    for (int tries = 0; tries < kTries; ++tries) {
      if (__atomic_load_n(&state_, __ATOMIC_RELAXED) == kFree && TryLock()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    const int before = errno;
    // Others may sleep as well, so the lock is awaited from now on.
    while (!TakeAs(Here() | kAwaited)) Sleep();
    errno = before;
  }
  void Unlock() {
    if ((__atomic_exchange_n(&state_, kFree, __ATOMIC_RELEASE) & kAwaited) != 0) WakeOne();
  }
  // The calling thread may have been in Lock or Unlock, or between them, and will never go on
  // there.
  void LeaveBehind() {
    if (IsHeldHere()) __atomic_store_n(&state_, kFree, __ATOMIC_RELEASE);
    WakeOne();
  }
  // Whether the calling thread holds the lock: right at every instruction of Lock and Unlock.
  bool IsHeldHere() const {
    return (__atomic_load_n(&state_, __ATOMIC_RELAXED) & ~uint64_t{kAwaited}) == Here();
  }

 private:
  // What holds the lock, and whether somebody may wait for it.
  enum State : uint64_t { kFree = 0, kAwaited = 1 };

  static uint64_t Here() { return reinterpret_cast<uint64_t>(&mutex_holder) << 1; }
  bool TakeAs(uint64_t holder) {
    uint64_t found = kFree;
    return __atomic_compare_exchange_n(&state_, &found, holder, /*weak=*/false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
  }
  void WakeOne() { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1); }
  // Until the lock has been given back, perhaps.
  void Sleep() {
    uint64_t found = __atomic_load_n(&state_, __ATOMIC_RELAXED);
    if (found == kFree) return;
    const uint64_t awaited = found | kAwaited;
    if (found != awaited && !__atomic_compare_exchange_n(&state_, &found, awaited, /*weak=*/false,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return;
    }
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, static_cast<uint32_t>(awaited), nullptr);
  }

  uint64_t state_ = kFree;  // the system sees its lower half
};

}  // namespace reprise::replay

#endif  // REPRISE_BASE_MUTEX_H_
