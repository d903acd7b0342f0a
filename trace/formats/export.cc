#include "trace/formats/export.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"

namespace reprise::trace {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string ProgramName(const Recording& recording) {
  const std::string name = base::Printable(trace::ProgramName(recording.process));
  return name.empty() ? "program" : name;
}

uint32_t ModuleOf(const Recording& recording, uint32_t site) {
  return site == kNone ? kNone : recording.sites[site].module;
}

std::string ModuleName(const Recording& recording, uint32_t module) {
  return module == kNone ? "(no module)"
                         : base::Printable(base::FileName(recording.modules[module].path));
}

// A table of frames, each once.
class Frames {
 public:
  uint32_t Number(const std::string& name) {
    const auto [entry, added] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (added) names_.push_back(name);
    return entry->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
};

// "function (module)" or "function (file:line)", and the place as valgrind writes it: "0xADDR: …".
std::string DhatFrame(const Recording& recording, const NamedFrame& it) {
  const std::string function = it.symbol.function.empty() ? "???" : it.symbol.function;
  const std::string place = it.symbol.line > 0
                                ? absl::StrCat(base::FileName(it.symbol.file), ":", it.symbol.line)
                                : absl::StrCat("in ", ModuleName(recording, it.frame.module));
  return absl::StrFormat("%#x: %s (%s)", it.frame.offset, function, place);
}

// A line of a flame graph.
struct Line {
  std::string name;
  Symbol symbol;
};

// What leads to an account, from the program inwards.
std::vector<Line> LinesOf(const Profile& profile, size_t account) {
  const Recording& recording = *profile.recording;
  const uint32_t site = profile.accounts[account].site;
  std::vector<Line> lines = {{ProgramName(recording), {}}};
  const std::vector<NamedFrame> none;
  const auto& callers = profile.callers.empty() ? none : profile.callers[account];
  const bool buffer = !recording.buffer_names.empty();
  if (callers.empty() && !buffer)
    lines.push_back({ModuleName(recording, ModuleOf(recording, site)), {}});
  for (size_t i = callers.size(); i-- > 0;) {
    lines.push_back(
        {DescribeFrame(recording, callers[i].frame, callers[i].symbol, true), callers[i].symbol});
  }
  const Symbol& symbol = profile.symbols[account];
  lines.push_back({DescribeSite(recording, site, symbol, true), symbol});
  return lines;
}

}  // namespace

void LoadPoints::Add(const LoadPoint& point) {
  if (!points_.empty() && points_.back().event / stretch_ == point.event / stretch_) {
    if (point.bytes >= points_.back().bytes) points_.back() = point;
    return;
  }
  points_.push_back(point);
  if (points_.size() < 2 * count_) return;
  stretch_ *= 2;
  std::vector<LoadPoint> kept;
  for (const LoadPoint& it : points_) {
    if (kept.empty() || kept.back().event / stretch_ != it.event / stretch_) {
      kept.push_back(it);
    } else if (it.bytes >= kept.back().bytes) {
      kept.back() = it;
    }
  }
  points_ = std::move(kept);
}

void WritePerfetto(const Profile& profile, WriteText write) {
  const Recording& recording = *profile.recording;
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  const ordered_json name = {{"name", "process_name"},
                             {"ph", "M"},
                             {"pid", 1},
                             {"tid", 1},
                             {"args", {{"name", ProgramName(recording)}}}};
  write(Dump(name));
  for (const LoadPoint& it : profile.load) {
    write(absl::StrCat(
        ",\n{\"name\":\"live bytes\",\"ph\":\"C\",\"pid\":1,\"tid\":1,\"ts\":", it.event,
        ",\"args\":{\"bytes\":", it.bytes,
        "}},\n{\"name\":\"live blocks\",\"ph\":\"C\",\"pid\":1,\"tid\":1,\"ts\":", it.event,
        ",\"args\":{\"blocks\":", it.blocks, "}}"));
  }
  write("\n]}\n");
}

void WriteCollapsed(const Profile& profile, WriteText write) {
  // Semicolons part frames, and the last blank parts the count.
  const auto frame = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{";", ":"}, {"\n", " "}});
  };
  for (size_t i = 0; i < profile.accounts.size(); ++i) {
    const SiteAccount& it = profile.accounts[i];
    if (it.peak_bytes == 0) continue;
    const std::string stack = absl::StrJoin(
        LinesOf(profile, i), ";",
        [&frame](std::string* out, const Line& line) { absl::StrAppend(out, frame(line.name)); });
    write(absl::StrCat(stack, " ", it.peak_bytes, "\n"));
  }
}

void WriteSpeedscope(const Profile& profile, WriteText write) {
  const Recording& recording = *profile.recording;
  Frames frames;
  ordered_json table = ordered_json::array();
  const auto add = [&](const std::string& name, const Symbol& symbol) {
    const uint32_t number = frames.Number(name);
    if (number == table.size()) {
      ordered_json frame = {{"name", name}};
      if (!symbol.file.empty()) frame["file"] = symbol.file;
      if (symbol.line > 0) frame["line"] = symbol.line;
      table.push_back(std::move(frame));
    }
    return number;
  };
  ordered_json samples = ordered_json::array(), at_peak = ordered_json::array(),
               in_all = ordered_json::array();
  uint64_t peak = 0, all = 0;
  for (size_t i = 0; i < profile.accounts.size(); ++i) {
    const SiteAccount& it = profile.accounts[i];
    ordered_json sample = ordered_json::array();
    for (const Line& line : LinesOf(profile, i)) sample.push_back(add(line.name, line.symbol));
    samples.push_back(std::move(sample));
    at_peak.push_back(it.peak_bytes);
    in_all.push_back(it.bytes);
    peak += it.peak_bytes;
    all += it.bytes;
  }
  const auto profile_of = [&](const char* name, uint64_t end, const ordered_json& weights) {
    return ordered_json{{"type", "sampled"}, {"name", name},    {"unit", "bytes"},
                        {"startValue", 0},   {"endValue", end}, {"samples", samples},
                        {"weights", weights}};
  };
  const ordered_json json = {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                             {"name", ProgramName(recording)},
                             {"exporter", "reprise"},
                             {"activeProfileIndex", 0},
                             {"shared", {{"frames", table}}},
                             {"profiles",
                              {profile_of("bytes live at the peak", peak, at_peak),
                               profile_of("bytes allocated in all", all, in_all)}}};
  write(Dump(json) + "\n");
}

