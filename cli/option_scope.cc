#include "cli/option_scope.h"

#include <CLI/CLI.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "trace/format.h"
#include "trace/reader.h"

namespace reprise::cli {
namespace {

constexpr bool IsOutput(Kind kind) { return kind >= Kind::kNativeOutput; }

// An option that applies to one kind only. Those that are not here apply to all.
struct Scope {
  const char* command;
  const char* option;
  Kind kind;
};
constexpr Scope kScopes[] = {
    {"plan", "--lanes", Kind::kRecording},
    {"plan", "--learn", Kind::kRecording},
    {"plan", "--loop", Kind::kRecording},
    {"plan", "--capacity", Kind::kInstance},
    {"plan", "--start-address", Kind::kInstance},
    {"plan", "--period", Kind::kInstance},
    {"plan", "--order", Kind::kGraph},
    {"plan", "--safety", Kind::kGraph},
    {"check", "--start-address", Kind::kInstance},
    {"check", "--period", Kind::kInstance},
    {"info", "--period", Kind::kInstance},
    {"compare", "--what-if", Kind::kRecording},
    {"report", "--allocators", Kind::kRecording},
    {"report", "--touch", Kind::kRecording},
    {"report", "--replay", Kind::kRecording},
    {"convert", "--segment", Kind::kMondrian},
    {"convert", "--plan", Kind::kRecording},
    {"convert", "--plan", Kind::kMondrianOutput},
    {"convert", "--anonymize", Kind::kNativeOutput},
};

// Two options of which the first one, with this value if one is named, leaves the second one
// without effect.
struct Clash {
  const char* command;
  const char* option;
  const char* value;  // empty: any
  const char* other;
};
constexpr Clash kClashes[] = {
    {"plan", "--lanes", "none", "--learn"},
    {"plan", "--strategy", "reorder", "--order"},
    {"plan", "--strategy", "olla_ilp", "--order"},
    {"compare", "--live", "", "--order"},
    {"compare", "--live", "", "--samples"},
    {"compare", "--live", "", "--pins"},
    {"compare", "--live", "", "--what-if"},
    {"compare", "--live", "", "--touch"},
    {"compare", "--live", "", "--ignore-unknown"},
    {"compare", "--order", "dependencies", "--samples"},
    {"compare", "--order", "dependencies", "--pins"},
    {"compare", "--samples", "0", "--pins"},
    {"report", "--svg", "", "--density-above"},
    {"report", "--svg", "", "--compare"},
    {"report", "--svg", "", "--replay"},
    {"report", "--png", "", "--density-above"},
    {"report", "--png", "", "--compare"},
    {"report", "--png", "", "--replay"},
    {"report", "--allocators", "none", "--touch"},
    {"diff", "--json", "", "--rows"},
    {"replay", "--runs", "", "--record"},
};

// The option of the table's name, if it was given.
const CLI::Option* Given(const CLI::App& command, const char* name) {
  const CLI::Option* option = command.get_option(name);
  return option->count() > 0 ? option : nullptr;
}

// As a person writes it: "--touch,--no-touch" where a flag can be negated.
std::string NameOf(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(/*positional=*/true);
  return absl::StrReplaceAll(option.get_name(/*positional=*/false, /*all_options=*/true),
                             {{"{false}", ""}});
}

const char* Plural(Kind kind) {
  switch (kind) {
    case Kind::kRecording:
      return "recordings";
    case Kind::kInstance:
      return "CSV instances";
    case Kind::kGraph:
      return "graphs";
    case Kind::kMondrian:
      return "Mondrian files";
    case Kind::kNativeOutput:
      return "output in the format native";
    case Kind::kMondrianOutput:
      return "output in the format mondrian";
    case Kind::kOtherOutput:
      break;
  }
  return "";
}

absl::Status CheckValues(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(NameOf(*option), ": expected a value, found an empty one"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Kind> KindOf(const std::string& path) {
  if (trace::IsFolder(path)) return Kind::kRecording;
  const absl::StatusOr<trace::Format> format = trace::DetectFormat(path);
  if (!format.ok()) return format.status();
  if (*format == trace::Format::kCsv) return Kind::kInstance;
  return *format == trace::Format::kJson ? Kind::kGraph : Kind::kRecording;
}

absl::Status CheckOptions(const CLI::App& command) {
  if (absl::Status status = CheckValues(command); !status.ok()) return status;
  for (const Clash& clash : kClashes) {
    if (command.get_name() != clash.command) continue;
    const CLI::Option* option = Given(command, clash.option);
    const CLI::Option* other = Given(command, clash.other);
    const std::string_view value = clash.value;
    if (option == nullptr || other == nullptr) continue;
    if (!value.empty() && option->results().back() != value) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        NameOf(*other), " does not go with ", clash.option, value.empty() ? "" : " ", clash.value));
  }
  return absl::OkStatus();
}

absl::Status CheckScope(const CLI::App& command, Kind kind) {
  for (const Scope& scope : kScopes) {
    if (command.get_name() != scope.command || scope.kind == kind) continue;
    if (IsOutput(scope.kind) != IsOutput(kind)) continue;
    const CLI::Option* option = Given(command, scope.option);
    if (option == nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(*option), " applies to ", Plural(scope.kind), " only"));
  }
  return absl::OkStatus();
}

}  // namespace reprise::cli
