// The `reprise` command: a file per subcommand.
#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "cli/command.h"
#include "cli/launch.h"
#include "trace/symbols.h"

#ifndef REPRISE_VERSION
#define REPRISE_VERSION "unknown"
#endif

namespace {

// A file of ours that is opened under the number of a closed stream would get our messages. What
// stands in here can be neither read nor written, and is closed in programs that we start.
void OccupyClosedStreams() {
  int fd;
  do {
    fd = open("/", O_PATH | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

// For the subcommands that print names of call sites.
void AddDebuginfod(CLI::App& app) {
  for (const char* name : {"replay", "info", "compare", "report", "diff", "convert"}) {
    app.get_subcommand(name)->add_flag_callback(
        "--debuginfod", reprise::trace::AllowDebuginfod,
        "ask the servers in $DEBUGINFOD_URLS for debug information that is not installed");
  }
}

// False, and said, when what was printed could not be written.
bool Written() {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  std::fprintf(stderr, "reprise: cannot write to standard output\n");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace reprise::cli;  // NOLINT(google-build-using-namespace)
  // Results go to stdout, so the log goes to stderr.
  spdlog::set_default_logger(spdlog::stderr_color_st("reprise"));
  spdlog::set_pattern("reprise: %v");

  OccupyClosedStreams();
  SettleSignals();

  CLI::App app{"Record what a program allocates, plan where it should have gone, replay it there."};
  app.name("reprise");
  app.set_version_flag("--version", REPRISE_VERSION);
  app.require_subcommand(1);
  // record and replay take the program's own status, so their usage errors are 125, as with env.
  const std::string_view name = argc > 1 ? argv[1] : "";
  const bool launches = name == "record" || name == "replay";
  const int failed = launches ? kLauncher : kSystem;
  char** const end = argv + argc;
  char** const mark =
      launches || name == "compare" ? std::find(argv, end, std::string_view("--")) : end;
  const Program program(std::min(mark + 1, end), end);
  Run run;
  AddRecord(app, program, run);
  AddInfo(app, run);
  AddPlan(app, run);
  AddCheck(app, run);
  AddReplay(app, program, run);
  AddCompare(app, program, run);
  AddConvert(app, run);
  AddReport(app, run);
  AddDiff(app, run);
  AddDebuginfod(app);

  try {
    app.parse(static_cast<int>(mark - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      const int code = app.exit(error);  // --help and --version
      return Written() ? code : failed;
    }
    std::fprintf(stderr, "reprise: %s (see `reprise --help`)\n", error.what());
    return launches ? kLauncher : kUsage;
  }
  try {
    const int code = run();
    return Written() ? code : failed;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "reprise: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise: %s\n", error.what());
  }
  return failed;
}