void WriteDhat(const Profile& profile, WriteText write) {
  const Recording& recording = *profile.recording;
  Frames frames;
  frames.Number("[root]");
  ordered_json points = ordered_json::array();
  for (size_t i = 0; i < profile.accounts.size(); ++i) {
    const SiteAccount& it = profile.accounts[i];
    ordered_json stack = ordered_json::array();  // the allocation first
    if (it.site == kNone) {
      stack.push_back(frames.Number("0x0: (not known)"));
    } else {
      const Site& site = recording.sites[it.site];
      const NamedFrame top = {{site.module, site.offset}, profile.symbols[i]};
      stack.push_back(frames.Number(DhatFrame(recording, top)));
      if (!profile.callers.empty()) {
        for (const NamedFrame& caller : profile.callers[i]) {
          stack.push_back(frames.Number(DhatFrame(recording, caller)));
        }
      }
    }
    points.push_back({{"tb", it.bytes},
                      {"tbk", it.blocks},
                      {"tl", it.lifetimes},
                      {"mb", it.most_bytes},
                      {"mbk", it.most_blocks},
                      {"gb", it.peak_bytes},
                      {"gbk", it.peak_blocks},
                      {"eb", it.end_bytes},
                      {"ebk", it.end_blocks},
                      {"fs", std::move(stack)}});
  }
  const std::string command = absl::StrJoin(SplitWords(recording.process.command), " ");
  // What lives for fewer events than this is called short-lived by the viewer.
  constexpr int kShortLived = 500;
  const ordered_json json = {{"dhatFileVersion", 2},
                             {"mode", "heap"},
                             {"verb", "Allocated"},
                             {"bklt", true},
                             {"bkacc", false},
                             {"tu", "events"},
                             {"Mtu", "Mevents"},
                             {"tuth", kShortLived},
                             {"cmd", command.empty() ? recording.process.executable : command},
                             {"pid", 0},
                             {"te", recording.events},
                             {"tg", profile.statistics.peak_event},
                             {"pps", points},
                             {"ftbl", frames.names()}};
  write(Dump(json) + "\n");
}

void WriteSummary(const Profile& profile, WriteText write) {
  const Recording& recording = *profile.recording;
  const Statistics& statistics = profile.statistics;
  constexpr size_t kRows = 10;
  const auto section = [&](const char* title, uint64_t SiteAccount::*by, auto tell) {
    std::vector<size_t> order;
    for (size_t i = 0; i < profile.accounts.size(); ++i) {
      if (profile.accounts[i].*by > 0) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return profile.accounts[a].*by > profile.accounts[b].*by;
    });
    if (order.size() > kRows) order.resize(kRows);
    write(absl::StrCat(title, "\n"));
    if (order.empty()) write("  none\n");
    for (const size_t i : order) {
      const SiteAccount& it = profile.accounts[i];
      write(absl::StrCat("  ", tell(it), " from ",
                         DescribeSite(recording, it.site, profile.symbols[i]), " in ",
                         ModuleName(recording, ModuleOf(recording, it.site)), "\n"));
      if (profile.callers.empty()) continue;
      for (const NamedFrame& caller : profile.callers[i]) {
        write(absl::StrCat("      called by ",
                           DescribeFrame(recording, caller.frame, caller.symbol), "\n"));
      }
    }
    write("\n");
  };
  section("MOST CALLS TO ALLOCATION FUNCTIONS", &SiteAccount::blocks, [](const SiteAccount& it) {
    return absl::StrFormat("%s, %d B at most at one time,", base::Counted(it.blocks, "call"),
                           it.most_bytes);
  });
  section("PEAK MEMORY CONSUMERS", &SiteAccount::peak_bytes, [](const SiteAccount& it) {
    return absl::StrFormat("%d B in %s", it.peak_bytes, base::Counted(it.peak_blocks, "block"));
  });
  section("MOST TEMPORARY ALLOCATIONS", &SiteAccount::short_lived, [](const SiteAccount& it) {
    return absl::StrFormat("%d of %s, freed by the next event,", it.short_lived,
                           base::Counted(it.blocks, "block"));
  });
  section("NEVER FREED", &SiteAccount::end_bytes, [](const SiteAccount& it) {
    return absl::StrFormat("%d B in %s", it.end_bytes, base::Counted(it.end_blocks, "block"));
  });
  uint64_t temporary = 0;
  for (const SiteAccount& it : profile.accounts) temporary += it.short_lived;
  write(absl::StrFormat("events: %d\n", recording.events));
  write(absl::StrFormat("calls to allocation functions: %d\n", statistics.buffers));
  write(absl::StrFormat("temporary allocations: %d (%.2f%%)\n", temporary,
                        statistics.buffers > 0 ? 100.0 * static_cast<double>(temporary) /
                                                     static_cast<double>(statistics.buffers)
                                               : 0.0));
  write(absl::StrFormat("peak heap memory consumption: %d B\n", statistics.requested_max_load));
  write(absl::StrFormat("total memory never freed: %d B\n", statistics.never_freed_bytes));
}

}  // namespace reprise::trace
