#include "cli/loops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"

namespace reprise::cli {

using nlohmann::ordered_json;

ordered_json DescribeLoops(const replay::FoundLoops& found) {
  ordered_json list = ordered_json::array();
  for (const replay::FoundLoops::Found& it : found.loops) {
    const replay::Loop& loop = it.loop;
    list.push_back({{"thread", it.thread},
                    {"first_event", it.first_event},
                    {"end_event", it.end_event},
                    {"iterations", loop.iterations()},
                    {"iteration_events", loop.iteration},
                    {"iteration_allocations", loop.allocations},
                    {"iteration_bytes", loop.bytes},
                    {"carried", loop.carried},
                    {"carried_bytes", loop.carried_bytes},
                    {"unrolled", loop.unrolled}});
  }
  for (const replay::FoundLoops::Refused& it : found.refused) {
    list.push_back({{"thread", it.thread}, {"refused", it.why}});
  }
  return list;
}

std::vector<std::string> LoopLines(const ordered_json& loops) {
  constexpr size_t kMostLines = 4;
  std::vector<std::string> lines;
  for (const ordered_json& loop : loops) {
    if (lines.size() == kMostLines) {
      lines.push_back(absl::StrCat("and ", loops.size() - kMostLines, " more"));
      break;
    }
    const auto thread = loop["thread"].get<uint64_t>();
    const std::string where = thread == 0 ? "" : absl::StrCat(" in thread ", thread);
    if (loop.contains("refused")) {
      lines.push_back(absl::StrCat("none", where, ": ", loop["refused"].get<std::string>()));
      continue;
    }
    const auto number = [&](const char* name) { return loop[name].get<uint64_t>(); };
    std::string line = absl::StrFormat("%d x %s from event %d%s", number("iterations"),
                                       Counted(number("iteration_allocations"), "allocation"),
                                       number("first_event"), where);
    if (number("carried") > 0) {
      absl::StrAppend(&line, ", ", Counted(number("carried"), "block"), " carried");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace reprise::cli
