#include "replay/compare/live.h"

#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "replay/compare/player/process.h"

namespace reprise::replay {
namespace {

constexpr int kAnswers = 3;  // the player's descriptor for what it measured

absl::Status Refused(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<int> Spawn(std::vector<std::string> words, std::vector<std::string> variables,
                          posix_spawn_file_actions_t& actions) {
  pid_t pid = -1;
  errno = posix_spawnp(&pid, words.front().c_str(), &actions, nullptr, Pointers(words).data(),
                       Pointers(variables).data());
  if (errno != 0) return Refused(words.front());
  return pid;
}

// Whether a file that the kernel does not run is one for a shell.
bool HasNoFormat(const std::string& path) {
  std::array<char, SELFMAG> magic = {};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::memcmp(magic.data(), ELFMAG, magic.size()) != 0;
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
  }
  return status;
}

}  // namespace

absl::StatusOr<LiveRun> RunLive(const std::string& player, const LiveCommand& command) {
  const int output = memfd_create("reprise-live-output", MFD_CLOEXEC);
  if (output == -1) return Refused("cannot create a file for the program's output");
  const absl::Cleanup close_output = [output] { close(output); };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Refused("cannot create a pipe");
  const absl::Cleanup close_answers = [&ends] { close(ends[0]); };

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Opened anew for each run, so that each reads from the start.
  const std::string input =
      command.input == -1 ? "/dev/null" : absl::StrCat("/proc/self/fd/", command.input);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kAnswers);
  std::vector<std::string> words = {player, "--run", absl::StrCat(kAnswers)};
  words.insert(words.end(), command.words.begin(), command.words.end());
  std::vector<std::string> more;
  if (!command.preload.empty()) more.push_back("REPRISE_LIVE_PRELOAD=" + command.preload);
  const absl::StatusOr<int> pid = Spawn(std::move(words), EnvironmentWith(more), actions);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (!pid.ok()) return pid.status();
  const std::string text = ReadAll(ends[0]);
  const int ended = WaitFor(*pid);
  if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) {
    return absl::UnavailableError("cannot run the program: reprise-player was refused or killed");
  }

  std::map<std::string, int64_t> answers;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t value = 0;
    if (absl::SimpleAtoi(pair.second, &value)) answers[pair.first] = value;
  }
  LiveRun run;
  run.status = static_cast<int>(answers["status"]);
  run.wall_seconds = 1e-9 * static_cast<double>(answers["wall_nanoseconds"]);
  run.cpu_seconds = 1e-9 * static_cast<double>(answers["cpu_nanoseconds"]);
  run.peak_rss = answers["peak_rss"];
  run.page_faults = answers["page_faults"];
  struct stat status;
  if (fstat(output, &status) == 0 && status.st_size > 0) {
    run.output_bytes = static_cast<uint64_t>(status.st_size);
    void* mapping = mmap(nullptr, run.output_bytes, PROT_READ, MAP_SHARED, output, 0);
    if (mapping != MAP_FAILED) {
      run.output_hash = XXH3_64bits(mapping, run.output_bytes);
      munmap(mapping, run.output_bytes);
    }
  }
  return run;
}

absl::StatusOr<std::string> BindingOfMalloc(const std::string& program,
                                            const std::string& preload) {
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "reprise-bind-XXXXXX");
  if (error || mkdtemp(folder.data()) == nullptr) return Refused("cannot make a folder in /tmp");
  const absl::Cleanup remove = [&folder] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  std::vector<std::string> more = {"LD_TRACE_LOADED_OBJECTS=1", "LD_WARN=yes", "LD_BIND_NOW=1",
                                   "LD_DEBUG=bindings", "LD_DEBUG_OUTPUT=" + folder + "/log"};
  if (!preload.empty()) more.push_back("LD_PRELOAD=" + preload);
  absl::StatusOr<int> pid = Spawn({program}, EnvironmentWith(more), actions);
  if (!pid.ok() && HasNoFormat(program)) {
    pid = Spawn({"/bin/sh"}, EnvironmentWith(more), actions);  // it reads the program
  }
  posix_spawn_file_actions_destroy(&actions);
  if (!pid.ok()) return absl::PermissionDeniedError(pid.status().message());
  WaitFor(*pid);
  std::string own;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream file(entry.path());
    std::string line;
    while (std::getline(file, line)) {
      // "PID:\tbinding file FROM [0] to OBJECT [0]: normal symbol `malloc' [VERSION]"
      if (!absl::StrContains(line, "symbol `malloc'")) continue;
      const size_t to = line.find(" to "), end = line.find(" [", to);
      if (to == std::string::npos || end == std::string::npos) continue;
      std::string object = line.substr(to + 4, end - to - 4);
      // A program at a fixed address that takes the address of malloc has a stub of that name, to
      // which libraries are bound. The stub is bound as well, unless malloc is the program's own.
      if (!std::filesystem::equivalent(object, program, error)) return object;
      own = std::move(object);
    }
  }
  if (!own.empty()) return own;
  return absl::NotFoundError(
      absl::StrCat(program, ": the dynamic linker does not say where malloc comes from"));
}

}  // namespace reprise::replay
