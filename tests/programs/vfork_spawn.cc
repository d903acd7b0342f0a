// Every way to start another program: vfork, posix_spawn, popen, system, fork and exec.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/block.h"

extern char** environ;

namespace {

void Wait(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  printf("status %d\n", status);
  fflush(stdout);
}

}  // namespace

int main() {
  Block block = Allocate(5000, 1);
  const pid_t borrowed = vfork();
  if (borrowed == 0) {
    execl("/bin/echo", "echo", "vfork", nullptr);
    _exit(1);
  }
  Wait(borrowed);
  const pid_t none = vfork();
  if (none == 0) {
    execl("/no/such/program", "none", nullptr);
    _exit(42);
  }
  Wait(none);
  Churn(1, 1000);
  pid_t spawned = 0;
  const char* const words[] = {"echo", "spawn", nullptr};
  Require(
      posix_spawn(&spawned, "/bin/echo", nullptr, nullptr, const_cast<char**>(words), environ) == 0,
      "posix_spawn");
  Wait(spawned);
  Require(posix_spawn(&spawned, "/no/such/program", nullptr, nullptr, const_cast<char**>(words),
                      environ) != 0,
          "posix_spawn of nothing");
  printf("system %d\n", system("echo system; exit 3"));
  FILE* pipe = popen("echo popen", "r");
  char line[64] = "";
  Require(fgets(line, sizeof(line), pipe) != nullptr, "popen");
  printf("%s%d\n", line, pclose(pipe));
  Resize(block, 20000);
  Release(block);
  return 0;
}
