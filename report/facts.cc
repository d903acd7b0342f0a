#include "report/facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "replay/plan/plan_format.h"
#include "report/classes.h"
#include "report/measured_facts.h"
#include "report/palette.h"
#include "report/raster.h"

namespace reprise::report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using trace::kNone;

constexpr size_t kCurvePoints = 1500;

// The place of each thread among all, by the bytes of its blocks times their lifetimes: what fills
// a map most gets a colour of its own.
std::vector<uint32_t> ThreadRanks(const Subject& subject) {
  const trace::Recording& recording = subject.recording;
  std::vector<double> area(recording.threads.size());
  for (const trace::Allocation& it : recording.allocations) {
    const uint64_t end = it.death == trace::kNever ? recording.events : it.death;
    area[it.thread] += static_cast<double>(it.size) * static_cast<double>(end - it.birth);
  }
  std::vector<uint32_t> order(area.size()), ranks(area.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return area[a] > area[b]; });
  for (uint32_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return ranks;
}

ordered_json MapFacts(const Subject& subject, const HeapMap& map) {
  ordered_json fact = {{"name", map.name}, {"kind", map.kind}, {"height", map.height}};
  fact["wasteful"] = IsWasteful(map.footprint(), subject.statistics.max_load);
  HeldRows held = WhenHeld(subject.recording, map, kHeldRows);
  fact["held"] = std::move(held.times);
  fact["grown"] = held.grown;
  fact["label"] = map.name;
  fact["detail"] = map.detail;
  return fact;
}

// One bar per measured allocator and plan; what was not measured, from the maps.
ordered_json Contenders(const std::vector<HeapMap>& maps, const json& comparison) {
  ordered_json contenders =
      comparison.is_null() ? ordered_json::array() : MeasuredContenders(comparison);
  for (const HeapMap& map : maps) {
    const bool known = std::any_of(contenders.begin(), contenders.end(), [&](const auto& it) {
      return it["label"] == map.name && it["label"] != "";
    });
    if (!known) {
      contenders.push_back(
          {{"label", map.name}, {"footprint", map.footprint()}, {"plan", map.is_plan()}});
    }
  }
  return contenders;
}

ordered_json Curves(const Subject& subject, const json& comparison) {
  const LoadCurve curve = CurveOf(subject.recording, kCurvePoints, subject.alignment);
  const auto times = [&](const auto& events) {
    ordered_json list = ordered_json::array();
    for (const uint64_t event : events) list.push_back(trace::TimeOf(subject.recording, event));
    return list;
  };
  ordered_json curves = {
      {"events", times(curve.events)}, {"live", curve.live}, {"requested", curve.requested}};
  curves["series"] = comparison.is_null() ? ordered_json::array() : MeasuredSeries(comparison);
  for (ordered_json& it : curves["series"]) {
    it["events"] = times(it["events"].get<std::vector<uint64_t>>());
  }
  return curves;
}

// What only the buffers of an instance have; the offset is that of the first map.
void AddBuffers(const Subject& subject, const SiteTable& sites, const std::vector<HeapMap>& maps,
                ordered_json& facts) {
  for (size_t i = 0; i < facts.size(); ++i) {
    const trace::CsvBuffer& buffer = subject.instance.buffers[sites.rows[i].site];
    facts[i]["size"] = buffer.size;
    facts[i]["lower"] = buffer.lower;
    facts[i]["upper"] = buffer.upper;
    facts[i]["fixed"] = buffer.offset.has_value() && !subject.is_graph;
  }
  const std::vector<trace::Allocation>& allocations = subject.recording.allocations;
  for (size_t i = 0; i < allocations.size() && !maps.empty(); ++i) {
    const uint32_t row = sites.Of(allocations[i].site);
    const int64_t offset = maps.front().offsets[i];
    if (row < facts.size() && offset != HeapMap::kNowhere) facts[row]["offset"] = offset;
  }
}

}  // namespace

std::string ThreadName(const trace::Recording& recording, size_t index) {
  if (recording.threads.size() == 1) return "the only thread";
  if (recording.threads[index].parent == kNone && index == 0) return "main thread";
  return absl::StrCat("thread ", index);
}

