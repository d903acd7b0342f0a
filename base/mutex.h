// A lock for rare paths, of the library that is preloaded.
#ifndef REPRISE_BASE_MUTEX_H_
#define REPRISE_BASE_MUTEX_H_

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace reprise::replay {

// Taken only where a signal handler keeps out, so that it cannot wait for its own thread. Who waits
// looks again a few times and then sleeps: a real-time thread that went on trying would keep the
// processor from the thread that it waits for. errno stays as it is.
class Mutex {
 public:
  bool TryLock() {
    uint32_t found = kFree;
    return __atomic_compare_exchange_n(&state_, &found, kTaken, /*weak=*/false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
  }
  void Lock() {
    constexpr int kTries = 100;
    for (int tries = 0; tries < kTries; ++tries) {
      if (__atomic_load_n(&state_, __ATOMIC_RELAXED) == kFree && TryLock()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    const int before = errno;
    while (__atomic_exchange_n(&state_, kAwaited, __ATOMIC_ACQUIRE) != kFree) {
      syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAwaited, nullptr);
    }
    errno = before;
  }
  void Unlock() {
    if (__atomic_exchange_n(&state_, kFree, __ATOMIC_RELEASE) == kAwaited) {
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1);
    }
  }

 private:
  enum State : uint32_t { kFree, kTaken, kAwaited };  // awaited: taken, and perhaps waited for
  uint32_t state_ = kFree;
};

}  // namespace reprise::replay

#endif  // REPRISE_BASE_MUTEX_H_
