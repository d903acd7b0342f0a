// Reading JSON that may be anything: what is no JSON is said in one line, and what would make its
// readers call themselves too deeply is refused.
#ifndef REPRISE_BASE_JSON_TEXT_H_
#define REPRISE_BASE_JSON_TEXT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/text.h"

namespace reprise::base {

// Brackets inside brackets. What writes, copies or compares a document calls itself for each.
inline constexpr int kMostJsonLevels = 64;

// Where in `text` brackets are nested more deeply than that, bytes from its start; npos: nowhere.
inline size_t FindTooDeep(std::string_view text) {
  int level = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++level > kMostJsonLevels) return i;
    } else if (c == ']' || c == '}') {
      --level;
    }
  }
  return std::string_view::npos;
}

// Parses all of `text` into `document`. Returns nothing, or what is wrong, to be put behind the
// name of the file: "offset 12: expected JSON, found none".
inline std::string ParseJson(std::string_view text, nlohmann::json& document) {
  const size_t deep = FindTooDeep(text);
  if (deep != std::string_view::npos) {
    return std::string("offset ")
        .append(std::to_string(deep))
        .append(": expected at most ")
        .append(std::to_string(kMostJsonLevels))
        .append(" levels of brackets, found more");
  }
  try {
    document = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return std::string("offset ")
        .append(std::to_string(error.byte))
        .append(": expected JSON, found none");
  } catch (const nlohmann::json::out_of_range& error) {
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'"
    const std::string_view what = error.what();
    const size_t number = what.find('\'');
    return std::string("expected numbers below 1.8e308, found ")
        .append(Printable(number == std::string_view::npos ? what : what.substr(number)));
  }
  return {};
}

// `value` as JSON, short enough for a message and safe to print; "nothing" for null pointers.
inline std::string FoundJson(const nlohmann::json* value) {
  constexpr size_t kLongest = 40;
  if (value == nullptr) return "nothing";
  std::string text = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text.replace(kLongest - 3, std::string::npos, "...");
  return Printable(text);
}

}  // namespace reprise::base

#endif  // REPRISE_BASE_JSON_TEXT_H_
