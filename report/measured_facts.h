// What a report tells of a comparison and of a replay (measured_json.h), as its page reads it.
#ifndef REPRISE_REPORT_MEASURED_FACTS_H_
#define REPRISE_REPORT_MEASURED_FACTS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace reprise::report {

// One bar per measured allocator and plan.
nlohmann::ordered_json MeasuredContenders(const nlohmann::json& comparison);

// Resident memory over time, where it was looked at.
nlohmann::ordered_json MeasuredSeries(const nlohmann::json& comparison);

// How a replay went: of the image of `executable`, where there are several and it is one of them.
nlohmann::ordered_json ReplayFacts(const nlohmann::json& statistics, const std::string& executable);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_MEASURED_FACTS_H_
