// bench_planner: every strategy on every instance in a folder, one process each, as `reprise plan`
// runs it; prints Markdown. Three tables: fragmentation and time, the points of the idealloc paper
// (section 6: one per strategy beaten; a strategy that fails loses one per strategy that does not),
// and the time curve of `auto`.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

using Words = std::vector<std::string>;
ABSL_FLAG(std::string, reprise, "", "the command; else the one beside this program, or in PATH");
ABSL_FLAG(Words, strategies, {}, "only these");
ABSL_FLAG(Words, curve, Words({"0.1", "1", "10", "60"}), "budgets of the time curve");
ABSL_FLAG(std::string, budget, "10", "seconds for each plan");
ABSL_FLAG(double, limit, 900, "seconds after which a run has failed, as in the paper");
ABSL_FLAG(int, threads, 1, "threads for each plan");
ABSL_FLAG(int, iterations, 0, "of iterative strategies; 0: the budget");
ABSL_FLAG(uint64_t, seed, 1, "any number");

namespace {

namespace fs = std::filesystem;

struct Settings {
  std::string folder;
  std::string reprise;
  std::vector<std::string> strategies;
  std::vector<std::string> curve;
  std::string budget;
  double limit;
  int threads;
  int iterations;
  uint64_t seed;
};

struct Result {
  int64_t buffers = 0;
  int64_t max_load = 0;
  int64_t makespan = 0;
  double cpu_seconds = 0;
  int64_t peak_kib = 0;
  std::string by;
};

// Runs a command with its stdout captured; nothing when it fails or exceeds `limit` seconds.
std::optional<std::string> RunCommand(const std::vector<std::string>& command, double limit,
                                      rusage& usage) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    std::vector<char*> arguments;
    for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(out[1]);
  const auto start = std::chrono::steady_clock::now();
  std::jthread watchdog([&](const std::stop_token& done) {
    while (!done.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (spent.count() > limit) kill(child, SIGKILL);
    }
  });
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, got);
  close(out[0]);
  int status = 0;
  siginfo_t info{};
  // The watchdog ends before the process is reaped, so that it never signals another one.
  waitid(P_PID, child, &info, WEXITED | WNOWAIT);
  watchdog.request_stop();
  watchdog.join();
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::optional<Result> Plan(const Settings& settings, const fs::path& instance,
                           const std::string& strategy, const std::string& budget) {
  std::vector<std::string> command = {settings.reprise,  "plan",
                                      instance.string(), "-o",
                                      "/dev/null",       "--json",
                                      "--strategy",      strategy,
                                      "--budget",        budget,
                                      "--threads",       std::to_string(settings.threads),
                                      "--seed",          std::to_string(settings.seed)};
  if (instance.extension() != ".csv") command.insert(command.end(), {"--lanes", "none"});
  if (settings.iterations > 0) {
    command.insert(command.end(), {"--iterations", std::to_string(settings.iterations)});
  }
  rusage usage{};
  const std::optional<std::string> text = RunCommand(command, settings.limit, usage);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return Result{json.value("buffers", int64_t{0}),
                json.value("max_load", int64_t{0}),
                json.value("makespan", int64_t{0}),
                Seconds(usage.ru_utime) + Seconds(usage.ru_stime),
                usage.ru_maxrss,
                json.value("strategy", std::string())};
}

double Percent(const Result& result) {
  if (result.max_load == 0) return 0;
  return 100.0 * static_cast<double>(result.makespan - result.max_load) /
         static_cast<double>(result.max_load);
}

void PrintHeader(const std::string& first, const std::vector<std::string>& columns) {
  std::printf("| %s |", first.c_str());
  for (const std::string& column : columns) std::printf(" %s |", column.c_str());
  std::printf("\n|---|");
  for (size_t i = 0; i < columns.size(); ++i) std::printf("---|");
  std::printf("\n");
}

