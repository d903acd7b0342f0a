// What every subcommand of `reprise` shares: how it is registered, how it fails, how it prints.
#ifndef REPRISE_CLI_COMMAND_H_
#define REPRISE_CLI_COMMAND_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/atomic_file.h"
#include "base/text.h"
#include "trace/recording.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace reprise::cli {

// The exit codes that scripts rely on.
enum ExitCode : int {
  kDone = 0,
  kNo = 1,           // the answer is no: plan invalid, comparison failed
  kUsage = 2,        // the command line is wrong
  kBadInput = 3,     // an input file is wrong
  kSystem = 4,       // the system refused
  kLauncher = 125,   // record and replay: reprise itself failed
  kCannotRun = 126,  // record and replay: the program cannot be run or preloaded
  kNotFound = 127,   // record and replay: the program was not found
};

// A subcommand adds itself to the application and stores what to run in `run`, which returns the
// exit code. Its options live as long as the callback.
using Run = std::function<int()>;
// The words behind `--`, a program and its arguments, as they were given: CLI11 takes [a,b] for two
// words.
using Program = std::vector<std::string>;
void AddRecord(CLI::App& app, const Program& program, Run& run);
void AddInfo(CLI::App& app, Run& run);
void AddPlan(CLI::App& app, Run& run);
void AddCheck(CLI::App& app, Run& run);
void AddReplay(CLI::App& app, const Program& program, Run& run);
void AddCompare(CLI::App& app, const Program& program, Run& run);
void AddConvert(CLI::App& app, Run& run);
void AddReport(CLI::App& app, Run& run);
void AddDiff(CLI::App& app, Run& run);
void AddHelp(CLI::App& app, Run& run);
void AddCompletion(CLI::App& app, Run& run);

// Makes `words`, which so far are those that stand before `--`, the program. Throws a
// CLI::ParseError when there are such words, or no program.
void TakeProgram(const Program& program, std::vector<std::string>& words);

using base::Counted;
using base::FileName;
using base::HumanBytes;
using base::Printable;

// Prints `status` as one line on stderr and returns its exit code: kUsage for FailedPrecondition,
// kBadInput for InvalidArgument, DataLoss, OutOfRange and Unimplemented (a newer version), kNo for
// Aborted, kSystem for everything else.
int Fail(const absl::Status& status);

// How wide a line of a table may be: as the terminal on stdout, or $COLUMNS says; else 80.
size_t Columns();
// A name in the last column of a line that has `used` columns before it.
std::string LastColumn(const std::string& text, size_t used);

// FailedPrecondition when `output` is the same file as one of `inputs`, or a trace, spool or plan
// in one of them that is a folder, which it would replace.
absl::Status KeepsInputs(const std::string& output, const std::vector<std::string>& inputs);

// `status` with the name of the file that it is about in front.
absl::Status InFile(const std::string& path, const absl::Status& status);

// Where a command that writes `output` says what came of it: stdout, unless that is the output.
FILE* Summaries(const std::string& output);

// 0 where `whole` is not above 0.
double Percent(int64_t part, int64_t whole);

// Writes one JSON object and a newline.
void PrintJson(const nlohmann::ordered_json& json, FILE* stream = stdout);

// Checks for options, CLI11's own being too kind: a whole number below 2^63 without a sign (it
// takes -1 for 2^64 - 1), and a time in seconds (it takes nan). They return what is wrong, or
// nothing.
std::string CheckWholeNumber(const std::string& text);
std::string CheckSeconds(const std::string& text);

// For options that are counts: a whole number in [least, most].
CLI::Validator WholeNumber(int64_t least, int64_t most);

// For options that are one of a few names, which help and completions list.
CLI::Validator OneOf(std::vector<std::string> names);

// For options that are sizes: turns 38MB and 38MiB (KB to TB, KiB to TiB, B; a fraction is allowed)
// into bytes. A whole number stays what it is.
CLI::Validator SizeInBytes();

// The flag --ignore-unknown of commands that read CSV or JSON.
void AddIgnoreUnknown(CLI::App* command, bool& ignore_unknown);

// Says on stderr that names in the file at `path` are not known and were left aside; nothing when
// `names` is empty.
void WarnOfIgnored(const std::string& path, const std::string& names);

// Gives an output file its name; Unavailable when anything went wrong since it was opened.
absl::Status Finish(base::AtomicFile& file);

// Says in one line on stderr where a trace is damaged and what is missing; nothing when it is not,
// or when that was said. What a command says is then about what could be read, and a command that
// is done exits with kBadInput.
void NoteDamage(const std::string& path, const trace::Recording& recording);

// Whether there was any.
bool AnyDamage();

// An absl::Status of the errno `error`: "what: strerror". Maps to kSystem.
absl::Status SystemError(int error, const std::string& what);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_COMMAND_H_
