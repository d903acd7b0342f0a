// What is wrong with a command line.
#ifndef REPRISE_CLI_USAGE_ERROR_H_
#define REPRISE_CLI_USAGE_ERROR_H_

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace reprise::cli {

// Why `app` could not be parsed: which option, what was expected and what was found. One line.
std::string DescribeUsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_USAGE_ERROR_H_
