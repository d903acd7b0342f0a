#include "cli/launch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/page.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/session_folder.h"
#include "cli/spool_drainer.h"
#include "cli/stack_start.h"
#include "interpose/process/images.h"
#include "trace/spool_reader.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;
using interpose::ImageEntry;
using interpose::PlanEntry;
using interpose::Registry;
using interpose::SessionFile;

uint64_t RegistryBytes() {
  return sizeof(Registry) + uint64_t{interpose::ImagesUnderLimit()} * sizeof(ImageEntry);
}

absl::StatusOr<SessionFolder> MakeSession(const LaunchRequest& request) {
  absl::StatusOr<SessionFolder> folder = SessionFolder::Make();
  if (!folder.ok()) return folder;
  SessionFile session{};
  session.magic = interpose::kSessionMagic;
  session.flags = request.flags;
  session.stack_frames = request.stack_frames;
  session.plans = static_cast<uint32_t>(request.plans.size());
  session.images = interpose::ImagesUnderLimit();
  std::strncpy(session.directory, folder->path().c_str(), interpose::kPathBytes - 1);
  std::strncpy(session.output, request.output.c_str(), interpose::kPathBytes - 1);
  std::string bytes(reinterpret_cast<const char*>(&session), sizeof(session));
  bytes.append(reinterpret_cast<const char*>(request.plans.data()),
               request.plans.size() * sizeof(PlanEntry));
  absl::Status status = folder->Write("session", bytes, bytes.size());
  Registry registry{};
  registry.magic = interpose::kSessionMagic;
  bytes.assign(reinterpret_cast<const char*>(&registry), sizeof(registry));
  const uint64_t taken = request.plans.size() * sizeof(uint32_t);
  if (status.ok()) status = folder->Write("registry", bytes, RegistryBytes());
  if (status.ok()) status = folder->Write("taken", std::string(taken, '\0'), taken);
  if (!status.ok()) return status;
  return folder;
}

volatile sig_atomic_t child_process = 0;
// As they were before SettleSignals and Launch.
struct sigaction file_size_action {};
struct sigaction child_action {};
struct sigaction pipe_action {};
struct sigaction bus_action {};

// A key press reaches the whole terminal group, the program included; only what was sent to us
// alone is passed on.
void PassOn(int signal, siginfo_t* info, void*) {
  const int before = errno;
  if (info->si_code != SI_KERNEL && child_process > 0) kill(child_process, signal);
  errno = before;
}

