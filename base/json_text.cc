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

std::string DescribeSyntaxError(const std::exception& error) {
  constexpr size_t kLongest = 40, kNone = std::string_view::npos;
  constexpr std::string_view kReason = " - ", kUnexpected = "unexpected ",
                             kExpected = "; expected ", kRead = "; last read: '";
  const std::string_view what = error.what();
  const size_t line = what.find("line "), colon = what.find(':', line), dash = what.find(kReason);
  if (line == kNone || colon == kNone || dash == kNone) {
    return std::string("expected JSON, found none (").append(Printable(what)).append(")");
  }
  // "a string" for "string literal", "true" for "true literal".
  const auto name = [](std::string_view token) {
    const bool thing = token.starts_with("string") || token.starts_with("number");
    return std::string(thing ? "a " : "")
        .append(Printable(token.substr(0, token.find(" literal"))));
  };
  std::string_view found = what.substr(dash + kReason.size());
  const size_t read = found.find(kRead);
  const size_t tail = read == kNone ? found.rfind(kExpected) : found.rfind("'; expected ");
  std::string expected = "JSON";
  if (tail != kNone && (read == kNone || tail >= read + kRead.size())) {
    const std::string_view token = found.substr(found.find(kExpected, tail) + kExpected.size());
    expected = token.find("or a literal") != kNone ? "a value" : name(token);
    found = found.substr(0, read == kNone ? tail : tail + 1);
  }
  std::string text(what.substr(line, colon - line));
  text.append(": expected ").append(expected).append(", found ");
  if (read == kNone) {
    if (found.starts_with(kUnexpected)) found.remove_prefix(kUnexpected.size());
    return text.append(name(found));
  }
  std::string_view token = found.substr(read + kRead.size());
  if (!token.empty()) token.remove_suffix(1);
  if (token.size() > kLongest) token.remove_prefix(token.size() - kLongest);
  text.append("'").append(Printable(token)).append("': ");
  return text.append(Printable(found.substr(0, read)));
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
    return DescribeSyntaxError(error);
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
