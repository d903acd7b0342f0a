#include "base/text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace reprise::base {
namespace {

TEST(Printable, KeepsText) {
  EXPECT_EQ(Printable("a b/c.d-é漢😀"), "a b/c.d-é漢😀");
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_EQ(Printable("a\x1b[31mb\n\r\t\x7f"), "a?[31mb????");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "?31m");  // CSI, a C1 control, as UTF-8
  EXPECT_EQ(Printable("\x9b"
                      "31m"),
            "?31m");  // and as the byte that it is in Latin-1
}

TEST(Printable, ReplacesBidirectionalControlsAndLineSeparators) {
  for (const char* text :
       {"\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069", "\u2028", "\u2029"}) {
    EXPECT_EQ(Printable(text), "?");
  }
}

TEST(Printable, ReplacesInvalidUtf8ByteByByte) {
  EXPECT_EQ(Printable("a\xff\xfe"), "a??");
  EXPECT_EQ(Printable("\xe2\x82"), "??");            // cut off
  EXPECT_EQ(Printable("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "????");  // above U+10FFFF
  EXPECT_EQ(Printable("\xe2"
                      "a"),
            "?a");
}

constexpr std::array<std::string_view, 5> kColumns = {"id", "lower", "upper", "size", "alignment"};

TEST(NearestName, FindsTypingErrorsAndBeginnings) {
  EXPECT_EQ(NearestName("align", kColumns), "alignment");
  EXPECT_EQ(NearestName("Alignment_bytes", kColumns), "alignment");
  EXPECT_EQ(NearestName("szie", kColumns), "size");
  EXPECT_EQ(NearestName("UPPER", kColumns), "upper");
  EXPECT_EQ(NearestName("loewr", kColumns), "lower");
}

TEST(NearestName, IsEmptyWhenNoneIsNear) {
  EXPECT_EQ(NearestName("colour", kColumns), "");
  EXPECT_EQ(NearestName("", kColumns), "");
  EXPECT_EQ(NearestName(std::string(1'000'000, 'a'), kColumns), "");
}

TEST(NearestName, TheFirstOfEquallyNearNamesWins) {
  constexpr std::array<std::string_view, 2> kNames = {"bata", "beta"};
  EXPECT_EQ(NearestName("bota", kNames), "bata");
}

TEST(DidYouMean, NamesTheNearestOrNothing) {
  EXPECT_EQ(DidYouMean("align", kColumns), " (did you mean 'alignment'?)");
  EXPECT_EQ(DidYouMean("colour", kColumns), "");
}

TEST(Text, AFileNameIsWhatStandsBehindTheLastSlash) {
  EXPECT_EQ(FileName("/usr/bin/jq"), "jq");
  EXPECT_EQ(FileName("jq"), "jq");
  EXPECT_EQ(FileName("/usr/bin/"), "");
  EXPECT_EQ(FileName(""), "");
}

TEST(Text, ShortenedTextKeepsBothEnds) {
  EXPECT_EQ(Shortened("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(Shortened("abcdefgh", 5), "ab…gh");
  EXPECT_EQ(Shortened("äöüäöü", 4), "äö…ü");
  EXPECT_EQ(Width("äb…"), 3u);
}

}  // namespace
}  // namespace reprise::base
