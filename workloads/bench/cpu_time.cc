// cpu_time OUT PROGRAM ARGUMENTS...: runs a program and writes what it alone cost, its children
// included, as one line of JSON to OUT: seconds of CPU, peak resident bytes of a process, exit
// status. It allocates nothing itself, so that a tracer that is preloaded into it as well has
// nothing to do.
//
// With EXACT_PEAK in the environment the seconds mean nothing, and the bytes are exact: the kernel
// counts resident pages in batches for each processor, and what it tells may be some hundred KiB
// off. The page tables tell the truth, and what a process has only becomes less in a few system
// calls: when a thread enters one of these, or exits, they are walked. A filter stops the program
// there and nowhere else, because threads that stop at each call keep another step. `anonymous` is
// the part of the peak that no file is behind: heaps, stacks, tables. A SIGSTOP does not reach the
// program, and programs that are set-user-ID do not get their rights.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Cost {
  int status = 0;
  rusage usage{};
  long resident = 0;    // KiB
  long anonymous = -1;  // KiB; -1: not known
};

Cost Wait(pid_t child) {
  Cost cost;
  while (wait4(child, &cost.status, 0, &cost.usage) < 0 && errno == EINTR) {
  }
  cost.resident = cost.usage.ru_maxrss;
  return cost;
}

// What a thread's process has now, if that is more than what any had before.
void NotePeak(pid_t thread, Cost* cost) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  char text[2048];
  const ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  close(file);
  if (length <= 0) return;  // its memory is gone
  text[length] = '\0';
  const auto field = [&text](const char* name) {
    const char* at = strstr(text, name);
    return at == nullptr ? -1 : strtol(at + strlen(name), nullptr, 10);
  };
  const long resident = field("\nRss:");
  if (resident <= cost->resident) return;
  cost->resident = resident;
  cost->anonymous = field("\nAnonymous:");
}

// The calls by which a process may come to have less memory.
bool StopWhereItMayShrink() {
  constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
  constexpr auto kFlags = static_cast<unsigned>(offsetof(seccomp_data, args[3]));  // of mmap
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ftruncate, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The child asks to be traced, and stops when it has become the program.
Cost Trace(pid_t child) {
  Cost cost;
  int status = 0;
  waitpid(child, &status, 0);
  constexpr long kOptions = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEEXIT | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
  if (WIFSTOPPED(status)) {
    ptrace(PTRACE_SETOPTIONS, child, 0, kOptions);
    ptrace(PTRACE_CONT, child, 0, 0);
  } else {
    cost.status = status;  // there was no such program
  }
  for (;;) {
    rusage usage{};
    const pid_t thread = wait4(-1, &status, __WALL, &usage);
    if (thread < 0 && errno == EINTR) continue;
    if (thread < 0) return cost;
    if (!WIFSTOPPED(status)) {
      if (thread != child) continue;
      cost.status = status;
      cost.usage = usage;
      continue;
    }
    const int event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP || event == PTRACE_EVENT_EXIT) NotePeak(thread, &cost);
    const int signal = WSTOPSIG(status);
    const bool its_own = event == 0 && signal != SIGSTOP;  // a new thread begins with a SIGSTOP
    ptrace(PTRACE_CONT, thread, 0, its_own ? signal : 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    constexpr char kUsage[] = "usage: cpu_time OUT PROGRAM ARGUMENTS...\n";
    return write(STDERR_FILENO, kUsage, sizeof(kUsage) - 1) < 0 ? 3 : 2;
  }
  const bool exact = getenv("EXACT_PEAK") != nullptr;
  const pid_t child = vfork();
  if (child < 0) return 126;
  if (child == 0) {
    if (exact && (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0 || !StopWhereItMayShrink())) _exit(126);
    execvp(argv[2], argv + 2);
    _exit(errno == ENOENT ? 127 : 126);
  }
  const Cost cost = exact ? Trace(child) : Wait(child);
  const int code =
      WIFSIGNALED(cost.status) ? 128 + WTERMSIG(cost.status) : WEXITSTATUS(cost.status);
  const timeval& user = cost.usage.ru_utime;
  const timeval& system = cost.usage.ru_stime;
  char line[256];
  int length = snprintf(line, sizeof(line), "{\"cpu\": %ld.%06ld, \"rss\": %ld, ",
                        user.tv_sec + system.tv_sec + (user.tv_usec + system.tv_usec) / 1'000'000,
                        (user.tv_usec + system.tv_usec) % 1'000'000, cost.resident * 1024);
  if (cost.anonymous >= 0) {
    length += snprintf(line + length, sizeof(line) - static_cast<size_t>(length),
                       "\"anonymous\": %ld, ", cost.anonymous * 1024);
  }
  length += snprintf(line + length, sizeof(line) - static_cast<size_t>(length), "\"status\": %d}\n",
                     code);
  const int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (out < 0 || write(out, line, static_cast<size_t>(length)) != length) return 126;
  return code;
}
