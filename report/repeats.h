// Loops and marks on the time axis of a report.
#ifndef REPRISE_REPORT_REPEATS_H_
#define REPRISE_REPORT_REPEATS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "report/subject.h"

namespace reprise::report {

// Adds `loops` (stretches of time, the longest first), `marks` (times) and `repeats`, a sentence
// about them that is empty where there are none. The loops are those of the plan at `plan`; those
// that are found in the recording where that is empty. Instances have none. Errors: the plan cannot
// be read.
absl::Status AddRepeats(const Subject& subject, const std::string& plan,
                        nlohmann::ordered_json& facts);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_REPEATS_H_
