#include "trace/function_names.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace reprise::trace {
namespace {

constexpr std::string_view kOperator = "operator", kNamespace = "(anonymous namespace)";

// The length of what stands between the brackets that `text` begins with, brackets included; 0
// when they do not close. The signs of "->" and of operators are no brackets.
size_t BracketLength(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == '>' && i > 0 && text[i - 1] == '-') continue;
    if ((c == '>' || c == ')' || c == '}' || c == ']') && --depth == 0) return i + 1;
  }
  return 0;
}

// The length of an operator's name at the beginning of `text`, its sign included; 0: it is none.
size_t OperatorLength(std::string_view text, bool begins_word) {
  if (!begins_word || !text.starts_with(kOperator)) return 0;
  const std::string_view sign = text.substr(kOperator.size());
  if (sign.starts_with("()")) return kOperator.size() + 2;
  size_t length = sign.find_first_not_of("<>=+-*/%^&|~!,[]");
  if (length == std::string_view::npos) length = sign.size();
  if (length > 0) return kOperator.size() + length;
  for (const std::string_view word : {" new[]", " delete[]", " new", " delete"}) {
    if (sign.starts_with(word)) return kOperator.size() + word.size();
  }
  // A conversion: "operator bool", up to its parameters.
  return sign.starts_with(" ") ? kOperator.size() + std::min(sign.find('('), sign.size()) : 0;
}

bool IsWord(char c) { return c == '_' || c == '$' || absl::ascii_isalnum(c); }

}  // namespace

std::string ShortName(std::string_view function) {
  const std::string usual = absl::StrReplaceAll(
      std::string(function),
      {{"[abi:cxx11]", ""}, {"std::__cxx11::", "std::"}, {"std::__1::", "std::"}});
  std::string_view rest = usual;
  std::string name;
  while (!rest.empty()) {
    const bool begins_word = name.empty() || !IsWord(name.back());
    if (const size_t length = OperatorLength(rest, begins_word); length > 0) {
      name += rest.substr(0, length);
      rest.remove_prefix(length);
      continue;
    }
    const char c = rest.front();
    if (rest.starts_with(kNamespace)) {
      name += kNamespace;
      rest.remove_prefix(kNamespace.size());
      continue;
    }
    const size_t length = c == '<' || c == '(' || c == '{' ? BracketLength(rest) : 0;
    if (length > 0 && c == '{') {  // a lambda's number tells it from others
      name += rest.substr(0, length);
    } else if (length > 0 && c == '<' && name.empty()) {  // Rust: <Type as Trait>::function
      name += rest.substr(0, length);
    } else if (length > 0) {
      name += c;
      if (length > 2) name += "…";
      name += rest[length - 1];
    } else if (c == ' ') {
      // What stands before a blank is the type that is returned; behind the parameters: "const".
      constexpr std::string_view kConst = " const";
      const bool of_method = rest.starts_with(" const::");
      const bool has_parameters = name.ends_with(")") && !name.ends_with(kNamespace);
      if (has_parameters && !of_method) break;
      if (!of_method && !rest.starts_with(" <")) name.clear();
      rest.remove_prefix(of_method ? kConst.size() : 1);
      continue;
    } else {
      name += c;
    }
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  if (name.empty()) return std::string(function);
  return absl::StrReplaceAll(name, {{"std::basic_string<…>", "std::string"}});
}

bool CarriesRequests(std::string_view function) {
  constexpr std::array<std::string_view, 14> kCarriers = {
      "operator new",      "std::allocator<",      "std::allocator_traits<",
      "std::__allocator",  "__gnu_cxx::",          "std::allocate_shared",
      "std::construct_at", "std::make_unique",     "__rust_alloc",
      "__rust_realloc",    "__rdl_alloc",          "__rdl_realloc",
      "alloc::alloc::",    "<alloc::alloc::Global"};
  const std::string name = ShortName(function);
  for (const std::string_view carrier : kCarriers) {
    if (name.starts_with(carrier)) return true;
  }
  return name.starts_with("std::") && name.find("::_") != std::string::npos;
}

bool StartsProgram(std::string_view function) {
  constexpr std::array<std::string_view, 8> kStarters = {"_start",
                                                         "__libc_start_call_main",
                                                         "__libc_start_main_impl",
                                                         "__libc_start_main",
                                                         "clone3",
                                                         "__clone3",
                                                         "__clone",
                                                         "start_thread"};
  return std::find(kStarters.begin(), kStarters.end(), function) != kStarters.end();
}

}  // namespace reprise::trace
