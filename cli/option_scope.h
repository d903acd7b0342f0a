// Which options apply to which input, output and other options: what does not apply is refused,
// never ignored.
#ifndef REPRISE_CLI_OPTION_SCOPE_H_
#define REPRISE_CLI_OPTION_SCOPE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace CLI {
class App;
}

namespace reprise::cli {

// What a command reads, or writes where it writes several formats.
enum class Kind : uint8_t {
  kRecording,  // a trace, or a folder of them
  kInstance,   // CSV
  kGraph,
  kMondrian,
  kNativeOutput,
  kMondrianOutput,
  kOtherOutput,
};

// What the file or folder at `path` is to `plan`, `check`, `report` and `compare`. Errors as
// trace::DetectFormat.
absl::StatusOr<Kind> KindOf(const std::string& path);

// FailedPrecondition, one line, when an option of the parsed `command` has an empty value, or does
// not go with another that was given.
absl::Status CheckOptions(const CLI::App& command);

// FailedPrecondition, one line, when an option that was given does not apply to `kind`.
absl::Status CheckScope(const CLI::App& command, Kind kind);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_OPTION_SCOPE_H_
