// `--help`, `reprise help`, `--version`: for people; as a man page with `help --man`.
#ifndef REPRISE_CLI_HELP_H_
#define REPRISE_CLI_HELP_H_

#include <string>

#include "cli/command_text.h"

namespace reprise::cli {

// 80 columns.
std::string HelpText(const CommandText& command);

// In the language of man(7), section 1.
std::string ManualPage(const CommandText& command);

// The version, how it was built, and the libraries inside.
std::string VersionText();

}  // namespace reprise::cli

#endif  // REPRISE_CLI_HELP_H_
