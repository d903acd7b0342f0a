#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/program.h"
#include "cli/recordings.h"

namespace reprise::cli {
namespace {

struct RecordOptions {
  std::string output = "reprise-out";
  std::vector<std::string> program;
  uint32_t stacks = 0;
  bool keep_aslr = false;
  bool with_command = false;
};

int RunRecord(const RecordOptions& options) {
  const absl::StatusOr<std::string> path = FindPreloadable(options.program[0]);
  if (!path.ok()) return FailLaunch(path.status());
  const absl::StatusOr<std::string> directory = PrepareOutput(options.output);
  if (!directory.ok()) {
    Fail(directory.status());
    return kLauncher;
  }
  LaunchRequest request;
  request.path = *path;
  request.program = options.program;
  request.flags = interpose::kSessionRecord;
  if (options.with_command) request.flags |= interpose::kSessionCommand;
  request.output = *directory;
  request.stack_frames = options.stacks;
  request.keep_aslr = options.keep_aslr;
  absl::StatusOr<LaunchResult> result = Launch(request);
  if (!result.ok()) return FailLaunch(result.status());
  PrintMessages(*result);
  FinishApart(*directory, *result);
  return result->exit_code;
}

}  // namespace

void AddRecord(CLI::App& app, const Program& program, Run& run) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command =
      app.add_subcommand("record", "Run a program and write one trace per process image");
  command->add_option("-o,--output", options->output, "folder for the traces")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_flag("--keep-aslr", options->keep_aslr,
                    "leave address randomisation and hash seeds as they are");
  command
      ->add_option("--stacks", options->stacks,
                   "note so many callers of each call site, the nearest ones")
      ->check(WholeNumber(1, interpose::kMostStackFrames))
      ->type_name("N");
  command->add_flag("--with-command", options->with_command,
                    "note the command line and the environment in the trace");
  command->add_option("program", options->program, "the program and its arguments, after --");
  command->callback([options, &program, &run] {
    TakeProgram(program, options->program);
    run = [options] { return RunRecord(*options); };
  });
}

}  // namespace reprise::cli
