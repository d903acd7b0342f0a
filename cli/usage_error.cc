#include "cli/usage_error.h"

#include <CLI/CLI.hpp>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "cli/command_text.h"

namespace reprise::cli {
namespace {

// "unknown option --strateg (did you mean --strategy?)".
std::string Unknown(const char* what, const std::string& name,
                    const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const std::string_view nearest = base::NearestName(name, views);
  if (nearest.empty()) return absl::StrCat("unknown ", what, " ", name);
  return absl::StrCat("unknown ", what, " ", name, " (did you mean ", std::string(nearest), "?)");
}

// What is wrong with the command line when it holds a name that is not known: an option or a
// command. Else nothing.
std::string FindUnknown(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  std::vector<std::string> known;
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (!word.starts_with('-') || word == "-" || word == "--") continue;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames())
        known.push_back(absl::StrCat("--", name));
    }
    return Unknown("option", word.substr(0, word.find('=')), known);
  }
  const std::vector<std::string> words = app.remaining();
  if (!parsed.empty() || words.empty()) return {};
  for (const CLI::App* one : app.get_subcommands(nullptr)) known.push_back(one->get_name());
  return Unknown("command", words.front(), known);
}

const CLI::App& Command(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : *parsed.front();
}

// The option that the library's message begins or ends with; null: none.
const CLI::Option* OptionIn(const CLI::App& app, const std::string& message) {
  for (const CLI::Option* option : Command(app).get_options()) {
    const std::string name = option->get_name();
    for (const char* behind : {":", " =", " is required", " excludes", " requires"}) {
      if (absl::StrContains(absl::StrCat(" ", message), absl::StrCat(" ", name, behind))) {
        return option;
      }
    }
  }
  return nullptr;
}

// Words of the command line that are no option's.
std::string FirstExtra(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  return words.empty() ? "more" : absl::StrCat("'", words.front(), "'");
}

}  // namespace

std::string DescribeUsageError(const CLI::App& app, const CLI::ParseError& error) {
  if (const std::string unknown = FindUnknown(app); !unknown.empty()) return unknown;
  const std::string message = error.what();
  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (kind == CLI::ExitCodes::ExtrasError) {
    return absl::StrCat("expected no more arguments, found ", FirstExtra(app));
  }
  if (kind == CLI::ExitCodes::RequiredError && app.get_subcommands().empty()) {
    return "expected a command, found none";
  }
  const CLI::Option* const option = OptionIn(app, message);
  if (option == nullptr) return message;
  const std::string name = option->get_name();
  const bool flag = option->get_expected_max() == 0;
  if (kind == CLI::ExitCodes::ArgumentMismatch || kind == CLI::ExitCodes::RequiredError) {
    if (!flag && option->count() > 1) {
      return absl::StrCat(name, ": expected once, found ", option->count(), " times");
    }
    std::string value = ValueName(*option);
    if (value.empty() || option->get_positional()) value = option->get_description();
    if (!flag) return absl::StrCat(name, ": expected ", value, ", found nothing");
  }
  if (flag &&
      (kind == CLI::ExitCodes::ArgumentMismatch || kind == CLI::ExitCodes::ConversionError)) {
    return absl::StrCat(name, ": expected no value, found one");
  }
  if (kind == CLI::ExitCodes::ConversionError) {
    const std::vector<std::string>& found = option->results();
    return absl::StrCat(name, ": expected ", ValueName(*option), ", found '",
                        found.empty() ? "" : found.front(), "'");
  }
  return message;
}

}  // namespace reprise::cli