int Bench(const Settings& settings) {
  std::vector<fs::path> instances;
  for (const auto& entry : fs::recursive_directory_iterator(settings.folder)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file() && (extension == ".csv" || extension == ".trace")) {
      instances.push_back(entry.path());
    }
  }
  std::sort(instances.begin(), instances.end());
  if (instances.empty()) {
    std::fprintf(stderr, "bench_planner: no *.csv or *.trace below %s\n", settings.folder.c_str());
    return 1;
  }
  std::vector<std::string> strategies;
  rusage usage{};
  const auto text =
      RunCommand({settings.reprise, "plan", "--strategy", "list"}, settings.limit, usage);
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find_first_of(" \t"));
    const bool for_graphs = line.find(" graphs: ") != std::string::npos;  // not for instances
    if (!name.empty() && !for_graphs) strategies.push_back(name);
  }
  if (strategies.empty()) {
    std::fprintf(stderr, "bench_planner: `%s plan --strategy list` lists none: see --reprise\n",
                 settings.reprise.c_str());
    return 1;
  }
  if (!settings.strategies.empty()) strategies = settings.strategies;

  std::map<std::string, int> points;
  std::printf("## Strategies\n\nBudget %s s, %d thread(s), seed %" PRIu64 ".\n",
              settings.budget.c_str(), settings.threads, settings.seed);
  for (const fs::path& instance : instances) {
    std::vector<std::optional<Result>> results;
    for (const std::string& strategy : strategies) {
      std::fprintf(stderr, "%s: %s\n", instance.filename().c_str(), strategy.c_str());
      results.push_back(Plan(settings, instance, strategy, settings.budget));
    }
    const auto any = std::find_if(results.begin(), results.end(), [](auto& r) { return bool(r); });
    std::printf("\n### %s", instance.filename().c_str());
    if (any != results.end()) {
      std::printf(" (%" PRId64 " buffers, max load %" PRId64 ")", (*any)->buffers,
                  (*any)->max_load);
    }
    std::printf("\n\n");
    PrintHeader("strategy", {"fragmentation", "%", "CPU s", "peak MiB", "points"});
    for (size_t i = 0; i < strategies.size(); ++i) {
      int earned = 0;
      for (size_t other = 0; other < strategies.size(); ++other) {
        if (other == i) continue;
        if (!results[i]) {
          earned -= results[other] ? 1 : 0;
        } else {
          earned += !results[other] || results[other]->makespan > results[i]->makespan ? 1 : 0;
        }
      }
      points[strategies[i]] += earned;
      if (!results[i]) {
        std::printf("| %s | failed | | | | %d |\n", strategies[i].c_str(), earned);
        continue;
      }
      const Result& r = *results[i];
      std::printf("| %s | %" PRId64 " | %.4f | %.3f | %" PRId64 " | %d |\n", strategies[i].c_str(),
                  r.makespan - r.max_load, Percent(r), r.cpu_seconds, r.peak_kib / 1024, earned);
    }
    std::fflush(stdout);
  }

  std::printf("\n## Points\n\n");
  PrintHeader("strategy", {"points"});
  std::vector<std::pair<int, std::string>> ranking;
  for (const auto& [strategy, earned] : points) ranking.emplace_back(-earned, strategy);
  std::sort(ranking.begin(), ranking.end());
  for (const auto& [earned, strategy] : ranking) {
    std::printf("| %s | %d |\n", strategy.c_str(), -earned);
  }

  std::printf("\n## Time curve of auto: fragmentation in %%\n\n");
  std::vector<std::string> columns;
  for (const std::string& budget : settings.curve) columns.push_back(budget + " s");
  PrintHeader("instance", columns);
  for (const fs::path& instance : instances) {
    std::printf("| %s |", instance.filename().c_str());
    for (const std::string& budget : settings.curve) {
      const std::optional<Result> result = Plan(settings, instance, "auto", budget);
      if (result) {
        std::printf(" %.4f |", Percent(*result));
      } else {
        std::printf(" failed |");
      }
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compares planner strategies on the *.csv instances and *.trace recordings below a folder;\n"
      "prints Markdown: bench_planner [flags] FOLDER");
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  if (words.size() != 2 || !fs::is_directory(words[1])) {
    std::fprintf(stderr, "bench_planner: expected one folder; see --help\n");
    return 2;
  }
  Settings settings;
  settings.folder = words[1];
  // Both are built into one folder.
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "reprise";
  settings.reprise = absl::GetFlag(FLAGS_reprise);
  if (settings.reprise.empty()) {
    settings.reprise = fs::exists(beside, error) ? beside.string() : "reprise";
  }
  settings.strategies = absl::GetFlag(FLAGS_strategies);
  settings.curve = absl::GetFlag(FLAGS_curve);
  settings.budget = absl::GetFlag(FLAGS_budget);
  settings.limit = absl::GetFlag(FLAGS_limit);
  settings.threads = absl::GetFlag(FLAGS_threads);
  settings.iterations = absl::GetFlag(FLAGS_iterations);
  settings.seed = absl::GetFlag(FLAGS_seed);
  return Bench(settings);
}
