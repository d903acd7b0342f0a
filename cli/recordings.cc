#include "cli/recordings.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/shell_text.h"
#include "cli/apart.h"
#include "cli/command.h"
#include "cli/explained.h"
#include "cli/set_aside.h"
#include "trace/spool_reader.h"
#include "trace/trace_writer.h"

namespace reprise::cli {
namespace {

namespace fs = std::filesystem;

// What a program or another user put there in the place of a spool is not looked at.
std::vector<fs::path> SpoolsIn(const fs::path& directory, std::error_code& error) {
  std::vector<fs::path> spools;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::error_code gone;
    if (entry.path().extension() != ".spool" || entry.is_symlink(gone)) continue;
    if (entry.is_regular_file(gone)) spools.push_back(entry.path());
  }
  return spools;
}

std::vector<std::string> EarlierTraces(const fs::path& directory, std::error_code& error) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".spool" || extension == ".trace") {
      names.push_back(entry.path().filename().string());
    }
  }
  return names;
}

// The number of the process image that wrote it; kMaxImages: its name does not tell.
uint32_t ImageOf(const fs::path& spool) {
  uint32_t number = interpose::kMaxImages;
  return absl::SimpleAtoi(spool.filename().string().substr(0, 5), &number) ? number
                                                                           : interpose::kMaxImages;
}

// How many images were recorded and have no spool in the directory any more.
size_t CountMissing(const std::vector<fs::path>& spools, const LaunchResult& result) {
  std::vector<bool> present(interpose::kMaxImages + 1);
  for (const fs::path& spool : spools)
    present[std::min(ImageOf(spool), interpose::kMaxImages)] = true;
  size_t missing = 0;
  for (size_t i = 0; i < result.images.size(); ++i) {
    if ((result.images[i].state & interpose::kImageRecorded) != 0 && !present[i]) ++missing;
  }
  return missing;
}

// Whether the spool's process may still run. One that has not got as far as saying who it is stands
// in the registry, if it is not younger than our copy of that.
bool HasWriter(const fs::path& spool, const LaunchResult& result) {
  if (trace::SpoolHasBegun(spool.string())) return trace::SpoolHasWriter(spool.string());
  const uint32_t number = ImageOf(spool);
  if (number >= result.images.size()) return true;
  return trace::StillRuns(result.images[number].pid, result.images[number].start_time);
}

// Waits for the processes and then cuts the room off that their spools did not use: much more than
// all else, and without a page on the disk.
void CutWhenEnded(const std::vector<fs::path>& spools) {
  for (const fs::path& spool : spools) {
    const trace::SpoolProcess writer = trace::WriterOf(spool.string());
    const int process = static_cast<int>(syscall(SYS_pidfd_open, writer.pid, 0));
    // In another namespace it goes by another number.
    if (process >= 0 && trace::StillRuns(writer.pid, writer.start_time)) {
      pollfd ended = {process, POLLIN, 0};
      while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
      }
    }
    if (process >= 0) close(process);
    if (!trace::SpoolHasWriter(spool.string())) trace::CutSpool(spool.string());
  }
}

// The same, in a process that outlives this one. It holds nothing that anybody may wait for.
void CutLater(const std::vector<fs::path>& spools) {
  if (spools.empty()) return;
  const pid_t child = fork();
  if (child != 0) {
    if (child > 0) waitpid(child, nullptr, 0);
    return;
  }
  setsid();
  close_range(0, ~0U, 0);
  if (open("/dev/null", O_RDWR) == 0 && dup(0) >= 0 && dup(0) >= 0 && fork() == 0) {
    if (chdir("/") == 0) CutWhenEnded(spools);
  }
  _exit(0);
}

// Finishes what was begun while the program ran, or does all of it. `load`: the max load.
absl::StatusOr<trace::Recording> CompactSpool(const fs::path& spool, const fs::path& compact,
                                              LaunchResult& result, uint64_t& load) {
  const auto begun = result.compactions.find(ImageOf(spool));
  if (begun != result.compactions.end()) {
    absl::StatusOr<trace::Recording> finished = begun->second.compaction->Finish(compact.string());
    load = begun->second.load->max_load();
    result.compactions.erase(begun);
    if (finished.ok()) return finished;
  }
  LoadMeter meter;
  absl::StatusOr<trace::Recording> written =
      trace::Compact(spool.string(), compact.string(), /*drop_names=*/false,
                     [&meter](const trace::Event& event) { meter.Add(event); });
  load = meter.max_load();
  return written;
}

// How much of the memory of the image that took most is in its trace.
void PrintExplained(const trace::Process& process, uint64_t max_load) {
  if (process.peak_rss == 0) return;
  const double percent = ExplainedPercent(max_load, process.peak_rss);
  const std::string explains = percent > 100 ? "more than it ever touched"
                                             : absl::StrFormat("malloc explains %.0f %%", percent);
  absl::FPrintF(stderr, "reprise:   %s: peak RSS %s, max load %s: %s\n",
                Printable(trace::ProgramName(process)),
                HumanBytes(static_cast<double>(process.peak_rss)),
                HumanBytes(static_cast<double>(max_load)), explains);
  const std::string advice = RuntimeAdvice(process.executable);
  if (percent < 50 && !advice.empty()) absl::FPrintF(stderr, "reprise:   %s\n", advice);
}

