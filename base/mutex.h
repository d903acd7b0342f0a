// A lock for rare paths, of the library that is preloaded.
#ifndef REPRISE_BASE_MUTEX_H_
#define REPRISE_BASE_MUTEX_H_

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace reprise::replay {

// Taken only with signals blocked, so that a handler cannot wait for its own thread. Who waits
// sleeps: a real-time thread that went on trying would keep the processor from the thread that it
// waits for. errno stays as it is.
class Mutex {
 public:
  void Lock() {
    uint32_t found = kFree;
    if (__atomic_compare_exchange_n(&state_, &found, kTaken, /*weak=*/false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
      return;
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
