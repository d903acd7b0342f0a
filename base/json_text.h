// Reading JSON that may be anything: what is no JSON is said in one line, and what would make its
// readers call themselves too deeply is refused.
#ifndef REPRISE_BASE_JSON_TEXT_H_
#define REPRISE_BASE_JSON_TEXT_H_

#include <cstddef>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace reprise::base {

// Brackets inside brackets. What writes, copies or compares a document calls itself for each.
inline constexpr int kMostJsonLevels = 64;

// Where in `text` brackets are nested more deeply than that, bytes from its start; npos: nowhere.
size_t FindTooDeep(std::string_view text);

// Where a text stops being JSON, from what nlohmann::json says of it:
// "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error while parsing
// value - unexpected ']'; expected '[', '{', or a literal", or "... - invalid literal; last read:
// '[nul]'". As "line 1, column 3: expected a value, found ']'".
std::string DescribeSyntaxError(const std::exception& error);

// Parses all of `text` into `document`. Returns nothing, or what is wrong, to be put behind the
// name of the file: "line 1, column 12: expected a value, found ']'".
std::string ParseJson(std::string_view text, nlohmann::json& document);

// `value` as JSON, short enough for a message and safe to print; "nothing" for null pointers.
std::string FoundJson(const nlohmann::json* value);

}  // namespace reprise::base

#endif  // REPRISE_BASE_JSON_TEXT_H_
