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
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/command_text.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/option_scope.h"
#include "cli/standard_output.h"
#include "cli/usage_error.h"
#include "trace/symbols.h"

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
  const absl::Status status = reprise::cli::FlushStandardOutput();
  if (!status.ok()) reprise::cli::Fail(status);
  return status.ok();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace reprise::cli;  // NOLINT(google-build-using-namespace)
  // Results go to stdout, so the log goes to stderr.
  spdlog::set_default_logger(spdlog::stderr_color_st("reprise"));
  spdlog::set_pattern("reprise: %v");

  OccupyClosedStreams();
  SettleSignals();
  OpenStandardOutput();

  CLI::App app{"Record what a program allocates, plan where it should have gone, replay it there"};
  app.name("reprise");
  app.set_help_flag("-h,--help", "say this");
  app.set_version_flag("--version", VersionText, "say the version, and those of what is inside");
  // Inherited by the subcommands.
  app.formatter_fn([](const CLI::App* one, const std::string&, CLI::AppFormatMode) {
    return HelpText(Describe(*one));
  });
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
  AddHelp(app, run);
  AddCompletion(app, run);
  AddDebuginfod(app);

  try {
    app.parse(static_cast<int>(mark - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      std::ostringstream text;
      const int code = app.exit(error, text);  // --help and --version
      std::fputs(text.str().c_str(), stdout);
      return Written() ? code : failed;
    }
    const std::vector<CLI::App*> parsed = app.get_subcommands();
    const std::string help = parsed.empty() ? "--help" : "help " + parsed.front()->get_name();
    std::fprintf(stderr, "reprise: %s (see `reprise %s`)\n",
                 Printable(DescribeUsageError(app, error)).c_str(), help.c_str());
    return launches ? kLauncher : kUsage;
  }
  if (absl::Status status = CheckOptions(*app.get_subcommands().front()); !status.ok()) {
    const int code = Fail(status);
    return launches ? kLauncher : code;
  }
  try {
    int code = run();
    if (code == kDone && AnyDamage()) code = kBadInput;
    return Written() ? code : failed;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "reprise: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise: %s\n", Printable(error.what()).c_str());
  }
  return failed;
}
