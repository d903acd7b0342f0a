// Names out of files may hold anything. What is shown of them is one line, and no order to a
// terminal.
#ifndef REPRISE_TRACE_ONE_LINE_H_
#define REPRISE_TRACE_ONE_LINE_H_

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace reprise::trace {

// `text` with '?' for every control character.
inline std::string OneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, '?');
  return text;
}

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_ONE_LINE_H_