// As long as the program runs, signals for us are passed on to it. What comes before and afterwards
// waits until nothing of the session is left, and then does to us what it always does. What was
// ignored from the start (nohup, the background jobs of a script) is ignored in the program too
// until it decides otherwise, and is passed on all the same.
class SignalsForProgram {
 public:
  SignalsForProgram() {
    sigemptyset(&passed_);
    sigemptyset(&heeded_);
    for (size_t i = 0; i < std::size(kPassed); ++i) {
      sigaction(kPassed[i], nullptr, &before_[i]);
      sigaddset(&passed_, kPassed[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaddset(&heeded_, kPassed[i]);
    }
    sigprocmask(SIG_BLOCK, &passed_, &mask_);
    struct sigaction action {};
    action.sa_sigaction = PassOn;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (int signal : kPassed) sigaction(signal, &action, nullptr);
  }
  ~SignalsForProgram() { Restore(); }
  SignalsForProgram(const SignalsForProgram&) = delete;
  SignalsForProgram& operator=(const SignalsForProgram&) = delete;

  // Whether one waits: then there is no need to start the program.
  bool Waiting() const {
    sigset_t pending;
    sigpending(&pending);
    sigandset(&pending, &pending, &heeded_);
    return sigisemptyset(&pending) == 0;
  }
  void Begin(pid_t program) {
    child_process = program;
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }
  void End() {
    sigprocmask(SIG_BLOCK, &passed_, nullptr);
    child_process = 0;
  }
  // In the program's process, too.
  void Restore() const {
    for (size_t i = 0; i < std::size(kPassed); ++i) sigaction(kPassed[i], &before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  static constexpr int kPassed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  struct sigaction before_[std::size(kPassed)];
  sigset_t passed_, mask_;
  sigset_t heeded_;  // those that were not ignored from the start
};

// As long as it lives, a page that a mapped file has no more, because the program has cut the file,
// reads as zeros instead of ending the launcher.
class SurvivesTruncation {
 public:
  SurvivesTruncation() {
    struct sigaction action {};
    action.sa_sigaction = Cover;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, &bus_action);
  }
  ~SurvivesTruncation() { sigaction(SIGBUS, &bus_action, nullptr); }
  SurvivesTruncation(const SurvivesTruncation&) = delete;
  SurvivesTruncation& operator=(const SurvivesTruncation&) = delete;

 private:
  static void Cover(int signal, siginfo_t* info, void*) {
    constexpr uint64_t kPage = base::kPageBytes;
    const uint64_t page = reinterpret_cast<uint64_t>(info->si_addr) & ~(kPage - 1);
    if (info->si_code != BUS_ADRERR ||
        mmap(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
      std::signal(signal, SIG_DFL);  // the next one ends us
    }
  }
};

[[noreturn]] void RunProgram(const LaunchRequest& request, const std::string& library,
                             const std::string& session, int error_pipe) {
  if (!request.keep_aslr) {
    const int current = personality(0xffffffff);
    if (current < 0 || personality(current | ADDR_NO_RANDOMIZE) < 0) {
      static constexpr char kRefused[] =
          "reprise: the system refuses to switch address randomisation off; going on with it\n";
      if (write(STDERR_FILENO, kRefused, sizeof(kRefused) - 1) < 0) {
        // Nobody to tell.
      }
    }
    // Else Python and perl go through their hashes in another order in every run.
    for (const char* seed : {"PYTHONHASHSEED", "PERL_HASH_SEED"}) {
      setenv(seed, "0", /*overwrite=*/0);
    }
  }
  const char* others = std::getenv("LD_PRELOAD");
  const std::string preload =
      others != nullptr && *others != 0 ? absl::StrCat(library, ":", others) : library;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv(interpose::kSessionVariable, session.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : request.program) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const std::string name = NameForStackStart(request.path, request.program, environ);
  execv(name.c_str(), arguments.data());
  int error = errno;
  if (error == ENOEXEC && !IsElf(request.path)) {
    execvp(request.path.c_str(), arguments.data());  // a shell reads what has no format
    error = errno;
  }
  if (write(error_pipe, &error, sizeof(error)) < 0) {
    // The parent sees an exit of 126.
  }
  _exit(kCannotRun);
}

absl::StatusOr<int> RunAndWait(const LaunchRequest& request, const std::string& library,
                               const std::string& session, Registry* registry,
                               SignalsForProgram& signals, BegunCompactions& compactions) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return SystemError(errno, "pipe");
  if (signals.Waiting()) return absl::CancelledError("ended before the program was started");
  const pid_t child = fork();
  if (child == 0) {
    sigaction(SIGXFSZ, &file_size_action, nullptr);
    sigaction(SIGCHLD, &child_action, nullptr);
    sigaction(SIGPIPE, &pipe_action, nullptr);
    sigaction(SIGBUS, &bus_action, nullptr);
    signals.Restore();
    RunProgram(request, library, session, pipe_ends[1]);
  }
  if (child < 0) return SystemError(errno, "fork");
  signals.Begin(child);
  close(pipe_ends[1]);
  std::optional<SpoolDrainer> drainer;
  if (!request.output.empty()) drainer.emplace(registry, request.output);
  int error = 0;
  const bool failed = read(pipe_ends[0], &error, sizeof(error)) == sizeof(error);
  close(pipe_ends[0]);
  // Its number is the program's until it is reaped, and may be another's at once afterwards.
  siginfo_t ended;
  while (waitid(P_PID, child, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  signals.End();
  if (drainer.has_value()) compactions = drainer->Stop();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed) {
    const std::string message = absl::StrCat(request.path, ": ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(message);
    return absl::PermissionDeniedError(message);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

absl::StatusOr<Registry*> MapRegistry(const SessionFolder& session) {
  const int fd = session.Open("registry", O_RDWR);
  if (fd < 0) return SystemError(errno, session.path() + "/registry");
  void* mapped = mmap(nullptr, RegistryBytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (mapped == MAP_FAILED && (error == ENODEV || error == EINVAL)) {
    return absl::InternalError(absl::StrCat(
        session.path(), ": its file system has no shared mappings, which reprise needs"));
  }
  if (mapped == MAP_FAILED) return SystemError(error, session.path() + "/registry");
  return static_cast<Registry*>(mapped);
}

// A text of the registry may have no end, because the program can write anything there.
template <size_t N>
void EndText(char (&text)[N]) {
  text[N - 1] = 0;
}

// What the images left in the session's folder. The program may have written over all of it.
void Collect(const SessionFolder& session, const Registry& registry, const LaunchRequest& request,
             LaunchResult& result) {
  result.left_out = registry.left_out;
  result.forbidden = registry.forbidden;
  result.session_removed = !session.Has("session");
  const uint32_t count = std::min(registry.images, interpose::ImagesUnderLimit());
  for (uint32_t i = 0; i < count; ++i) {
    ImageEntry& image = result.images.emplace_back(registry.image[i]);
    EndText(image.executable);
    EndText(image.message);
    std::string counters;
    if ((image.state & interpose::kImageReplayed) != 0 && image.plan < request.plans.size()) {
      counters = session.Read(absl::StrCat("counters.", i), request.counters_bytes[image.plan]);
    }
    result.counters.push_back(std::move(counters));
  }
}

}  // namespace

absl::StatusOr<LaunchResult> Launch(const LaunchRequest& request) {
  const absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) return library.status();
  // That nobody reads what we say any more is no reason to leave the rest undone.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_action);
  SignalsForProgram signals;  // outlives the session
  const absl::StatusOr<std::string> preloaded = NameForPreload(*library);
  if (!preloaded.ok()) return preloaded.status();
  const absl::StatusOr<SessionFolder> session = MakeSession(request);
  if (!session.ok()) return session.status();
  const absl::StatusOr<Registry*> registry = MapRegistry(*session);
  if (!registry.ok()) return registry.status();
  absl::Cleanup unmap = [&] { munmap(*registry, RegistryBytes()); };
  const SurvivesTruncation survives;
  LaunchResult result;
  const absl::StatusOr<int> code =
      RunAndWait(request, *preloaded, session->path(), *registry, signals, result.compactions);
  if (!code.ok()) return code.status();
  result.exit_code = *code;
  Collect(*session, **registry, request, result);
  std::move(unmap).Invoke();  // else this process has it open
  const bool records = !request.output.empty();
  if (records && trace::IsOpenForWriting(session->path() + "/registry")) {
    result.running = ProcessesOf(session->path());
  }
  return result;
}

void SettleSignals() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, &file_size_action);
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &child_action);
}

int FailLaunch(const absl::Status& status) {
  Fail(status);
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
      return kCannotRun;
    default:
      return kLauncher;
  }
}

void PrintMessages(const LaunchResult& result) {
  constexpr size_t kMostLines = 100;
  std::set<std::string> said;
  for (const ImageEntry& image : result.images) {
    if (image.message[0] == 0) continue;
    const std::string line = Printable(absl::StrCat(image.executable, ": ", image.message));
    if (!said.insert(line).second || said.size() > kMostLines) continue;
    std::fprintf(stderr, "reprise: %s\n", line.c_str());
  }
  if (said.size() > kMostLines) {
    std::fprintf(stderr, "reprise: and %s about process images\n",
                 Counted(said.size() - kMostLines, "other line").c_str());
  }
  if (result.session_removed) {
    std::fputs(
        "reprise: the session's folder was removed while the program ran: what was started from "
        "then on was left out\n",
        stderr);
  }
  if (result.left_out > 0) {
    std::fprintf(
        stderr, "reprise: left out: %s: %s\n", Counted(result.left_out, "process image").c_str(),
        result.images.size() >= interpose::ImagesUnderLimit()
            ? absl::StrCat("there is room for ", interpose::ImagesUnderLimit()).c_str()
            : "there was no room on the disk or in the memory that holds the session's folder");
  }
  if (result.forbidden > 0) {
    std::fprintf(stderr, "reprise: left out: %s: a sandbox (seccomp) forbids what it takes\n",
                 Counted(result.forbidden, "process image").c_str());
  }
}

}  // namespace reprise::cli