std::vector<SiteName> NameSites(const trace::Recording& recording, const SiteTable& sites) {
  if (!recording.buffer_names.empty()) {  // each once
    std::vector<SiteName> names;
    for (const SiteTable::Row& row : sites.rows) {
      trace::CallSiteText text = trace::DescribeCallSite(recording, row.site, nullptr);
      names.push_back({text.function, std::move(text)});
    }
    return names;
  }
  // Reading debug information takes longer than all the rest.
  trace::Symbolizer symbolizer;
  std::vector<trace::CallSiteText> texts;
  for (const SiteTable::Row& row : sites.rows) {
    trace::Symbolizer* const names = texts.size() < kMostNamedSites ? &symbolizer : nullptr;
    texts.push_back(trace::DescribeCallSite(recording, row.site, names));
    if (!row.callers) texts.back().callers.clear();
  }
  std::vector<std::string> lines = trace::DistinctLines(texts, trace::Detail::kFunction);
  std::vector<SiteName> names;
  for (size_t i = 0; i < texts.size(); ++i) {
    names.push_back({std::move(lines[i]), std::move(texts[i])});
  }
  return names;
}

ordered_json GatherFacts(const Subject& subject, const SiteTable& sites,
                         const std::vector<SiteName>& names, const std::vector<HeapMap>& maps,
                         const json& comparison, const json& replay) {
  const trace::Recording& recording = subject.recording;
  const trace::Statistics& statistics = subject.statistics;
  ordered_json facts = {{"version", REPRISE_VERSION},
                        {"name", subject.name},
                        {"trace", base::FileName(subject.path)},
                        {"executable", recording.process.executable},
                        {"buffers", statistics.buffers},
                        {"events", recording.events},
                        {"lost_events", recording.lost_events},
                        {"complete", recording.process.complete},
                        {"max_load", statistics.max_load},
                        {"requested_max_load", statistics.requested_max_load},
                        {"peak", trace::TimeOf(recording, statistics.peak_event)},
                        {"first", recording.first_instant},
                        {"end", std::max<uint64_t>(1, trace::TimeOf(recording, recording.events))},
                        {"time", subject.is_graph      ? "operator"
                                 : subject.is_instance ? "time"
                                                       : "event"},
                        {"operators", subject.operators},
                        {"size_bounds", SizeBounds(subject)},
                        {"age_bounds", AgeBounds(subject)},
                        {"palette", PaletteFacts()}};
  facts["images"] = ordered_json::array();
  for (const ImageLoad& image : subject.images) {
    facts["images"].push_back({{"name", image.name},
                               {"trace", base::FileName(image.path)},
                               {"max_load", image.max_load}});
    const auto same = [&](const ImageLoad& it) { return it.name == image.name; };
    const bool one = std::count_if(subject.images.begin(), subject.images.end(), same) == 1;
    if (!one && !image.command.empty()) {
      constexpr size_t kColumns = 60;
      facts["images"].back()["command"] = base::Shortened(base::Printable(image.command), kColumns);
    }
  }
  facts["maps"] = ordered_json::array();
  for (const HeapMap& map : maps) facts["maps"].push_back(MapFacts(subject, map));
  facts["contenders"] = Contenders(maps, comparison);
  facts["curves"] = Curves(subject, comparison);
  facts["sites"] = ordered_json::array();
  facts["frames"] = ordered_json::array();  // of callers, each once
  std::map<std::string, size_t> frames;
  const auto number = [&](const std::string& frame) {
    const auto [entry, added] = frames.try_emplace(frame, frames.size());
    if (added) facts["frames"].push_back(frame);
    return entry->second;
  };
  // An instance may have a million buffers; the page has the names of all in a column.
  const size_t rows =
      subject.is_instance ? std::min(kMostNamedSites, sites.rows.size()) : sites.rows.size();
  for (size_t i = 0; i < rows; ++i) {
    const SiteTable::Row& row = sites.rows[i];
    const trace::CallSiteText& text = names[i].text;
    facts["sites"].push_back({{"label", names[i].label},
                              {"place", text.place},
                              {"address", text.address},
                              {"known", text.known},
                              {"peak_bytes", row.peak_bytes},
                              {"peak_blocks", row.peak_blocks},
                              {"allocations", row.allocations},
                              {"bytes", row.bytes},
                              {"end_bytes", row.end_bytes}});
    if (text.callers.empty()) continue;
    ordered_json& callers = facts["sites"].back()["callers"] = ordered_json::array();
    for (const std::string& caller : text.callers) callers.push_back(number(caller));
  }
  if (subject.is_instance) AddBuffers(subject, sites, maps, facts["sites"]);
  facts["threads"] = ordered_json::array();
  for (size_t i = 0; i < recording.threads.size(); ++i) {
    facts["threads"].push_back(ThreadName(recording, i));
  }
  facts["thread_ranks"] = ThreadRanks(subject);
  facts["sizes"] = statistics.sizes;
  facts["lifetimes"] = statistics.lifetimes;
  if (!replay.is_null()) {
    facts["replay"] = ReplayFacts(replay, recording.process.executable);
  }
  return facts;
}

