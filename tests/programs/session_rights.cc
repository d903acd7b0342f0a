// Says whether the session's file can be made writable where it is mapped: by the process that
// mapped it, and by its child that has given up all privileges.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void Try(const char* who, unsigned long at) {
  const bool writable = mprotect(reinterpret_cast<void*>(at), 4096, PROT_READ | PROT_WRITE) == 0;
  std::printf("%s: %s\n", who, writable ? "writable" : "read-only");
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  unsigned long at = 0;
  while (at == 0 && maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) {
    if (std::strstr(line, "/session\n") != nullptr) at = std::strtoul(line, nullptr, 16);
  }
  if (at == 0) {
    std::puts("no session");
    return 0;
  }
  Try("parent", at);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(1);
    Try("child", at);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return 0;
}
