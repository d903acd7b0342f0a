#include "replay/compare/player/run.h"

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace reprise::replay {
namespace {

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t Nanoseconds(const timeval& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1000;
}

[[noreturn]] void Become(char** argv, int out) {
  personality(personality(0xffffffff) | ADDR_NO_RANDOMIZE);
  if (const char* preload = getenv("REPRISE_LIVE_PRELOAD")) {
    setenv("LD_PRELOAD", preload, 1);
    unsetenv("REPRISE_LIVE_PRELOAD");
  }
  setenv("PYTHONHASHSEED", "0", 0);  // as record and replay do
  setenv("PERL_HASH_SEED", "0", 0);
  close(out);
  execvp(argv[0], argv);
  _exit(errno == ENOENT ? 127 : 126);
}

}  // namespace

int RunProgram(char** argv, int out) {
  const int64_t start = Now();
  const pid_t child = fork();
  if (child == -1) {
    dprintf(STDERR_FILENO, "reprise-player: %s\n", strerror(errno));
    return 4;
  }
  if (child == 0) Become(argv, out);
  int status = 0;
  rusage usage;
  while (wait4(child, &status, 0, &usage) == -1) {
    if (errno != EINTR) return 4;
  }
  const int64_t wall = Now() - start;
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  dprintf(out, "status %d\nwall_nanoseconds %" PRId64 "\ncpu_nanoseconds %" PRId64 "\n", code, wall,
          Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime));
  dprintf(out, "peak_rss %" PRId64 "\npage_faults %" PRId64 "\n", int64_t{usage.ru_maxrss} * 1024,
          int64_t{usage.ru_minflt} + usage.ru_majflt);
  return 0;
}

}  // namespace reprise::replay
