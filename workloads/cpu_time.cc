// cpu_time OUT PROGRAM ARGUMENTS...: runs a program and writes what it alone cost, its children
// included, as one line of JSON to OUT: seconds of CPU, peak resident bytes, exit status. It
// allocates nothing itself, so that a tracer that is preloaded into it as well has nothing to do.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 3) {
    constexpr char kUsage[] = "usage: cpu_time OUT PROGRAM ARGUMENTS...\n";
    return write(STDERR_FILENO, kUsage, sizeof(kUsage) - 1) < 0 ? 3 : 2;
  }
  const pid_t child = vfork();
  if (child < 0) return 126;
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(errno == ENOENT ? 127 : 126);
  }
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  char line[256];
  const int length = snprintf(
      line, sizeof(line), "{\"cpu\": %ld.%06ld, \"rss\": %ld, \"status\": %d}\n",
      usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
          (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1'000'000,
      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) % 1'000'000, usage.ru_maxrss * 1024, code);
  const int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (out < 0 || write(out, line, static_cast<size_t>(length)) != length) return 126;
  return code;
}
