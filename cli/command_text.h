// A subcommand as text: what help, man pages and completions are made of. All of it comes from the
// options that the subcommand itself defined, and from the examples here.
#ifndef REPRISE_CLI_COMMAND_TEXT_H_
#define REPRISE_CLI_COMMAND_TEXT_H_

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace reprise::cli {

struct OptionText {
  std::vector<std::string> names;  // with their dashes, short ones first; of an argument its name
  std::string value;               // FILE, N, or a|b; empty: none is taken
  std::vector<std::string> choices;
  std::string initial;  // the value unless given; empty: none
  std::string text;
  bool required = false;
  bool takes_files() const;
};

struct Example {
  std::string command;  // behind "reprise "
  std::string text;
};

struct CommandText {
  std::string name;  // empty: that of `reprise` itself
  std::string text;
  std::vector<OptionText> arguments, options;
  std::vector<Example> examples;
  std::vector<CommandText> commands;  // of `reprise` itself, without theirs
  bool runs_program = false;          // exits with a program's status
};

// What the value of an option is called in help: FILE, N, or a|b.
std::string ValueName(const CLI::Option& option);

CommandText Describe(const CLI::App& app);

// "reprise plan [options] [input]".
std::string Usage(const CommandText& command);

// Pairs of a status and its meaning.
std::vector<std::pair<std::string, std::string>> ExitStatuses(const CommandText& command);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_COMMAND_TEXT_H_