namespace {

// Of the density grids: enough for every pixel of a screen, and a few megabytes once packed.
constexpr uint32_t kGridColumns = 4096, kGridRows = 1024;
constexpr size_t kBlocksBesideGrid = 400'000;

// Of the preview: about as many cells as a map has pixels on the page.
constexpr uint32_t kPreviewColumns = 1024, kPreviewRows = 256;
// Fewer are unpacked as fast as a preview would be.
constexpr size_t kBlocksWithoutPreview = 50'000;

// The blocks that fill most of the maps, in the order of their birth.
std::vector<uint32_t> LargestBlocks(const trace::Recording& recording, size_t count) {
  const auto area = [&](uint32_t i) {
    const trace::Allocation& it = recording.allocations[i];
    const uint64_t end = it.death == trace::kNever ? recording.events : it.death;
    return static_cast<double>(it.size) * static_cast<double>(end - it.birth);
  };
  std::vector<uint32_t> blocks(recording.allocations.size());
  std::iota(blocks.begin(), blocks.end(), 0);
  if (blocks.size() <= count) return blocks;
  std::nth_element(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count),
                   blocks.end(), [&](uint32_t a, uint32_t b) { return area(a) > area(b); });
  blocks.resize(count);
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

// How full each cell of the map is, 0 to 255, and of what size class; the lowest row first.
void AddGrid(const Subject& subject, const HeapMap& map, size_t number,
             std::vector<Column>& columns, ordered_json& facts) {
  ordered_json& fact = facts["maps"][number];
  const RasterView view = {.begin = 0,
                           .end = facts["end"].get<double>(),
                           .bottom = 0,
                           .top = static_cast<double>(std::max<int64_t>(map.height, 1))};
  const Raster raster = Paint(subject.recording, map, facts["size_bounds"].get<Bounds>(), view,
                              kGridColumns, kGridRows, false);
  std::string coverage, group;
  coverage.reserve(raster.coverage.size());
  group.reserve(raster.coverage.size());
  for (uint32_t row = kGridRows; row-- > 0;) {
    for (uint32_t column = 0; column < kGridColumns; ++column) {
      const size_t cell = size_t{row} * kGridColumns + column;
      const float covered = std::min(1.0f, raster.coverage[cell]);
      // What is there at all must not round to nothing.
      coverage.push_back(
          static_cast<char>(covered > 0 ? std::max(1l, std::lround(255 * covered)) : 0));
      group.push_back(static_cast<char>(raster.group[cell]));
    }
  }
  columns.push_back(PackBytes(absl::StrCat("coverage-", number), coverage));
  columns.push_back(PackBytes(absl::StrCat("group-", number), group));
  fact["density"] = {
      {"columns", kGridColumns}, {"rows", kGridRows}, {"end", view.end}, {"bytes", view.top}};
}

// The whole map as the page shows it first, of all blocks; the page replaces it as soon as it has
// unpacked them. A byte for each cell, the uppermost row first: size class, and in the lower half
// the root of how full it is, 1 to 15 (so that what is hardly covered stays apart); 0 is empty.
void AddPreview(const Subject& subject, const HeapMap& map, size_t number, double top,
                std::vector<Column>& columns, ordered_json& facts) {
  ordered_json& fact = facts["maps"][number];
  const RasterView view = {.begin = 0, .end = facts["end"].get<double>(), .bottom = 0, .top = top};
  const Raster raster = Paint(subject.recording, map, facts["size_bounds"].get<Bounds>(), view,
                              kPreviewColumns, kPreviewRows, true);
  std::string cells(raster.coverage.size(), '\0');
  for (size_t cell = 0; cell < cells.size(); ++cell) {
    const float covered = std::min(1.0f, raster.coverage[cell]);
    if (covered <= 0) continue;
    const long shade = std::max(1l, std::lround(15 * std::sqrt(covered)));
    cells[cell] = static_cast<char>(raster.group[cell] << 4 | shade);
  }
  columns.push_back(PackBytes(absl::StrCat("preview-", number), cells));
  fact["preview"] = {{"columns", kPreviewColumns}, {"rows", kPreviewRows},
                     {"begin", view.begin},        {"end", view.end},
                     {"bottom", view.bottom},      {"top", view.top}};
}

// The address at the upper edge of every map: they share their axes.
double SharedTop(const std::vector<HeapMap>& maps, uint64_t max_load) {
  int64_t tallest = std::max<int64_t>(1, static_cast<int64_t>(max_load));
  for (const HeapMap& map : maps) tallest = std::max(tallest, map.height);
  return static_cast<double>(tallest) * 1.03;  // some air above
}

}  // namespace

