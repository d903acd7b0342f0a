#include "replay/compare/player/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace reprise::replay {
namespace {

// The player's end of things: descriptor numbers that it is given.
constexpr int kScriptDescriptor = 3;
constexpr int kObservedDescriptor = 4;
// Its exit status when the system refused something.
constexpr int kRefusedStatus = 4;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }
  int get() const { return fd_; }
  void Release() { fd_ = -1; }
  void Close() {
    if (fd_ != -1) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

absl::Status Refused(int error, const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

// The script as a file without a name. Above those numbers, so that dup2 does copy it.
absl::StatusOr<Descriptor> WriteScript(const std::vector<uint64_t>& words) {
  const Descriptor file(memfd_create("reprise-player-script", MFD_CLOEXEC));
  if (file.get() == -1) return Refused(errno, "cannot create the player's script");
  const auto* bytes = reinterpret_cast<const char*>(words.data());
  size_t left = words.size() * sizeof(words[0]);
  while (left > 0) {
    const ssize_t written = write(file.get(), bytes, left);
    if (written == -1 && errno == EINTR) continue;
    if (written <= 0) return Refused(errno, "cannot write the player's script");
    bytes += written;
    left -= static_cast<size_t>(written);
  }
  Descriptor moved(fcntl(file.get(), F_DUPFD_CLOEXEC, kObservedDescriptor + 1));
  if (moved.get() == -1) return Refused(errno, "cannot pass on the player's script");
  return moved;
}

// How the player ended; `problem` is what it said of that.
absl::Status Ending(int status, const std::string& problem) {
  if (WIFSIGNALED(status)) {
    return absl::AbortedError(absl::StrCat("the player was killed by signal ", WTERMSIG(status),
                                           " (", strsignal(WTERMSIG(status)), ")"));
  }
  if (WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (problem.empty()) {
    return absl::AbortedError(absl::StrCat("the player ended with status ", WEXITSTATUS(status)));
  }
  const std::string message = absl::StrCat("the player stopped: ", problem);
  return WEXITSTATUS(status) == kRefusedStatus ? absl::UnavailableError(message)
                                               : absl::AbortedError(message);
}

}  // namespace

absl::StatusOr<Observed> Observed::Create(uint64_t bytes) {
  Descriptor file(memfd_create("reprise-player-observed", MFD_CLOEXEC));
  if (file.get() == -1 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return Refused(errno, "cannot create the file for what the player observes");
  }
  Descriptor moved(fcntl(file.get(), F_DUPFD_CLOEXEC, kObservedDescriptor + 1));
  if (moved.get() == -1) return Refused(errno, "cannot pass on what the player observes");
  void* mapping =
      bytes == 0 ? nullptr : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, moved.get(), 0);
  if (mapping == MAP_FAILED) return Refused(errno, "cannot map what the player observes");
  const int fd = moved.get();
  moved.Release();
  return Observed(fd, static_cast<uint64_t*>(mapping), bytes);
}

Observed::~Observed() {
  if (data_ != nullptr && fd_ != -1) munmap(data_, bytes_);
  if (fd_ != -1) close(fd_);
}

std::vector<ObservedReturn> Observed::returned() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) return {};
  const uint64_t bytes = static_cast<uint64_t>(status.st_size) - bytes_;
  std::vector<ObservedReturn> list(bytes / sizeof(ObservedReturn));
  auto* to = reinterpret_cast<char*>(list.data());
  for (uint64_t done = 0; done < list.size() * sizeof(ObservedReturn);) {
    const ssize_t part = pread(fd_, to + done, list.size() * sizeof(ObservedReturn) - done,
                               static_cast<off_t>(bytes_ + done));
    if (part <= 0) return {};
    done += static_cast<uint64_t>(part);
  }
  return list;
}

absl::StatusOr<Answers> RunPlayer(const std::string& player, const std::string& preload,
                                  const std::vector<uint64_t>& script, const Observed* observed) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Refused(errno, "cannot create a pipe");
  const Descriptor answers(ends[0]);
  Descriptor output(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  std::vector<std::string> arguments = {player};
  absl::StatusOr<Descriptor> file = Descriptor(-1);
  if (script.empty()) {
    arguments.emplace_back("--probe");
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  } else {
    file = WriteScript(script);
    if (!file.ok()) {
      posix_spawn_file_actions_destroy(&actions);
      return file.status();
    }
    arguments.push_back(absl::StrCat(kScriptDescriptor));
    posix_spawn_file_actions_adddup2(&actions, file->get(), kScriptDescriptor);
    if (observed != nullptr) {
      posix_spawn_file_actions_adddup2(&actions, observed->descriptor(), kObservedDescriptor);
    }
  }
  std::vector<std::string> more;
  if (!preload.empty()) more.push_back("LD_PRELOAD=" + preload);
  std::vector<std::string> environment = EnvironmentWith(more);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, player.c_str(), &actions, nullptr, Pointers(arguments).data(),
                                Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Refused(error, player.c_str());
  output.Close();
  const std::string text = ReadAll(answers.get());
  int status = 0;
  while (waitpid(pid, &status, 0) == -1) {
    if (errno != EINTR) return Refused(errno, "cannot wait for the player");
  }
  Answers found;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    found.insert(words);
  }
  if (absl::Status ending = Ending(status, found["problem"]); !ending.ok()) return ending;
  return found;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& more) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("LD_PRELOAD=")) variables.emplace_back(*variable);
  }
  variables.insert(variables.end(), more.begin(), more.end());
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string ReadAll(int descriptor) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t bytes = read(descriptor, buffer, sizeof(buffer));
    if (bytes == -1 && errno == EINTR) continue;
    if (bytes <= 0) return text;
    text.append(buffer, static_cast<size_t>(bytes));
  }
}

}  // namespace reprise::replay
