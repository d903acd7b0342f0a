// JSON text as a tree, from files that may be anything.
#ifndef REPRISE_PLANNER_GRAPH_JSON_DOCUMENT_H_
#define REPRISE_PLANNER_GRAPH_JSON_DOCUMENT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reprise::planner::graph {

// Lists and objects within each other, at most.
inline constexpr size_t kMostDepth = 32;

// Errors: InvalidArgument "NAME: where: expected ..., found ..." for what is no JSON, numbers that
// no double holds, fields that are given twice in one object, and more than kMostDepth levels. No
// recursion, memory linear in the text.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& name);

}  // namespace reprise::planner::graph

#endif  // REPRISE_PLANNER_GRAPH_JSON_DOCUMENT_H_
