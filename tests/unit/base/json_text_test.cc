// JSON that may be anything, and names that nobody knows.
#include "base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/unknown_names.h"

namespace reprise::base {
namespace {

TEST(JsonText, WhatIsWrongIsOneLine) {
  nlohmann::json document;
  EXPECT_EQ(ParseJson(R"({"a":[1,{"b":"]]"}]})", document), "");
  EXPECT_EQ(document["a"][0], 1);
  EXPECT_EQ(ParseJson("", document), "line 1, column 1: expected a value, found end of input");
  EXPECT_EQ(ParseJson("[1,\n]", document), "line 2, column 1: expected a value, found ']'");
  EXPECT_EQ(ParseJson("{\"a\":1,}", document), "line 1, column 8: expected a string, found '}'");
  EXPECT_EQ(ParseJson("[1] 2", document),
            "line 1, column 5: expected end of input, found a number");
  EXPECT_EQ(ParseJson("[nul]", document),
            "line 1, column 5: expected JSON, found '[nul]': invalid literal");
  EXPECT_EQ(ParseJson("[2;]", document),
            "line 1, column 3: expected ']', found '2;': invalid literal");
  EXPECT_EQ(ParseJson("[1e999]", document), "expected numbers below 1.8e308, found '1e999'");
  EXPECT_EQ(ParseJson("\"\xff\"", document),
            "line 1, column 2: expected JSON, found '\"?': invalid string: ill-formed UTF-8 byte");
}

TEST(JsonText, BracketsAreNestedUpToALimit) {
  nlohmann::json document;
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(ParseJson(nested(kMostJsonLevels), document), "");
  EXPECT_EQ(ParseJson(nested(kMostJsonLevels + 1), document),
            "offset 64: expected at most 64 levels of brackets, found more");
  EXPECT_EQ(ParseJson(std::string(1'000'000, '['), document),
            "offset 64: expected at most 64 levels of brackets, found more");
  // Those in text, also behind an escaped quote, are none.
  EXPECT_EQ(ParseJson("\"\\\"" + std::string(100, '[') + "\"", document), "");
}

TEST(JsonText, WhatWasFoundIsShortAndPrintable) {
  const nlohmann::json text = "\x1b[31m" + std::string(100, 'x');
  EXPECT_EQ(FoundJson(nullptr), "nothing");
  EXPECT_EQ(FoundJson(&text).size(), 40u);
  EXPECT_EQ(FoundJson(&text).find('\x1b'), std::string::npos);
}

TEST(UnknownNames, TheFirstIsRefusedOrAllAreListed) {
  constexpr std::string_view kKnown[] = {"alignment", "size"};
  UnknownNames strict(false);
  EXPECT_EQ(strict.Note("size", kKnown), "");
  EXPECT_EQ(strict.Note("align", kKnown), "'align' (did you mean 'alignment'?)");
  EXPECT_EQ(strict.Note("xyz\x1b", kKnown), "'xyz?'");
  EXPECT_EQ(strict.Ignored(), "");
  UnknownNames lax(true);
  for (const char* name : {"b", "a", "size", "b"}) EXPECT_EQ(lax.Note(name, kKnown), "");
  EXPECT_EQ(lax.Ignored(), "'a', 'b'");
  for (int i = 0; i < 100; ++i) lax.Note(std::to_string(i), kKnown);
  EXPECT_TRUE(lax.Ignored().ends_with(", ..."));
}

}  // namespace
}  // namespace reprise::base
