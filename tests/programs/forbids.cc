// forbids KIND PROGRAM ARGUMENTS…: runs a program that a seccomp filter forbids something to.
//   files       to make files
//   populate    to ask for memory (MADV_POPULATE_WRITE), as sandboxes that know no new advice do
//   shared      to map long files: shared mappings, which some file systems do not have
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
constexpr uint32_t Argument(int number) {  // its lower half
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * number);
}

sock_filter Load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter Return(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }

// Refuses call `number` with `error` when `mask` of the word at `offset` is set.
std::vector<sock_filter> Refuse(uint32_t number, uint32_t offset, uint32_t mask, int error) {
  return {Load(kNumber),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
          Load(offset),
          BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1),
          Return(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
          Return(SECCOMP_RET_ALLOW)};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  std::vector<sock_filter> filter;
  if (std::strcmp(arguments[1], "files") == 0) {
    filter = Refuse(SYS_openat, Argument(2), O_CREAT, EPERM);
  } else if (std::strcmp(arguments[1], "populate") == 0) {
    constexpr uint32_t kPopulate = 16;  // MADV_POPULATE_READ, MADV_POPULATE_WRITE and what follows
    filter = Refuse(SYS_madvise, Argument(2), kPopulate, EPERM);
  } else {
    filter = Refuse(SYS_mmap, Argument(1) + 4, ~uint32_t{0}, ENODEV);  // 4 GiB and more
    // Reservations of addresses are no mappings of files.
    filter.insert(filter.begin() + 2,
                  {Load(Argument(4)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ~uint32_t{0}, 3, 0)});
    filter[1].jf = 5;
  }
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    return 77;
  }
  execvp(arguments[2], arguments + 2);
  std::perror(arguments[2]);
  return 127;
}
