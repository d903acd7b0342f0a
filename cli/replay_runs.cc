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
#include <fstream>
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

absl::StatusOr<RunOutcome> RunOnce(const std::vector<std::string>& words, int input) {
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

absl::StatusOr<int> RepeatReplay(int64_t runs, const std::string& stats) {
  const absl::StatusOr<int> input = KeepInput();
  if (!input.ok()) return input.status();
  // Without a name, so that nothing is left of it however this ends.
  const int file = memfd_create("reprise-runs-stats", MFD_CLOEXEC);
  if (file < 0) return SystemError(errno, "a file for the counters");
  const std::string path = absl::StrCat("/proc/", getpid(), "/fd/", file);
  const std::vector<std::string> words = Words(path);
  std::vector<ordered_json> all;
  ordered_json last;
  int status = 0;
  for (int64_t run = 0; run < runs; ++run) {
    const absl::StatusOr<RunOutcome> outcome = RunOnce(words, *input);
    if (!outcome.ok()) return outcome.status();
    if (run == 0) status = outcome->status;
    if (outcome->status != status || status >= kLauncher) {
      absl::FPrintF(stderr, "reprise: run %d of %d ended with status %d\n", run + 1, runs,
                    outcome->status);
      return outcome->status;
    }
    std::ifstream counters(path);
    last = ordered_json::parse(counters, nullptr, /*allow_exceptions=*/false);
    if (!last.is_object()) return absl::InternalError("the counters of a run cannot be read");
    ordered_json& one = all.emplace_back();
    one["wall_seconds"] = outcome->seconds;
    for (const char* field : {"peak_rss", "allocations", "served_percent", "improvised",
                              "address_hash", "fallback_hash"}) {
      one[field] = last[field];
    }
  }
  Print(all);
  if (stats.empty()) return status;
  last["runs"] = all;
  base::AtomicFile output(stats);
  output.Write(last.dump(2) + "\n");
  if (absl::Status finished = Finish(output); !finished.ok()) return finished;
  return status;
}

}  // namespace reprise::cli
