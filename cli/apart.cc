#include "cli/apart.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

namespace reprise::cli {
namespace {

constexpr int kNoMemory = 255, kFailed = 254;  // no exit codes of ours

int RunToExitCode(const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return kFailed;
  }
}

void GoFirst() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  if (write(file, "1000", 4) < 0) {
    // Then the system chooses by size, which is as good.
  }
  close(file);
}

}  // namespace

int RunApart(const std::function<int()>& work, const std::string& what, int otherwise) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody would know what became of it
    GoFirst();
    const int code = RunToExitCode(work);
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  if (child > 0) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  const bool killed = child > 0 && WIFSIGNALED(status);
  const int code = child > 0 ? WEXITSTATUS(status) : RunToExitCode(work);
  if (killed && WTERMSIG(status) != SIGKILL) {
    std::fprintf(stderr, "reprise: %s: killed by signal %d\n", what.c_str(), WTERMSIG(status));
  } else if (killed || code == kNoMemory) {
    std::fprintf(stderr, "reprise: %s: out of memory\n", what.c_str());
  }
  return killed || code == kNoMemory || code == kFailed ? otherwise : code;
}

}  // namespace reprise::cli
