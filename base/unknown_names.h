// Names in a file (columns, fields) that its reader does not know.
#ifndef REPRISE_BASE_UNKNOWN_NAMES_H_
#define REPRISE_BASE_UNKNOWN_NAMES_H_

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace reprise::base {

// Either the first one is refused, or all are collected, so that one warning can list them.
class UnknownNames {
 public:
  explicit UnknownNames(bool ignore) : ignore_(ignore) {}

  // Nothing when `name` is one of `known` or is to be ignored; else what to say of it:
  // "'align' (did you mean 'alignment'?)".
  std::string Note(std::string_view name, std::span<const std::string_view> known);

  // Those that were ignored, each once: "'align', 'note'"; empty when there are none.
  std::string Ignored() const;

 private:
  bool ignore_;
  std::set<std::string> ignored_;
};

}  // namespace reprise::base

#endif  // REPRISE_BASE_UNKNOWN_NAMES_H_
