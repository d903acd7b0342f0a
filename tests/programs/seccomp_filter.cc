// A program that forbids itself, once it has started, every system call that a recorder would like
// to make: files, mappings, signals. Each of them fails with EPERM from then on.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/programs/block.h"

namespace {

// Allowed, or else refused: writing, ending, the heap of glibc.
constexpr int kAllowed[] = {SYS_write,      SYS_exit_group, SYS_exit,  SYS_brk,
                            SYS_newfstatat, SYS_fstat,      SYS_mremap};

bool Forbid() {
  constexpr int kCount = sizeof(kAllowed) / sizeof(kAllowed[0]);
  sock_filter filter[kCount + 3];
  int n = 0;
  filter[n++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (int i = 0; i < kCount; ++i) {
    filter[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kAllowed[i]),
                           static_cast<uint8_t>(kCount - i), 0);
  }
  filter[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  filter[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(n), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

// With an argument: it forbids itself nothing.
int main(int argc, char**) {
  Churn(1, 1000);
  if (argc == 1 && !Forbid()) {
    puts("no filters here");
    return 77;
  }
  Churn(2, 100000);
  puts("done");
  return 0;
}
