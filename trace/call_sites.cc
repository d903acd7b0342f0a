#include "trace/call_sites.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "trace/function_names.h"

namespace reprise::trace {
namespace {

std::string AddressOf(const Recording& recording, const Frame& frame) {
  if (frame.module == kNone) return absl::StrFormat("%#x", frame.offset);
  const std::string name = base::FileName(recording.modules[frame.module].path);
  return base::Printable(absl::StrFormat("%s+%#x", name, frame.offset));
}

// Text of a frame whose symbol is known.
CallSiteText TextOf(const Recording& recording, const Frame& frame, const Symbol& symbol) {
  CallSiteText text = {.address = AddressOf(recording, frame), .known = true};
  text.function = base::Printable(ShortName(symbol.function));
  if (text.function.empty()) {
    text.function = text.address;
  } else if (symbol.line > 0) {
    text.place = base::Printable(absl::StrCat(base::FileName(symbol.file), ":", symbol.line));
  } else if (frame.module != kNone) {
    text.place = base::Printable(base::FileName(recording.modules[frame.module].path));
  }
  return text;
}

std::string LineOf(const CallSiteText& site, Detail detail, size_t callers = SIZE_MAX) {
  const bool at_address = detail == Detail::kAddress && site.address != site.function;
  const std::string& place = at_address ? site.address : site.place;
  std::string line = site.function;
  if (detail != Detail::kFunction && !place.empty()) absl::StrAppend(&line, " (", place, ")");
  if (detail < Detail::kCallers) return line;
  for (size_t i = 0; i < std::min(callers, site.callers.size()); ++i) {
    absl::StrAppend(&line, " ← ", site.callers[i]);
  }
  return line;
}

}  // namespace

CallSiteText DescribeCallSite(const Recording& recording, uint32_t site, Symbolizer* symbolizer) {
  if (site == kNone) return {.function = "not known"};
  if (site < recording.buffer_names.size()) {
    return {.function = base::Printable(recording.buffer_names[site]), .known = true};
  }
  std::vector<Frame> frames = {{recording.sites[site].module, recording.sites[site].offset}};
  const std::vector<Frame>& callers = CallersOf(recording, site);
  frames.insert(frames.end(), callers.begin(), callers.end());
  std::vector<Symbol> symbols(frames.size());
  for (size_t i = 0; i < frames.size() && symbolizer != nullptr; ++i) {
    symbols[i] = FindSymbol(recording, frames[i], *symbolizer);
  }
  size_t first = 0;
  while (first < frames.size() && CarriesRequests(symbols[first].function)) ++first;
  if (first == frames.size()) first = 0;
  CallSiteText text = TextOf(recording, frames[first], symbols[first]);
  text.address = AddressOf(recording, frames[0]);
  for (size_t i = first + 1; i < frames.size(); ++i) {
    if (StartsProgram(symbols[i].function)) break;
    if (CarriesRequests(symbols[i].function)) continue;
    text.callers.push_back(LineOf(TextOf(recording, frames[i], symbols[i]), Detail::kPlace));
  }
  return text;
}

std::vector<std::string> DistinctLines(const std::vector<CallSiteText>& sites, Detail detail) {
  std::vector<std::string> lines;
  lines.reserve(sites.size());
  for (const CallSiteText& site : sites) lines.push_back(LineOf(site, detail));
  // How often each line is there.
  const auto count = [&] {
    absl::flat_hash_map<std::string, uint32_t> times;
    for (const std::string& line : lines) ++times[line];
    return times;
  };
  // Gives those that look alike more, as many callers in the end. True when all differ.
  const auto tell_apart = [&](Detail more, size_t callers) {
    const auto times = count();
    if (times.size() == lines.size()) return true;
    for (size_t i = 0; i < sites.size(); ++i) {
      if (times.at(lines[i]) > 1) lines[i] = LineOf(sites[i], more, callers);
    }
    return false;
  };
  size_t most_callers = 0;
  for (const CallSiteText& site : sites) most_callers = std::max(most_callers, site.callers.size());
  if (detail < Detail::kPlace && tell_apart(Detail::kPlace, 0)) return lines;
  for (size_t callers = 1; detail < Detail::kCallers && callers <= most_callers; ++callers) {
    if (tell_apart(Detail::kCallers, callers)) return lines;
  }
  if (detail < Detail::kAddress && tell_apart(Detail::kAddress, SIZE_MAX)) return lines;
  absl::flat_hash_map<std::string, uint32_t> seen;
  for (std::string& line : lines) {
    if (const uint32_t number = ++seen[line]; number > 1) absl::StrAppend(&line, " #", number);
  }
  return lines;
}

}  // namespace reprise::trace
