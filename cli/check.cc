#include "cli/command.h"

namespace reprise::cli {

void AddCheck(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("check", "not built yet");
  command->callback([&run] { run = [] { return static_cast<int>(kUsage); }; });
}

}  // namespace reprise::cli
