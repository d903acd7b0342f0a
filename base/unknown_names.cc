#include "base/unknown_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/text.h"

namespace reprise::base {
namespace {

constexpr size_t kMostListed = 20;

std::string Quoted(std::string_view name) {
  constexpr size_t kLongest = 60;
  std::string quoted("'");
  quoted.append(Printable(name.substr(0, kLongest)));
  quoted.append(name.size() > kLongest ? "...'" : "'");
  return quoted;
}

}  // namespace

std::string UnknownNames::Note(std::string_view name, std::span<const std::string_view> known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  std::string quoted = Quoted(name);
  if (!ignore_) return quoted.append(DidYouMean(name, known));
  if (ignored_.size() < kMostListed) ignored_.insert(std::move(quoted));
  return {};
}

std::string UnknownNames::Ignored() const {
  std::string list;
  for (const std::string& name : ignored_) list.append(list.empty() ? "" : ", ").append(name);
  if (ignored_.size() == kMostListed) list.append(", ...");
  return list;
}

}  // namespace reprise::base
