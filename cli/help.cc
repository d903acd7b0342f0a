#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "spdlog/version.h"
#include "xxhash.h"
#include "zstd.h"

namespace reprise::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kIndent = 24;  // of what an option means

// Appends `left`, and beside it `right` in lines of words.
void AppendRow(std::string& out, const std::string& left, const std::string& right) {
  std::string line = absl::StrCat("  ", left);
  if (line.size() + 2 > kIndent) {
    absl::StrAppend(&out, line, "\n");
    line.clear();
  }
  line.resize(kIndent, ' ');
  bool first = true;
  const std::vector<std::string> words = absl::StrSplit(right, ' ');
  for (const std::string& word : words) {
    if (!first && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&out, line, "\n");
      line.assign(kIndent, ' ');
      first = true;
    }
    absl::StrAppend(&line, first ? "" : " ", word);
    first = false;
  }
  absl::StrAppend(&out, line, "\n");
}

// "-o, --output FILE".
std::string Left(const OptionText& option) {
  const std::string names = absl::StrJoin(option.names, ", ");
  return option.value.empty() ? names : absl::StrCat(names, " ", option.value);
}

std::string Right(const OptionText& option) {
  if (option.initial.empty()) return option.text;
  return absl::StrCat(option.text, " [", option.initial, "]");
}

// In man(7) a dash is a hyphen, and a dot or quote at the start of a line a request.
std::string Roff(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"…", "..."}});
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped = "\\&" + escaped;
  return escaped;
}

std::string PageName(const std::string& command) {
  return command.empty() ? "reprise" : absl::StrCat("reprise-", command);
}

void AppendItem(std::string& page, const std::string& left, const std::string& right) {
  absl::StrAppend(&page, ".TP\n\\fB", Roff(left), "\\fR\n", Roff(right), "\n");
}

struct HelpOptions {
  std::string command;
  bool man = false;
};

int RunHelp(const CLI::App& app, const HelpOptions& options) {
  const CLI::App* subject = &app;
  if (!options.command.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(one->get_name());
      if (names.back() == options.command) subject = one;
    }
    if (subject == &app) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      return Fail(absl::FailedPreconditionError(absl::StrCat(
          "unknown command ", options.command, base::DidYouMean(options.command, known))));
    }
  }
  const CommandText text = Describe(*subject);
  std::fputs((options.man ? ManualPage(text) : HelpText(text)).c_str(), stdout);
  return kDone;
}

}  // namespace

std::string HelpText(const CommandText& command) {
  std::string out = absl::StrCat(command.text, ".\n\nUsage: ", Usage(command), "\n");
  if (!command.commands.empty()) absl::StrAppend(&out, "\nCommands:\n");
  for (const CommandText& it : command.commands) AppendRow(out, it.name, it.text);
  if (!command.arguments.empty()) absl::StrAppend(&out, "\nArguments:\n");
  for (const OptionText& it : command.arguments) AppendRow(out, Left(it), Right(it));
  absl::StrAppend(&out, "\nOptions:\n");
  for (const OptionText& it : command.options) AppendRow(out, Left(it), Right(it));
  absl::StrAppend(&out, "\nExamples:\n");
  for (const Example& it : command.examples) {
    absl::StrAppend(&out, "  reprise ", it.command, "\n      ", it.text, "\n");
  }
  absl::StrAppend(&out, "\nExit status:\n");
  for (const auto& [status, text] : ExitStatuses(command)) {
    absl::StrAppend(&out, "  ", status, std::string(5 - status.size(), ' '), text, "\n");
  }
  return out;
}

std::string ManualPage(const CommandText& command) {
  const std::string name = PageName(command.name);
  std::string text = command.text;
  text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
  std::string page =
      absl::StrCat(".TH ", absl::AsciiStrToUpper(name),
                   " 1 \"\" \"reprise " REPRISE_VERSION "\" \"User Commands\"\n.SH NAME\n",
                   Roff(name), " \\- ", Roff(text), "\n.SH SYNOPSIS\n", Roff(Usage(command)), "\n");
  if (!command.commands.empty()) absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CommandText& it : command.commands) AppendItem(page, it.name, it.text);
  if (!command.arguments.empty()) absl::StrAppend(&page, ".SH ARGUMENTS\n");
  for (const OptionText& it : command.arguments) AppendItem(page, Left(it), Right(it));
  absl::StrAppend(&page, ".SH OPTIONS\n");
  for (const OptionText& it : command.options) AppendItem(page, Left(it), Right(it));
  absl::StrAppend(&page, ".SH EXAMPLES\n");
  for (const Example& it : command.examples) AppendItem(page, "reprise " + it.command, it.text);
  absl::StrAppend(&page, ".SH EXIT STATUS\n");
  for (const auto& [status, meaning] : ExitStatuses(command)) AppendItem(page, status, meaning);
  std::vector<std::string> others;
  for (const CommandText& it : command.commands) others.push_back(PageName(it.name));
  if (!command.name.empty()) others.emplace_back("reprise");
  for (std::string& it : others) it = absl::StrCat("\\fB", Roff(it), "\\fR(1)");
  absl::StrAppend(&page, ".SH SEE ALSO\n", absl::StrJoin(others, ",\n"), "\n");
  return page;
}

std::string VersionText() {
#if defined(__clang__)
  const std::string compiler = absl::StrCat("clang ", __clang_major__, ".", __clang_minor__);
#else
  const std::string compiler = absl::StrCat("gcc ", __GNUC__, ".", __GNUC_MINOR__);
#endif
#ifdef ABSL_LTS_RELEASE_VERSION
  const std::string abseil = absl::StrCat(ABSL_LTS_RELEASE_VERSION);
#else
  const std::string abseil = "unknown";
#endif
  return absl::StrCat("reprise " REPRISE_VERSION "\nbuilt by ", compiler,
                      ", " REPRISE_BUILD_TYPE ", for ", REPRISE_PROCESSOR, "\nwith abseil ", abseil,
                      ", CLI11 " CLI11_VERSION ", nlohmann json ", NLOHMANN_JSON_VERSION_MAJOR, ".",
                      NLOHMANN_JSON_VERSION_MINOR, ".", NLOHMANN_JSON_VERSION_PATCH, ",\n  spdlog ",
                      SPDLOG_VER_MAJOR, ".", SPDLOG_VER_MINOR, ".", SPDLOG_VER_PATCH, ", xxhash ",
                      XXH_versionNumber() / 10000, ".", XXH_versionNumber() / 100 % 100, ".",
                      XXH_versionNumber() % 100, ", zstd ", ZSTD_versionString());
}

void AddHelp(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("help", "Say what a command takes");
  auto options = std::make_shared<HelpOptions>();
  command->add_option("COMMAND", options->command, "its name; without one: all commands");
  command->add_flag("--man", options->man, "print a man page");
  command->callback(
      [&app, options, &run] { run = [&app, options] { return RunHelp(app, *options); }; });
}

}  // namespace reprise::cli
