#include "cli/command_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace reprise::cli {
namespace {

struct ExampleOf {
  const char* name;  // of the subcommand
  Example example;
};

const std::vector<ExampleOf>& Examples() {
  static const auto* const all = new std::vector<ExampleOf>{
      {"", {"record -o rec -- PROGRAM", "record what PROGRAM allocates"}},
      {"", {"help plan", "what `plan` takes"}},
      {"record", {"record -o rec -- sqlite3 :memory: 'select 1'", "one run, into the folder rec"}},
      {"record", {"record --stacks 8 -o rec -- PROGRAM", "with 8 callers of every allocation"}},
      {"info", {"info rec", "what a folder of traces holds"}},
      {"info", {"info rec --json | jq .max_load", "one figure, for a script"}},
      {"plan", {"plan buffers.csv -o placed.csv", "offsets for the rows of a table"}},
      {"plan", {"plan rec -o plan", "for each trace in rec, to replay"}},
      {"check", {"check buffers.csv placed.csv", "is the plan of a table valid?"}},
      {"check", {"check rec plan", "are the plans of these recordings?"}},
      {"replay", {"replay plan -- PROGRAM", "run PROGRAM where the plan says"}},
      {"replay", {"replay plan --stats stats.json -- PROGRAM", "and count what went as planned"}},
      {"compare", {"compare rec --plan plan --pins", "who needs least, who holds memory back"}},
      {"compare", {"compare --live -- PROGRAM", "the program under each allocator"}},
      {"convert", {"convert rec rec.collapsed", "call stacks, for a flame graph"}},
      {"convert", {"convert rec trace.json --to perfetto", "a format that the name does not tell"}},
      {"report", {"report rec -o page.html", "one page that shows where memory went"}},
      {"report", {"report rec --plan plan --allocators jemalloc -o page.html", "with heap maps"}},
      {"diff", {"diff old new", "what grew between two recordings"}},
      {"diff", {"diff old.plan new.plan --json", "the same of two plans, for a script"}},
      {"help", {"help plan", "what `plan` takes"}},
      {"help", {"help plan --man | man -l -", "as a man page"}},
      {"completion", {"completion bash > ~/.bash_completion", "names for the Tab key of bash"}},
      {"completion", {"completion fish | source", "of fish, in this session"}},
  };
  return *all;
}

// What CLI11 calls a type, with the checks of the value behind colons: "TEXT:{a,b}".
void DescribeValue(const CLI::Option& option, OptionText& text) {
  if (option.get_expected_max() == 0 || option.get_type_size_max() == 0) return;
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  text.initial = option.get_default_str();
  if (open != std::string::npos && close != std::string::npos) {
    text.choices = absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
    text.value = absl::StrJoin(text.choices, "|");
    return;
  }
  text.value = type.substr(0, type.find(':'));
  if (text.value == "INT" || text.value == "UINT") text.value = "N";
}

OptionText DescribeOption(const CLI::Option& option) {
  OptionText text;
  text.text = option.get_description();
  text.required = option.get_required();
  if (option.get_positional()) {
    text.names = {option.get_name(/*positional=*/true)};
    DescribeValue(option, text);
    text.value.clear();
    return text;
  }
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  DescribeValue(option, text);
  return text;
}

CommandText DescribeOne(const CLI::App& app) {
  CommandText command;
  command.name = app.get_parent() == nullptr ? "" : app.get_name();
  command.text = app.get_description();
  command.runs_program = command.name == "record" || command.name == "replay";
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? command.arguments : command.options)
        .push_back(DescribeOption(*option));
  }
  for (const ExampleOf& it : Examples()) {
    if (it.name == command.name) command.examples.push_back(it.example);
  }
  return command;
}

}  // namespace

std::string ValueName(const CLI::Option& option) { return DescribeOption(option).value; }

bool OptionText::takes_files() const {
  constexpr const char* kFiles[] = {"FILE", "DIR", "PLAN", "STATS"};
  return std::find(std::begin(kFiles), std::end(kFiles), value) != std::end(kFiles);
}

CommandText Describe(const CLI::App& app) {
  CommandText command = DescribeOne(app);
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    command.commands.push_back(DescribeOne(*one));
  }
  return command;
}

std::string Usage(const CommandText& command) {
  if (command.name.empty()) return "reprise COMMAND [options]";
  std::string usage = absl::StrCat("reprise ", command.name, " [options]");
  for (const OptionText& it : command.arguments) {
    const bool program = it.names[0].starts_with("program");
    if (program) {
      absl::StrAppend(&usage, " -- PROGRAM [arguments]");
    } else {
      absl::StrAppend(&usage, it.required ? " " : " [", it.names[0], it.required ? "" : "]");
    }
  }
  return usage;
}

std::vector<std::pair<std::string, std::string>> ExitStatuses(const CommandText& command) {
  if (command.runs_program) {
    return {{"N", "that of the program; 128 + the signal that ended it"},
            {"125", "reprise failed: usage, a bad plan, the system"},
            {"126", "the program cannot be run or preloaded"},
            {"127", "the program was not found"}};
  }
  return {{"0", "done"},
          {"1", "the answer is no: a plan is invalid or does not fit, a comparison failed"},
          {"2", "usage: the command line is wrong"},
          {"3", "bad input"},
          {"4", "the system refused"}};
}

}  // namespace reprise::cli
