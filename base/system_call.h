// System calls made directly: they set no errno, are no cancellation points, and cannot be
// interposed by another preload. Each returns the kernel's value: negative errno on failure.
#ifndef REPRISE_BASE_SYSTEM_CALL_H_
#define REPRISE_BASE_SYSTEM_CALL_H_

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace reprise::interpose {

inline long SystemCall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                       long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#else
#error "reprise: this processor is not supported yet"
#endif
}

inline bool Failed(long result) { return result < 0 && result > -4096; }

inline void* MapAt(uint64_t address, size_t bytes, int protection, int flags, int fd = -1) {
  const long result = SystemCall(SYS_mmap, static_cast<long>(address), static_cast<long>(bytes),
                                 protection, flags | MAP_FIXED, fd, 0);
  return Failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

inline int Advise(void* address, size_t bytes, int advice) {
  return static_cast<int>(
      SystemCall(SYS_madvise, reinterpret_cast<long>(address), static_cast<long>(bytes), advice));
}

// Anonymous private memory at a fixed address of our own reservation; nullptr when refused. Its
// pages are small, whatever the system is set to: little of most such memory is ever touched.
inline void* MapMemory(uint64_t address, size_t bytes) {
  void* mapped =
      MapAt(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (mapped != nullptr) Advise(mapped, bytes, MADV_NOHUGEPAGE);
  return mapped;
}

// Backs [from, from + bytes) with memory and disk. The error, or 0: EFAULT when the disk has no
// room left, ENOMEM when the memory has none; another when the system does not do that for the
// program.
inline int PopulateOr(char* from, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(from) & ~uint64_t{4095};
  const uint64_t end = (reinterpret_cast<uint64_t>(from) + bytes + 4095) & ~uint64_t{4095};
  return -Advise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
}
inline bool Populate(char* from, uint64_t bytes) { return PopulateOr(from, bytes) == 0; }

inline int OpenFile(const char* path, int flags, int mode = 0600) {
  return static_cast<int>(
      SystemCall(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), flags | O_CLOEXEC, mode));
}

inline long ReadFile(int fd, void* buffer, size_t bytes) {
  return SystemCall(SYS_read, fd, reinterpret_cast<long>(buffer), static_cast<long>(bytes));
}

inline void CloseFile(int fd) { SystemCall(SYS_close, fd); }

// Whether the file system is known to write changed pages where they were before, so that they need
// no more room.
inline bool WritesInPlace(int fd) {
  struct statfs system {};
  if (Failed(SystemCall(SYS_fstatfs, fd, reinterpret_cast<long>(&system)))) return false;
  return system.f_type == EXT4_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC ||
         system.f_type == TMPFS_MAGIC;
}

inline long ProcessId() { return SystemCall(SYS_getpid); }

// Blocks every signal for the life of the object, so that no handler can run in between.
class SignalBlock {
 public:
  SignalBlock() {
    const uint64_t all = ~uint64_t{0};
    SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all),
               reinterpret_cast<long>(&before_), sizeof(uint64_t));
  }
  ~SignalBlock() {
    SystemCall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&before_), 0,
               sizeof(uint64_t));
  }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  uint64_t before_ = 0;
};

}  // namespace reprise::interpose

#endif  // REPRISE_BASE_SYSTEM_CALL_H_
