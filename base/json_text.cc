#include "base/json_text.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace reprise::base {

size_t FindTooDeep(std::string_view text) {
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

std::string ParseJson(std::string_view text, nlohmann::json& document) {
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

std::string FoundJson(const nlohmann::json* value) {
  constexpr size_t kLongest = 40;
  if (value == nullptr) return "nothing";
  std::string text = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text.replace(kLongest - 3, std::string::npos, "...");
  return Printable(text);
}

}  // namespace reprise::base
