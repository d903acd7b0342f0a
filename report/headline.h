// One sentence that says what a page shows.
#ifndef REPRISE_REPORT_HEADLINE_H_
#define REPRISE_REPORT_HEADLINE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace reprise::report {

// "jemalloc needs 33.0 % more than the least possible, 21.9 MiB; the plan 0.1 %. 5.4 MiB are held
// back by 1.8 MiB of PyUnicode_New." From the facts of a page, once AddAdvice has seen them.
std::string Headline(const nlohmann::ordered_json& facts);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_HEADLINE_H_