// Processes that do not stand among the images yet, which they do from their first allocation on,
// and are not `known` by their spools.
void PrintRunning(const LaunchResult& result, std::set<uint32_t> known,
                  const std::string& directory) {
  for (const interpose::ImageEntry& image : result.images) known.insert(image.pid);
  for (const RunningProcess& process : result.running) {
    if (known.contains(process.pid)) continue;
    absl::FPrintF(stderr,
                  "reprise: process %d (%s) still runs and has allocated nothing yet; what it "
                  "allocates will be left as a spool in %s\n",
                  process.pid, Printable(process.name), Printable(directory));
  }
}

void PrintNextSteps(const std::string& directory) {
  std::error_code error;
  fs::path here = fs::current_path(error);
  const fs::path near = error ? fs::path() : fs::proximate(directory, here, error);
  std::string shown = error || near.string().starts_with("..") ? directory : near.string();
  if (shown.starts_with('-')) shown.insert(0, "./");
  shown = base::ShellQuoted(shown);
  absl::FPrintF(stderr, "reprise:   next: reprise info %s, reprise compare %s, reprise plan %s\n",
                shown, shown, shown);
}

}  // namespace

absl::StatusOr<std::string> PrepareOutput(const std::string& path) {
  const absl::StatusOr<OutputFolder> folder = OpenFolder(path);
  if (!folder.ok()) return folder.status();
  if (access(folder->path.c_str(), W_OK | X_OK) != 0) return SystemError(errno, path);
  if (folder->path.size() + 128 >= interpose::kPathBytes) return SystemError(ENAMETOOLONG, path);
  if (absl::Status locked = LockFolder(*folder); !locked.ok()) return locked;
  std::error_code error;
  const std::vector<std::string> earlier = EarlierTraces(folder->path, error);
  const absl::StatusOr<std::string> old = SetAside(*folder, earlier);
  if (!old.ok()) return old.status();
  if (!old->empty()) {
    absl::FPrintF(stderr, "reprise: moved to %s: %s of an earlier recording\n", Printable(*old),
                  Counted(earlier.size(), "trace"));
  }
  return folder->path;
}

void FinishRecordings(const std::string& directory, LaunchResult& result) {
  std::error_code error;
  std::vector<fs::path> spools = SpoolsIn(directory, error);
  std::sort(spools.begin(), spools.end());
  const size_t missing = CountMissing(spools, result);
  if (missing > 0) {
    absl::FPrintF(stderr,
                  "reprise: %s: what %s recorded was removed or moved away while the program ran\n",
                  Printable(directory), Counted(missing, "process image"));
  }
  size_t left = 0;
  std::vector<fs::path> written_to;
  std::set<uint32_t> writers;
  uint64_t events = 0;
  uint64_t lost = 0;
  trace::Process largest;
  uint64_t largest_load = 0;
  for (const fs::path& spool : spools) {
    if (HasWriter(spool, result)) {
      const uint32_t pid = trace::WriterOf(spool.string()).pid;
      absl::FPrintF(stderr,
                    "reprise: %s: its process%s still runs; left as a spool, which is not complete "
                    "until that has ended\n",
                    Printable(spool.string()), pid != 0 ? absl::StrCat(" (", pid, ")") : "");
      ++left;
      written_to.push_back(spool);
      writers.insert(pid);
      continue;
    }
    if (ImageOf(spool) < result.images.size() && !trace::SpoolHasBegun(spool.string())) {
      fs::remove(spool, error);  // its process was killed before its first event
      continue;
    }
    fs::path compact = spool;
    compact.replace_extension(".trace");
    uint64_t load = 0;
    const absl::StatusOr<trace::Recording> written = CompactSpool(spool, compact, result, load);
    if (!written.ok()) {
      absl::FPrintF(stderr, "reprise: %s: left as a spool: %s\n", Printable(spool.string()),
                    Printable(std::string(written.status().message())));
      lost += trace::WriterOf(spool.string()).lost_events;
      ++left;
      continue;
    }
    events += written->events;
    lost += written->lost_events;
    if (largest.executable.empty() || written->process.peak_rss > largest.peak_rss) {
      largest = written->process;
      largest_load = load;
    }
    fs::remove(spool, error);
  }
  PrintRunning(result, std::move(writers), directory);
  absl::FPrintF(stderr, "reprise: recorded %s of %s into %s%s\n", Counted(events, "event"),
                Counted(result.images.size(), "process image"), Printable(directory),
                left > 0 ? absl::StrCat(", besides those in ", Counted(left, "spool")) : "");
  if (lost > 0) absl::FPrintF(stderr, "reprise: lost %s\n", Counted(lost, "event"));
  if (events > 0) {
    PrintExplained(largest, largest_load);
    PrintNextSteps(directory);
  }
  CutLater(written_to);
}

void FinishApart(const std::string& directory, LaunchResult& result) {
  RunApart(
      [&] {
        FinishRecordings(directory, result);
        return 0;
      },
      Printable(directory) + ": what was recorded is left as spools", 0);
}

}  // namespace reprise::cli
