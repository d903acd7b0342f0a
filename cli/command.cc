#include "cli/command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace reprise::cli {

void TakeProgram(const Program& program, std::vector<std::string>& words) {
  if (program.empty() || !words.empty()) {
    throw CLI::ParseError("expected -- and behind it the program and its arguments",
                          CLI::ExitCodes::RequiredError);
  }
  words = program;
}

absl::Status KeepsInputs(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(output, error);
  if (error || !std::filesystem::is_regular_file(file, error)) return absl::OkStatus();
  const std::string kind = file.extension();
  const bool read_in_folders = kind == ".trace" || kind == ".spool" || kind == ".plan";
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    const bool in_folder =
        read_in_folders && std::filesystem::equivalent(file.parent_path(), input, error);
    if (!in_folder && !std::filesystem::equivalent(file, input, error)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(output, ": expected an output that is no input as well, found ", input));
  }
  return absl::OkStatus();
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

double Percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "reprise: %s\n", Printable(std::string(status.message())).c_str());
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return kUsage;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return kBadInput;
    case absl::StatusCode::kAborted:
      return kNo;
    default:
      return kSystem;
  }
}

size_t Columns() {
  constexpr size_t kUsual = 80;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* const columns = std::getenv("COLUMNS");
  size_t count = 0;
  return columns != nullptr && absl::SimpleAtoi(columns, &count) && count > 0 ? count : kUsual;
}

std::string LastColumn(const std::string& text, size_t used) {
  constexpr size_t kLeast = 20;
  return base::Shortened(text, std::max(Columns(), used + kLeast) - used);
}

FILE* Summaries(const std::string& output) {
  return base::IsStandardOutput(output) ? stderr : stdout;
}

void PrintJson(const nlohmann::ordered_json& json, FILE* stream) {
  // Paths need not be UTF-8; what is not is replaced rather than thrown about. Only ASCII, so that
  // no control character reaches a terminal.
  const std::string text =
      json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  std::fwrite(text.data(), 1, text.size(), stream);
}

std::string CheckWholeNumber(const std::string& text) {
  int64_t value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (digits && absl::SimpleAtoi(text, &value)) return {};
  return absl::StrCat("expected a whole number from 0 to 2^63 - 1, found '", text, "'");
}

std::string CheckSeconds(const std::string& text) {
  constexpr double kMostSeconds = 1e9;
  double value = 0;
  if (absl::SimpleAtod(text, &value) && value >= 0 && value <= kMostSeconds) return {};
  return absl::StrCat("expected seconds from 0 to 1e9, found '", text, "'");
}

CLI::Validator WholeNumber(int64_t least, int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    int64_t value = 0;
    const bool whole = CheckWholeNumber(text).empty() && absl::SimpleAtoi(text, &value);
    if (whole && value >= least && value <= most) return {};
    return absl::StrCat("expected a whole number from ", least, " to ", most, ", found '", text,
                        "'");
  };
  return {check, ""};
}

CLI::Validator OneOf(std::vector<std::string> names) {
  std::string description = absl::StrCat("{", absl::StrJoin(names, ","), "}");
  const auto check = [names = std::move(names)](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    const std::vector<std::string_view> views(names.begin(), names.end());
    return absl::StrCat("expected one of ", absl::StrJoin(names, ", "), ", found '", text, "'",
                        base::DidYouMean(text, views));
  };
  return {check, std::move(description)};
}

CLI::Validator SizeInBytes() {
  const auto read = [](std::string& text) -> std::string {
    struct Unit {
      std::string_view name;
      double bytes;
    };
    constexpr Unit kUnits[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                               {"KB", 1e3},     {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                               {"TB", 1e12},    {"B", 1}};
    for (const Unit& unit : kUnits) {
      if (!text.ends_with(unit.name)) continue;
      const std::string number = text.substr(0, text.size() - unit.name.size());
      double value = 0;
      const bool plain = !number.empty() && absl::ascii_isdigit(number.front()) &&
                         number.find_first_not_of("0123456789.") == std::string::npos;
      if (!plain || !absl::SimpleAtod(number, &value)) break;
      const double bytes = value * unit.bytes;
      if (bytes >= 0x1p63 || bytes != std::floor(bytes)) break;
      text = absl::StrCat(static_cast<int64_t>(bytes));
      return {};
    }
    const std::string wrong = CheckWholeNumber(text);
    return wrong.empty() ? wrong : absl::StrCat(wrong, " (38MB and 38MiB are sizes, too)");
  };
  return CLI::Validator(read, "");
}

void AddIgnoreUnknown(CLI::App* command, bool& ignore_unknown) {
  command->add_flag("--ignore-unknown", ignore_unknown,
                    "leave aside columns and fields that are not known, with one warning, instead "
                    "of refusing the file");
}

void WarnOfIgnored(const std::string& path, const std::string& names) {
  if (names.empty()) return;
  std::fprintf(stderr, "reprise: %s: not known and left aside: %s\n", Printable(path).c_str(),
               Printable(names).c_str());
}

absl::Status Finish(base::AtomicFile& file) {
  return file.Finish() ? absl::OkStatus() : absl::UnavailableError(file.problem());
}

namespace {
bool any_damage = false;
}  // namespace

void NoteDamage(const std::string& path, const trace::Recording& recording) {
  const std::vector<trace::Damage>& all = recording.damage;
  if (all.empty()) return;
  any_damage = true;
  static std::set<std::string> said;
  if (!said.insert(path).second) return;
  std::string line = absl::StrCat(path, ": damaged at offset ", all[0].offset);
  uint64_t bytes = 0;
  for (const trace::Damage& damage : all) bytes += damage.bytes;
  if (all.size() > 1) absl::StrAppend(&line, " and in ", Counted(all.size() - 1, "more place"));
  absl::StrAppend(&line, ", ", Counted(bytes, "byte"), " skipped: ", all[0].reason);
  if (recording.lost_events > 0) {
    absl::StrAppend(&line, "; at least ", Counted(recording.lost_events, "event"),
                    recording.lost_events == 1 ? " is missing" : " are missing");
  }
  std::fprintf(stderr, "reprise: %s\n", Printable(line).c_str());
}

bool AnyDamage() { return any_damage; }

absl::Status SystemError(int error, const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

}  // namespace reprise::cli
