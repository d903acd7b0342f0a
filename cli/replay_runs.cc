#include "cli/replay_runs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/standard_input.h"
#include "replay/compare/significance.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;

// Where a run is to write what it says of itself behind its program's end.
constexpr char kLinesVariable[] = "REPRISE_RUN_LINES";

// What runs said of themselves, each line once. Lines that differ in their figures only are one.
class SaidLines {
 public:
  void Add(const std::string& path) {
    std::ifstream file(path);
    std::set<size_t> seen;  // in this run
    for (std::string line; std::getline(file, line);) {
      std::string kind;
      for (const char c : line) {
        const bool digit = c >= '0' && c <= '9';
        if (!digit) kind += c;
        if (digit && (kind.empty() || kind.back() != '0')) kind += '0';
      }
      const auto [found, fresh] = number_.emplace(kind, lines_.size());
      if (fresh) lines_.push_back({line, 0});
      if (seen.insert(found->second).second) ++lines_[found->second].runs;
    }
  }

  void Print(size_t runs) const {
    if (lines_.empty()) return;
    if (runs > 1) {
      absl::FPrintF(stderr, "reprise: said of %s, each line once, with its first figures:\n",
                    Counted(runs, "run"));
    }
    for (const Line& line : lines_) {
      const std::string some =
          line.runs < runs ? absl::StrFormat(" (%d of %d runs)", line.runs, runs) : "";
      absl::FPrintF(stderr, "%s%s\n", line.text, some);
    }
  }

 private:
  struct Line {
    std::string text;
    size_t runs;
  };
  std::vector<Line> lines_;
  std::map<std::string, size_t> number_;  // by kind
};

// A file without a name, so that nothing is left of it however this ends, and the path at which
// other processes of this user find it.
absl::StatusOr<std::string> MakeFile(const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) return SystemError(errno, name);
  return absl::StrCat("/proc/", getpid(), "/fd/", file);
}

// The words of this command line without --runs and --stats, and with `stats` in their place.
std::vector<std::string> Words(const std::string& stats) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> given, words;
  for (std::string word; std::getline(file, word, '\0');) given.push_back(word);
  bool options = true;
  for (size_t i = 0; i < given.size(); ++i) {
    if (options && given[i] == "--") {
      words.insert(words.end(), {"--stats", stats});
      options = false;
    }
    if (options && (given[i] == "--runs" || given[i] == "--stats")) {
      ++i;
    } else if (!options ||
               !(absl::StartsWith(given[i], "--runs=") || absl::StartsWith(given[i], "--stats="))) {
      words.push_back(given[i]);
    }
  }
  return words;
}

struct RunOutcome {
  int status = 0;  // its own, or 128 + signal
  double seconds = 0;
};

absl::StatusOr<RunOutcome> RunOnce(const std::vector<std::string>& words, const std::string& lines,
                                   int input) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child < 0) return SystemError(errno, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (input >= 0) {  // opened anew, so that it is read from its start
      const int again = open(absl::StrCat("/proc/self/fd/", input).c_str(), O_RDONLY);
      if (again >= 0) dup2(again, STDIN_FILENO);
    }
    setenv(kLinesVariable, lines.c_str(), /*overwrite=*/1);
    execv("/proc/self/exe", arguments.data());
    _exit(kLauncher);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return RunOutcome{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                    taken.count()};
}

void PrintSpread(const char* what, const std::vector<ordered_json>& runs, const char* field,
                 std::string (*format)(double)) {
  std::vector<double> values;
  for (const ordered_json& run : runs) values.push_back(run[field].get<double>());
  const replay::Spread spread = replay::SpreadOf(values);
  absl::FPrintF(stderr, "reprise:   %-12s %12s %12s %12s\n", what, format(spread.median),
                format(spread.least), format(spread.most));
}

void Print(const std::vector<ordered_json>& runs) {
  const auto percent = [](double value) { return absl::StrFormat("%.3f %%", value); };
  absl::FPrintF(stderr, "reprise: %-14s %12s %12s %12s\n", Counted(runs.size(), "run"), "median",
                "least", "most");
  PrintSpread("wall time", runs, "wall_seconds",
              [](double value) { return absl::StrFormat("%.3f s", value); });
  PrintSpread("peak RSS", runs, "peak_rss", [](double value) { return HumanBytes(value); });
  PrintSpread("served", runs, "served_percent", percent);
  std::set<std::string> hashes;
  for (const ordered_json& run : runs) {
    hashes.insert(run["address_hash"].get<std::string>() + run["fallback_hash"].get<std::string>());
  }
  if (hashes.size() == 1) {
    absl::FPrintF(stderr, "reprise:   addresses    the same in every run\n");
  } else {
    absl::FPrintF(stderr, "reprise:   addresses    %d different sets in %d runs\n", hashes.size(),
                  runs.size());
  }
}

}  // namespace

std::string LinesOfThisRun() {
  const char* lines = std::getenv(kLinesVariable);
  const std::string path = lines != nullptr ? lines : "";
  unsetenv(kLinesVariable);
  return absl::StartsWith(path, absl::StrCat("/proc/", getppid(), "/fd/")) ? path : std::string();
}

void SpeakInto(const std::string& lines) {
  if (lines.empty()) return;
  const int file = open(lines.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file < 0) return;  // then it is said at once
  dup2(file, STDERR_FILENO);
  close(file);
}

absl::StatusOr<int> RepeatReplay(int64_t runs, const std::string& stats) {
  const absl::StatusOr<int> input = KeepInput();
  if (!input.ok()) return input.status();
  const absl::StatusOr<std::string> path = MakeFile("reprise-runs-stats");
  const absl::StatusOr<std::string> lines = MakeFile("reprise-runs-lines");
  if (!path.ok() || !lines.ok()) return path.ok() ? lines.status() : path.status();
  const std::vector<std::string> words = Words(*path);
  SaidLines said;
  std::vector<ordered_json> all;
  ordered_json last;
  int status = 0;
  for (int64_t run = 0; run < runs; ++run) {
    const absl::StatusOr<RunOutcome> outcome = RunOnce(words, *lines, *input);
    if (!outcome.ok()) return outcome.status();
    said.Add(*lines);
    if (run == 0) status = outcome->status;
    if (outcome->status != status || status >= kLauncher) {
      said.Print(static_cast<size_t>(run) + 1);
      absl::FPrintF(stderr, "reprise: run %d of %d ended with status %d\n", run + 1, runs,
                    outcome->status);
      return outcome->status;
    }
    std::ifstream counters(*path);
    last = ordered_json::parse(counters, nullptr, /*allow_exceptions=*/false);
    if (!last.is_object()) return absl::InternalError("the counters of a run cannot be read");
    ordered_json& one = all.emplace_back();
    one["wall_seconds"] = outcome->seconds;
    for (const char* field : {"peak_rss", "allocations", "served_percent", "improvised",
                              "address_hash", "fallback_hash"}) {
      one[field] = last[field];
    }
  }
  said.Print(all.size());
  Print(all);
  if (stats.empty()) return status;
  last["runs"] = all;
  base::AtomicFile output(stats);
  output.Write(last.dump(2) + "\n");
  if (absl::Status finished = Finish(output); !finished.ok()) return finished;
  return status;
}

}  // namespace reprise::cli
