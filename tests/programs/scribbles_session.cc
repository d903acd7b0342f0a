// Writes over all that it shares with the launcher: the registry and the counters are filled with
// one byte, or cut to nothing. Exits with 7.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// Calls fill(begin, bytes) for each of this process's mappings of a file of that name that it can
// write to.
template <typename Fill>
void ForEachMapping(const char* name, Fill fill) {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    char mode[8] = {};
    if (std::sscanf(line, "%lx-%lx %7s", &begin, &end, mode) != 3 || mode[1] != 'w') continue;
    if (std::strstr(line, name) != nullptr) fill(reinterpret_cast<char*>(begin), end - begin);
  }
  if (maps != nullptr) std::fclose(maps);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const char* session = std::getenv("REPRISE_SESSION");
  for (int i = 0; i < 2000; ++i) std::free(std::malloc(static_cast<size_t>(i)));
  if (session == nullptr || std::getenv("REPRISE_HARMLESS") != nullptr) return 7;
  if (how == "cut") {
    const std::string paths[] = {std::string(session) + "/registry",
                                 std::string(session) + "/taken",
                                 std::string(session) + "/counters.0"};
    for (const std::string& path : paths) {
      if (truncate(path.c_str(), 0) != 0) continue;
    }
    syscall(SYS_exit_group, 7);  // from the first cut on without the library, which would end it
  }
  if (how == "pipe") {
    const std::string counters = std::string(session) + "/counters.0";
    const std::string command = "rm -f " + counters + "; ln -s /dev/zero " + counters;
    if (std::system(command.c_str()) != 0) return 1;
    _exit(7);
  }
  // What is written is the number of images, too: there are none that many.
  for (const char* name : {"/registry", "/taken"}) {
    ForEachMapping(name, [](char* begin, size_t bytes) { std::memset(begin, 'A', bytes); });
  }
  ForEachMapping("/counters.0", [](char* begin, size_t bytes) { std::memset(begin, 'A', bytes); });
  ForEachMapping(".spool", [](char* begin, size_t bytes) {
    std::memset(begin + 64, 'A', bytes < 4032 ? bytes - 64 : 4032 - 64);
  });
  _exit(7);
}
