// `reprise completion`: what the Tab key of a shell completes.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/command.h"
#include "cli/command_text.h"

namespace reprise::cli {
namespace {

std::vector<std::string> Names(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  for (const CommandText& it : commands) names.push_back(it.name);
  return names;
}

// For single quotes of a shell.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The words that stand for a value of `option`; empty: not known.
std::vector<std::string> Words(const CommandText& command, const OptionText& option,
                               const std::vector<CommandText>& commands) {
  return command.name == "help" && option.names[0] == "COMMAND" ? Names(commands) : option.choices;
}

std::string Bash(const std::vector<CommandText>& commands) {
  std::string values, options, arguments;
  for (const CommandText& command : commands) {
    std::vector<std::string> names;
    for (const OptionText& option : command.options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
      if (option.value.empty() || option.takes_files()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) {
        patterns.push_back(absl::StrCat(command.name, ",", name));
      }
      absl::StrAppend(&values, "    ", absl::StrJoin(patterns, "|"),
                      ") words=", Quoted(absl::StrJoin(option.choices, " ")), " ;;\n");
    }
    absl::StrAppend(&options, "      ", command.name, ") words=", Quoted(absl::StrJoin(names, " ")),
                    " ;;\n");
    for (const OptionText& argument : command.arguments) {
      const std::vector<std::string> words = Words(command, argument, commands);
      if (words.empty()) continue;
      absl::StrAppend(&arguments, "      ", command.name,
                      ") words=", Quoted(absl::StrJoin(words, " ")), " ;;\n");
    }
  }
  return absl::StrCat(R"(# bash completion of reprise, made by `reprise completion bash`.
_reprise() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} words=- i
  for ((i = 2; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then  # a program and its arguments
      if declare -F _command_offset > /dev/null; then
        _command_offset $((i + 1))
      else
        COMPREPLY=($(compgen -c -f -- "$current"))
      fi
      return
    fi
  done
  case $command,$previous in
)",
                      values, R"(  esac
  if ((COMP_CWORD == 1)); then
    words=')",
                      absl::StrJoin(Names(commands), " "), R"( --help --version'
  elif [[ $words == - && $current == -* ]]; then
    case $command in
)",
                      options, R"(    esac
  elif [[ $words == - ]]; then
    case $command in
)",
                      arguments, R"(    esac
  fi
  if [[ $words == - ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}
complete -o filenames -F _reprise reprise
)");
}

// For _arguments: what stands in brackets and between colons.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"[", "("}, {"]", ")"}, {":", "\\:"}});
}

std::string ZshValue(const std::vector<std::string>& words, bool files) {
  if (!words.empty()) return absl::StrCat("(", absl::StrJoin(words, " "), ")");
  return files ? "_files" : " ";
}

std::string Zsh(const std::vector<CommandText>& commands) {
  std::string list, cases;
  for (const CommandText& command : commands) {
    absl::StrAppend(&list, "    ", Quoted(absl::StrCat(command.name, ":", command.text)), "\n");
    absl::StrAppend(&cases, "    ", command.name, ") _arguments");
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) {
        std::string spec = absl::StrCat(name, "[", ZshText(option.text), "]");
        if (!option.value.empty()) {
          absl::StrAppend(&spec, ":", ZshText(option.value), ":",
                          ZshValue(option.choices, option.takes_files()));
        }
        absl::StrAppend(&cases, " \\\n      ", Quoted(spec));
      }
    }
    for (const OptionText& argument : command.arguments) {
      const bool program = argument.names[0].starts_with("program");
      const std::vector<std::string> words = Words(command, argument, commands);
      absl::StrAppend(&cases, " \\\n      ",
                      Quoted(absl::StrCat(program ? "*::" : ":", argument.names[0], ":",
                                          program ? "_normal" : ZshValue(words, true))));
    }
    absl::StrAppend(&cases, " ;;\n");
  }
  return absl::StrCat(
      "#compdef reprise\n# Made by `reprise completion zsh`.\n_reprise() {\n"
      "  local -a commands=(\n",
      list,
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n"
      "    return\n  fi\n  shift words\n  ((CURRENT--))\n  case $words[1] in\n",
      cases, "  esac\n}\n_reprise \"$@\"\n");
}

std::string Fish(const std::vector<CommandText>& commands) {
  std::string text = "# Made by `reprise completion fish`.\n";
  for (const CommandText& command : commands) {
    absl::StrAppend(&text, "complete -c reprise -n __fish_use_subcommand -f -a ", command.name,
                    " -d ", Quoted(command.text), "\n");
    const std::string seen =
        absl::StrCat("complete -c reprise -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const OptionText& option : command.options) {
      absl::StrAppend(&text, seen);
      for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        absl::StrAppend(&text, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
      }
      if (!option.value.empty()) absl::StrAppend(&text, option.takes_files() ? " -r" : " -x");
      if (!option.choices.empty()) {
        absl::StrAppend(&text, " -a ", Quoted(absl::StrJoin(option.choices, " ")));
      }
      absl::StrAppend(&text, " -d ", Quoted(option.text), "\n");
    }
    for (const OptionText& argument : command.arguments) {
      const std::vector<std::string> words = Words(command, argument, commands);
      if (words.empty()) continue;
      absl::StrAppend(&text, seen, " -f -a ", Quoted(absl::StrJoin(words, " ")), "\n");
    }
  }
  return text;
}

}  // namespace

void AddCompletion(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("completion", "Print what a shell completes");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(OneOf({"bash", "zsh", "fish"}));
  command->callback([&app, shell, &run] {
    run = [&app, shell] {
      const std::vector<CommandText> commands = [&app] {
        std::vector<CommandText> all;
        for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
          all.push_back(Describe(*one));
        }
        return all;
      }();
      const std::string text = *shell == "bash"  ? Bash(commands)
                               : *shell == "zsh" ? Zsh(commands)
                                                 : Fish(commands);
      std::fputs(text.c_str(), stdout);
      return kDone;
    };
  });
}

}  // namespace reprise::cli
