// Call sites as people read them, no two of a table alike.
#ifndef REPRISE_TRACE_CALL_SITES_H_
#define REPRISE_TRACE_CALL_SITES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trace/recording.h"
#include "trace/symbols.h"

namespace reprise::trace {

// All text is printable.
struct CallSiteText {
  // The function that asked for memory, as ShortName has it: where callers are known the nearest
  // one that does more than carry requests to malloc (function_names.h). "module+0x12ab" where no
  // name is known; of an instance the buffer's name.
  std::string function{};
  std::string place{};    // "file:line", or the module; empty where `function` says it
  std::string address{};  // "module+0x12ab" of the call itself; empty: not known
  bool known = false;     // the recording knows the site
  // "function (file:line)" each, the nearest first, up to the program's first function, without
  // those that only carry requests.
  std::vector<std::string> callers{};
};

// With `symbolizer` null no names are looked up.
CallSiteText DescribeCallSite(const Recording& recording, uint32_t site, Symbolizer* symbolizer);

enum class Detail { kFunction, kPlace, kCallers, kAddress };

// A line for each: "function", with Detail::kPlace "function (file:line)". Those that would look
// alike get more: their place, their callers, their address, or a number.
std::vector<std::string> DistinctLines(const std::vector<CallSiteText>& sites, Detail detail);

}  // namespace reprise::trace

#endif  // REPRISE_TRACE_CALL_SITES_H_
