// What `reprise compare --json` prints and `reprise replay --stats` writes, read again. Every field
// has its type afterwards; unknown ones are refused, or left aside and listed.
#ifndef REPRISE_REPORT_MEASURED_JSON_H_
#define REPRISE_REPORT_MEASURED_JSON_H_

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json_fields.h"
#include "base/unknown_names.h"

namespace reprise::report {

// A whole text file. NotFound, PermissionDenied or Unavailable with the text of errno.
absl::StatusOr<std::string> ReadText(const std::string& path);

// A comparison: the results for the trace called `trace_name` (the file's name), or the only ones.
// `name`: of the file, for messages. InvalidArgument when it is no such thing.
absl::StatusOr<nlohmann::json> ParseComparison(std::string_view text, const std::string& name,
                                               const std::string& trace_name,
                                               base::UnknownNames& unknown);

// The statistics of a replay. InvalidArgument when it is no such thing.
absl::StatusOr<nlohmann::json> ParseReplayStatistics(std::string_view text, const std::string& name,
                                                     base::UnknownNames& unknown);

// The counters that statistics and each of their images have, in the order in which they are
// written.
std::span<const base::JsonField> ReplayCounters();

}  // namespace reprise::report

#endif  // REPRISE_REPORT_MEASURED_JSON_H_