std::vector<Column> GatherColumns(const Subject& subject, const SiteTable& sites,
                                  const std::vector<HeapMap>& maps, size_t most_blocks,
                                  ordered_json& facts) {
  const std::vector<trace::Allocation>& allocations = subject.recording.allocations;
  std::vector<Column> columns;
  facts["top"] = SharedTop(maps, facts["max_load"].get<uint64_t>());
  if (maps.empty()) return columns;
  const bool sampled = allocations.size() > most_blocks;
  const std::vector<uint32_t> blocks = LargestBlocks(
      subject.recording, sampled ? std::min(most_blocks, kBlocksBesideGrid) : allocations.size());
  for (size_t map = 0; map < maps.size() && allocations.size() > kBlocksWithoutPreview; ++map) {
    AddPreview(subject, maps[map], map, facts["top"], columns, facts);
  }
  const auto add = [&](const std::string& name, auto value, bool delta = false) {
    std::vector<int64_t> values;
    values.reserve(blocks.size());
    for (const uint32_t i : blocks) values.push_back(value(i));
    columns.push_back(PackColumn(name, values, delta));
  };
  const auto time = [&](uint64_t event) {
    return static_cast<int64_t>(trace::TimeOf(subject.recording, event));
  };
  add(
      "birth", [&](uint32_t i) { return time(allocations[i].birth); }, true);
  // 0: never freed.
  add("lifetime", [&](uint32_t i) {
    const trace::Allocation& it = allocations[i];
    return it.death == trace::kNever ? 0 : time(it.death) - time(it.birth);
  });
  add("size", [&](uint32_t i) { return static_cast<int64_t>(allocations[i].size); });
  for (size_t map = 0; map < maps.size(); ++map) {
    add(absl::StrCat("offset-", map), [&](uint32_t i) { return maps[map].offsets[i]; });
    if (sampled) AddGrid(subject, maps[map], map, columns, facts);
  }
  add("site", [&](uint32_t i) { return int64_t{sites.Of(allocations[i].site)}; });
  add("thread", [&](uint32_t i) { return int64_t{allocations[i].thread}; });
  if (subject.is_instance) {  // a line for each block
    std::string names;
    for (const uint32_t i : blocks) {
      absl::StrAppend(&names, base::Printable(subject.recording.buffer_names[allocations[i].site]),
                      "\n");
    }
    columns.push_back(PackBytes("names", names));
  }
  if (sampled) facts["sampled"] = blocks.size();
  return columns;
}

}  // namespace reprise::report
