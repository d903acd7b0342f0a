// The `reprise` command: a file per subcommand.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/command.h"
#include "cli/launch.h"

#ifndef REPRISE_VERSION
#define REPRISE_VERSION "unknown"
#endif

int main(int argc, char** argv) {
  using namespace reprise::cli;  // NOLINT(google-build-using-namespace)
  // Results go to stdout, so the log goes to stderr.
  spdlog::set_default_logger(spdlog::stderr_color_st("reprise"));
  spdlog::set_pattern("reprise: %v");

  IgnoreFileSizeSignal();

  CLI::App app{"Record what a program allocates, plan where it should have gone, replay it there."};
  app.name("reprise");
  app.set_version_flag("--version", REPRISE_VERSION);
  app.require_subcommand(1);
  Run run;
  AddRecord(app, run);
  AddInfo(app, run);
  AddPlan(app, run);
  AddCheck(app, run);
  AddReplay(app, run);
  AddCompare(app, run);
  AddConvert(app, run);
  AddReport(app, run);
  AddDiff(app, run);

  // record and replay take the program's own status, so their usage errors are 125, as with env.
  const bool launches =
      argc > 1 && (std::string_view(argv[1]) == "record" || std::string_view(argv[1]) == "replay");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    std::fprintf(stderr, "reprise: %s (see `reprise --help`)\n", error.what());
    return launches ? kLauncher : kUsage;
  }
  try {
    const int code = run();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      std::fprintf(stderr, "reprise: cannot write to standard output\n");
      return launches ? kLauncher : kSystem;
    }
    return code;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "reprise: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise: %s\n", error.what());
  }
  return launches ? kLauncher : kSystem;
}
