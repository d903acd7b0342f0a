// reprise-player: performs a script (replay/compare/player/script.h) with whatever allocator serves
// this process, and prints what that cost as lines of "name value". It allocates nothing itself
// while it plays, and is linked without the C++ runtime, which would allocate before main.
//
//   reprise-player FD        the script is the open file FD; FD + 1 gets what is observed, if the
//                            script asks for it
//   reprise-player --run FD PROGRAM ARGUMENTS...
//                            runs another program and prints to FD what that cost (run.h)
//   reprise-player --probe   prints the allocator only
//
// Exit status: 0 = played, 3 = not a script, 4 = the system refused. Why is a line of what is
// printed, too: "problem TEXT".
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "replay/compare/player/pages.h"
#include "replay/compare/player/play.h"
#include "replay/compare/player/provider.h"
#include "replay/compare/player/run.h"

namespace reprise::replay {
namespace {

// Where an allocator maps its memory should not differ from run to run.
void WithoutRandomAddresses(char** argv) {
  const int persona = personality(0xffffffff);
  if (persona == -1 || (persona & ADDR_NO_RANDOMIZE) != 0) return;
  if (personality(persona | ADDR_NO_RANDOMIZE) == -1) return;
  execv("/proc/self/exe", argv);
}

const ScriptHeader* MapScript(const char* descriptor) {
  const int fd = atoi(descriptor);
  struct stat status;
  if (fstat(fd, &status) != 0) Refuse("its script");
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < sizeof(ScriptHeader)) Die(3, "not a script");
  void* mapping = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  if (mapping == MAP_FAILED) Refuse("room for its script");
  const auto* script = static_cast<const ScriptHeader*>(mapping);
  if (script->magic != kScriptMagic || script->words * sizeof(uint64_t) != bytes) {
    Die(3, "not a script");
  }
  return script;
}

// Bytes, from a line such as "VmHWM:     1234 kB" of /proc/self/status; 0 when it is not there.
uint64_t StatusBytes(const char* name) {
  char text[8192];
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd == -1) return 0;
  const ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  const char* line = strstr(text, name);
  return line == nullptr ? 0 : strtoull(line + strlen(name) + 1, nullptr, 10) * 1024;
}

uint64_t ObservedBytes(const ScriptHeader* script) {
  return script->samples * sizeof(ObservedSample) + script->allocations * 8;
}

// The file that takes what is observed: as long as the script says.
void* MapObserved(const ScriptHeader* script, int fd) {
  if ((script->flags & kScriptObserve) == 0) return nullptr;
  const uint64_t bytes = ObservedBytes(script);
  if (bytes == 0) return nullptr;
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapping == MAP_FAILED) Refuse("room for what it observes");
  return mapping;
}

// Puts the pages that were given back behind it.
void WriteReturned(const ScriptHeader* script, const Played& played, int fd) {
  const auto* from = reinterpret_cast<const char*>(played.returned);
  auto at = static_cast<off_t>(ObservedBytes(script));
  for (uint64_t left = played.returns * sizeof(ObservedReturn); left > 0;) {
    const ssize_t written = pwrite(fd, from, left, at);
    if (written <= 0) Refuse("room for what it observes");
    from += written;
    at += written;
    left -= static_cast<uint64_t>(written);
  }
}

// The most that was ever resident from here on, where the kernel allows to forget what was before.
void ForgetPeak() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd == -1) return;
  if (write(fd, "5", 1) != 1) dprintf(STDERR_FILENO, "reprise-player: the peak was not reset\n");
  close(fd);
}

int64_t CpuNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t WallNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t PageFaults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

void PrintProvider() {
  const Provider provider = FindProvider();
  dprintf(STDOUT_FILENO, "library %s\nversion %s\nmixed %d\n", provider.object, provider.version,
          provider.mixed ? 1 : 0);
  for (const char* symbol : kFamily) {
    dprintf(STDOUT_FILENO, "symbol.%s %s\n", symbol, ObjectOf(symbol));
  }
}

void PlayAndPrint(const ScriptHeader* script, int observed_fd) {
  void* observed = MapObserved(script, observed_fd);
  // Neither are the program's nor the allocator's.
  const uint64_t own =
      script->words * sizeof(uint64_t) + Prepare(script, observed, FindProvider().usable);
  ForgetPeak();
  const uint64_t baseline = StatusBytes("VmRSS");
  const int64_t faults = PageFaults();
  const int64_t cpu = CpuNanoseconds();
  const int64_t wall = WallNanoseconds();
  const Played played = Play();
  const int64_t wall_nanoseconds = WallNanoseconds() - wall;
  const int64_t cpu_nanoseconds = CpuNanoseconds() - cpu;
  const int64_t page_faults = PageFaults() - faults;
  const uint64_t peak = StatusBytes("VmHWM");
  WriteReturned(script, played, observed_fd);

  const uint64_t first_page = played.lowest & ~(kPageBytes - 1);
  const uint64_t last_page = (played.highest + kPageBytes - 1) & ~(kPageBytes - 1);
  dprintf(STDOUT_FILENO,
          "peak_rss %" PRIu64 "\npeak_rss_absolute %" PRIu64 "\nfootprint %" PRIu64
          "\naddress_span %" PRIu64 "\n",
          peak > baseline ? peak - baseline : 0, peak > own ? peak - own : 0,
          played.pages * kPageBytes, played.highest == 0 ? 0 : last_page - first_page);
  dprintf(STDOUT_FILENO,
          "busy_nanoseconds %" PRId64 "\ncpu_nanoseconds %" PRId64 "\nwall_nanoseconds %" PRId64
          "\nwait_nanoseconds %" PRId64 "\nwaits %" PRIu64 "\n",
          played.busy_nanoseconds, cpu_nanoseconds, wall_nanoseconds, played.wait_nanoseconds,
          played.waits);
  dprintf(STDOUT_FILENO, "page_faults %" PRId64 "\noperations %" PRIu64 "\nfailures %" PRIu64 "\n",
          page_faults, played.operations, played.failures);
}

}  // namespace
}  // namespace reprise::replay

int main(int argc, char** argv) {
  using namespace reprise::replay;  // NOLINT(google-build-using-namespace)
  if (argc > 3 && strcmp(argv[1], "--run") == 0) return RunProgram(argv + 3, atoi(argv[2]));
  if (argc != 2) Die(2, "started by `reprise compare`");
  WithoutRandomAddresses(argv);
  if (strcmp(argv[1], "--probe") != 0) {
    PlayAndPrint(MapScript(argv[1]), atoi(argv[1]) + 1);
  }
  PrintProvider();
  // Not exit(): what an allocator does at the end of a process is not compared.
  _exit(0);
}
