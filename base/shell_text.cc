#include "base/shell_text.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace reprise::base {
namespace {

bool IsPlain(char c) {
  constexpr std::string_view kOthers = "_@%+=:,./-";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != std::string_view::npos;
}

}  // namespace

std::string ShellQuoted(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), IsPlain)) return std::string(word);
  const bool printable = Printable(word) == word;
  std::string quoted = printable ? "'" : "$'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += printable ? "'\\''" : "\\'";
    } else if (printable || (c >= 0x20 && c < 0x7f && c != '\\')) {
      quoted += c;
    } else {
      char escape[5];
      std::snprintf(escape, sizeof(escape), "\\%03o", static_cast<unsigned char>(c));
      quoted += escape;
    }
  }
  return quoted + "'";
}

}  // namespace reprise::base
