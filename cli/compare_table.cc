#include "cli/compare_table.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "trace/call_sites.h"
#include "trace/reader.h"
#include "trace/statistics.h"
#include "trace/symbols.h"
#include "trace/what_if.h"

namespace reprise::cli {
namespace {

using nlohmann::ordered_json;
using replay::Measurement;

// The fields of a measurement that vary from run to run, and add up over process images.
constexpr int64_t Measurement::*kCounts[] = {
    &Measurement::peak_rss,     &Measurement::peak_rss_absolute, &Measurement::footprint,
    &Measurement::address_span, &Measurement::fragmentation,     &Measurement::waits,
    &Measurement::page_faults,  &Measurement::operations,        &Measurement::failures,
    &Measurement::threads,      &Measurement::threads_shared};
constexpr double Measurement::*kTimes[] = {&Measurement::seconds, &Measurement::cpu_seconds,
                                           &Measurement::wall_seconds, &Measurement::wait_seconds};

std::string Bytes(int64_t value) { return HumanBytes(static_cast<double>(value)); }

// An allocator with its version.
std::string NameOf(const Measurement& it) {
  return absl::StrCat(it.allocator, it.version.empty() ? "" : " ", it.version);
}

// Whether its blocks lie where a table says: no allocator was measured.
bool IsPlaced(const Measurement& it) { return it.allocator == "plan" || it.allocator == "heap"; }

template <typename Number>
Number Median(std::vector<Number> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  const Number upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  const Number lower =
      *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle));
  return (lower + upper) / 2;
}

double NanosecondsPerOperation(const Measurement& it) {
  return it.operations > 0 ? 1e9 * it.seconds / static_cast<double>(it.operations) : 0.0;
}

ordered_json SeriesOf(const replay::Observation& seen) {
  ordered_json series = {
      {"events", seen.events}, {"rss", seen.resident}, {"footprint", seen.footprint}};
  const bool known =
      std::all_of(seen.usable.begin(), seen.usable.end(), [](int64_t it) { return it >= 0; });
  if (known) series["usable"] = seen.usable;
  return series;
}

// What was requested when the load was at its maximum; `otherwise`: when nobody looked on.
int64_t RequestedAtPeak(const Measurement& it, int64_t otherwise) {
  return it.requested_at_peak >= 0 ? it.requested_at_peak : otherwise;
}

// Internal and external together: what of the footprint the program did not request.
int64_t TotalFragmentation(const Measurement& it, int64_t requested) {
  return it.footprint - RequestedAtPeak(it, requested);
}

double TotalPercent(const Measurement& it, int64_t requested) {
  const int64_t base = RequestedAtPeak(it, requested);
  if (base == 0) return 0;
  return 100.0 * static_cast<double>(TotalFragmentation(it, requested)) / static_cast<double>(base);
}

// `requested`: the requested max load of the recording.
ordered_json ToJson(const Result& result, int64_t requested) {
  const Measurement& it = result.median;
  ordered_json json = {{"allocator", it.allocator},
                       {"version", it.version},
                       {"library", it.object},
                       {"peak_rss", it.peak_rss},
                       {"peak_rss_absolute", it.peak_rss_absolute},
                       {"footprint", it.footprint},
                       {"address_span", it.address_span},
                       {"fragmentation", it.fragmentation},
                       {"fragmentation_percent", it.fragmentation_percent},
                       {"total_fragmentation", TotalFragmentation(it, requested)},
                       {"total_fragmentation_percent", TotalPercent(it, requested)},
                       {"seconds", it.seconds},
                       {"cpu_seconds", it.cpu_seconds},
                       {"wall_seconds", it.wall_seconds},
                       {"wait_seconds", it.wait_seconds},
                       {"waits", it.waits},
                       {"page_faults", it.page_faults},
                       {"operations", it.operations},
                       {"nanoseconds_per_operation", NanosecondsPerOperation(it)},
                       {"failures", it.failures},
                       {"threads", it.threads},
                       {"threads_shared", it.threads_shared},
                       {"runs", result.runs}};
  if (result.runs > 1) {
    json["seconds_range"] = {result.least_seconds, result.most_seconds};
    json["peak_rss_range"] = {result.least_peak_rss, result.most_peak_rss};
  }
  if (it.requested_at_peak >= 0) json["requested_at_peak"] = it.requested_at_peak;
  if (it.requested_at_peak >= 0 && it.external_fragmentation != -1) {
    json["internal_fragmentation"] = it.internal_fragmentation;
    json["external_fragmentation"] = it.external_fragmentation;
  }
  json["provenance"] = ordered_json::object();
  for (const auto& [symbol, object] : it.provenance) json["provenance"][symbol] = object;
  if (!result.pins.is_null()) json["pins"] = result.pins;
  if (!result.observation.events.empty()) json["series"] = SeriesOf(result.observation);
  return json;
}

void AddTo(Result& sum, const Result& it) {
  for (const auto field : kCounts) sum.median.*field += it.median.*field;
  for (const auto field : kTimes) sum.median.*field += it.median.*field;
  sum.least_seconds += it.least_seconds;
  sum.most_seconds += it.most_seconds;
  sum.least_peak_rss += it.least_peak_rss;
  sum.most_peak_rss += it.most_peak_rss;
  sum.runs = it.runs;
}

// A line for each of `sites`; only those of one place have the same.
absl::flat_hash_map<uint32_t, std::string> SiteLines(const trace::Recording& recording,
                                                     const std::vector<uint32_t>& sites) {
  std::map<trace::SitePlace, std::vector<uint32_t>> places;
  for (const uint32_t site : sites) {
    places[site == trace::kNone ? trace::PlaceOfNone() : trace::PlaceOf(recording.sites[site])]
        .push_back(site);
  }
  trace::Symbolizer symbolizer;
  std::vector<trace::CallSiteText> texts;
  for (const auto& [place, same] : places) {
    texts.push_back(trace::DescribeCallSite(recording, same.front(), &symbolizer));
  }
  const std::vector<std::string> lines = trace::DistinctLines(texts, trace::Detail::kPlace);
  absl::flat_hash_map<uint32_t, std::string> line_of;
  size_t i = 0;
  for (const auto& [place, same] : places) {
    for (const uint32_t site : same) line_of[site] = lines[i];
    ++i;
  }
  return line_of;
}

void PrintWhatIf(const Comparison& comparison) {
  const auto bytes = [](const ordered_json& value) {
    return HumanBytes(static_cast<double>(value.get<int64_t>()));
  };
  absl::PrintF("\nthe max load, now %s, if the blocks of a call site were\n",
               HumanBytes(static_cast<double>(comparison.max_load)));
  absl::PrintF("%13s %10s %10s %10s  %s\n", "freed at once", "pooled", "in a lane", "they hold",
               "call site");
  for (const ordered_json& it : comparison.what_if) {
    absl::PrintF("%13s %10s %10s %10s  %s\n", bytes(it["freed_at_once"]), bytes(it["pooled"]),
                 bytes(it["own_lane"]), bytes(it["peak_bytes"]),
                 LastColumn(it["site"].get<std::string>(), 48));
  }
}

// The sites that hold most.
void PrintHolders(const Result& result) {
  constexpr size_t kMostSites = 5;
  const ordered_json& pins = result.pins;
  const int64_t held = pins["held_bytes"].get<int64_t>(), live = pins["live_bytes"].get<int64_t>();
  absl::PrintF("\n%s held most at event %d: %s", result.median.allocator,
               pins["event"].get<uint64_t>(), Bytes(held));
  if (held == live) return absl::PrintF(", all of it live\n"), void();
  absl::PrintF(", %s more than live, in %s\n", Bytes(held - live),
               Counted(pins["holes"].get<uint64_t>(), "gap"));
  absl::PrintF("  %10s %10s %7s  %s\n", "held back", "by", "blocks", "allocated by");
  size_t shown = 0;
  for (const ordered_json& it : pins["sites"]) {
    if (shown++ == kMostSites) break;
    absl::PrintF("  %10s %10s %7d  %s\n", Bytes(it["hostage_bytes"].get<int64_t>()),
                 Bytes(it["bytes"].get<int64_t>()), it["blocks"].get<int64_t>(),
                 LastColumn(it["site"].get<std::string>(), 33));
  }
}

// The most that any contender held for nothing.
int64_t MostHeldBack(const Comparison& comparison) {
  int64_t most = 0;
  for (const Result& it : comparison.results) {
    if (it.pins.is_null()) continue;
    most =
        std::max(most, it.pins["held_bytes"].get<int64_t>() - it.pins["live_bytes"].get<int64_t>());
  }
  return most;
}

void PrintRow(const Result& result, size_t width, int64_t requested) {
  const Measurement& it = result.median;
  const bool known = it.external_fragmentation != -1;
  // The process of a plan also holds the table of its offsets.
  absl::PrintF("%-*s %10s", static_cast<int>(width), NameOf(it),
               IsPlaced(it) ? "-" : Bytes(it.peak_rss_absolute));
  if (it.allocator == "nothing") {
    absl::PrintF(" %10s %13s %10s %10s", "-", "-", "-", "-");
  } else {
    absl::PrintF(" %10s %11.1f %% %10s %10s", Bytes(it.footprint), TotalPercent(it, requested),
                 known ? Bytes(it.internal_fragmentation) : "-",
                 known ? Bytes(it.external_fragmentation) : "-");
  }
  // Of the heap the search for places is not measured.
  absl::PrintF(" %7s\n", it.allocator == "heap" ? "-" : absl::StrFormat("%5.3f s", it.seconds));
}

void PrintRuns(const Comparison& comparison) {
  int64_t most_runs = 1;
  for (const Result& it : comparison.results) most_runs = std::max(most_runs, it.runs);
  if (most_runs == 1) return;
  absl::PrintF("medians of %d runs, interleaved; time of the fastest and the slowest:\n",
               most_runs);
  for (const Result& it : comparison.results) {
    if (it.median.allocator == "heap") continue;
    absl::PrintF("  %-14s %.3f - %.3f s\n", it.median.allocator, it.least_seconds, it.most_seconds);
  }
}

// Who needed least of `field`, and how much more the others did. What is within 3 % is noise.
void PrintLeast(const char* what, std::vector<const Measurement*> ranking,
                int64_t Measurement::*field) {
  if (ranking.size() < 2) return;
  std::stable_sort(ranking.begin(), ranking.end(),
                   [field](const auto* a, const auto* b) { return a->*field < b->*field; });
  const auto least = static_cast<double>(ranking.front()->*field);
  std::string best;
  std::vector<std::string> others;
  for (const Measurement* it : ranking) {
    const double more = least > 0 ? 100 * (static_cast<double>(it->*field) / least - 1) : 0;
    if (more < 3) {
      absl::StrAppend(&best, best.empty() ? "" : " and ", it->allocator);
    } else {
      others.push_back(absl::StrFormat("%s +%.0f %%", it->allocator, more));
    }
  }
  if (others.size() > 3) others = {"next " + others.front(), "most " + others.back()};
  absl::PrintF("%s: %s, %s%s%s\n", what, best, Bytes(ranking.front()->*field),
               others.empty() ? "" : "; ", absl::StrJoin(others, ", "));
}

void PrintVerdict(const Comparison& comparison) {
  std::vector<const Measurement*> allocators, all;
  for (const Result& it : comparison.results) {
    if (it.median.allocator == "nothing") continue;
    if (!IsPlaced(it.median)) allocators.push_back(&it.median);
    all.push_back(&it.median);
  }
  if (all.size() < 2) return;
  absl::PrintF("\n");
  PrintLeast("least peak RSS", allocators, &Measurement::peak_rss_absolute);
  PrintLeast("least footprint", all, &Measurement::footprint);
  absl::PrintF(
      "That is a process that makes these calls only. To choose an allocator, measure\n"
      "the program itself: reprise compare --live -- PROGRAM ARGUMENTS\n");
}

}  // namespace

ordered_json DescribePins(const trace::Recording& recording, const replay::Pins& pins) {
  constexpr size_t kMostSites = 20;
  std::vector<uint32_t> sites;
  for (const replay::PinnedBySite& it : pins.sites) {
    if (sites.size() < kMostSites) sites.push_back(it.site);
  }
  for (const replay::Pin& it : pins.blocks) {
    sites.push_back(recording.allocations[it.allocation].site);
  }
  const absl::flat_hash_map<uint32_t, std::string> lines = SiteLines(recording, std::move(sites));
  ordered_json json = {{"event", pins.event},
                       {"held_bytes", pins.held_bytes},
                       {"live_bytes", pins.live_bytes},
                       {"holes", pins.holes},
                       {"largest_hole", pins.largest_hole}};
  json["sites"] = ordered_json::array();
  for (const replay::PinnedBySite& it : pins.sites) {
    if (json["sites"].size() == kMostSites) break;
    json["sites"].push_back({{"site", lines.at(it.site)},
                             {"hostage_bytes", it.hostage_bytes},
                             {"bytes", it.bytes},
                             {"blocks", it.blocks},
                             {"threads", it.threads},
                             {"oldest_age", it.oldest_age}});
  }
  json["blocks"] = ordered_json::array();
  for (const replay::Pin& it : pins.blocks) {
    const trace::Allocation& block = recording.allocations[it.allocation];
    json["blocks"].push_back({{"block", it.allocation},
                              {"hostage_bytes", it.hostage_bytes},
                              {"size", block.size},
                              {"site", lines.at(block.site)},
                              {"thread", block.thread},
                              {"age", pins.event - block.birth}});
  }
  return json;
}

ordered_json DescribeWhatIf(const trace::Recording& recording) {
  constexpr size_t kMostSites = 10;
  std::vector<uint32_t> sites;
  for (const trace::SitePeak& it : trace::ComputeStatistics(recording, kMostSites).top_sites) {
    sites.push_back(it.site);
  }
  trace::WhatIfBuilder builder(recording, sites);
  trace::ForEachEvent(recording, [&](const trace::Event& event) { builder.Add(event); });
  ordered_json json = ordered_json::array();
  const absl::flat_hash_map<uint32_t, std::string> lines = SiteLines(recording, sites);
  for (const trace::WhatIf& it : builder.Finish()) {
    json.push_back({{"site", lines.at(it.site)},
                    {"peak_bytes", it.peak_bytes},
                    {"freed_at_once", it.freed_at_once},
                    {"pooled", it.pooled},
                    {"own_lane", it.own_lane}});
  }
  return json;
}

Result Summarize(const std::vector<Measurement>& runs) {
  Result result;
  result.median = runs.front();
  result.runs = static_cast<int64_t>(runs.size());
  for (const auto field : kCounts) {
    std::vector<int64_t> values;
    for (const Measurement& run : runs) values.push_back(run.*field);
    result.median.*field = Median(std::move(values));
  }
  for (const auto field : kTimes) {
    std::vector<double> values;
    for (const Measurement& run : runs) values.push_back(run.*field);
    result.median.*field = Median(std::move(values));
  }
  const auto by_seconds = [](const auto& a, const auto& b) { return a.seconds < b.seconds; };
  const auto by_rss = [](const auto& a, const auto& b) { return a.peak_rss < b.peak_rss; };
  const auto [fast, slow] = std::minmax_element(runs.begin(), runs.end(), by_seconds);
  const auto [small, large] = std::minmax_element(runs.begin(), runs.end(), by_rss);
  result.least_seconds = fast->seconds;
  result.most_seconds = slow->seconds;
  result.least_peak_rss = small->peak_rss;
  result.most_peak_rss = large->peak_rss;
  return result;
}

Comparison Sum(const std::vector<Comparison>& images) {
  if (images.size() == 1) return images.front();
  Comparison sum;
  for (const Comparison& image : images) {
    sum.max_load += image.max_load;
    sum.requested_max_load += image.requested_max_load;
  }
  for (const Result& first : images.front().results) {
    Result total;
    total.median = {.allocator = first.median.allocator,
                    .version = first.median.version,
                    .object = first.median.object,
                    .provenance = first.median.provenance};
    size_t found = 0;
    bool decomposed = true;
    int64_t requested = 0, internal = 0, external = 0;
    for (const Comparison& image : images) {
      for (const Result& result : image.results) {
        if (result.median.allocator != first.median.allocator) continue;
        AddTo(total, result);
        decomposed &= result.median.external_fragmentation != -1;
        requested += result.median.requested_at_peak;
        internal += result.median.internal_fragmentation;
        external += result.median.external_fragmentation;
        ++found;
      }
    }
    if (found != images.size()) continue;
    if (decomposed) {
      total.median.requested_at_peak = requested;
      total.median.internal_fragmentation = internal;
      total.median.external_fragmentation = external;
    }
    if (sum.max_load > 0) {
      total.median.fragmentation_percent = 100.0 * static_cast<double>(total.median.fragmentation) /
                                           static_cast<double>(sum.max_load);
    }
    sum.results.push_back(std::move(total));
  }
  return sum;
}

ordered_json ToJson(const Comparison& comparison) {
  ordered_json json;
  if (!comparison.trace.empty()) json["trace"] = comparison.trace;
  json["max_load"] = comparison.max_load;
  json["requested_max_load"] = comparison.requested_max_load;
  json["results"] = ordered_json::array();
  for (const Result& result : comparison.results) {
    json["results"].push_back(ToJson(result, comparison.requested_max_load));
  }
  if (!comparison.what_if.is_null()) json["what_if"] = comparison.what_if;
  if (!comparison.events.empty()) {
    json["live"] = {{"events", comparison.events}, {"bytes", comparison.live}};
  }
  return json;
}

ordered_json ToJson(const std::vector<Missing>& missing) {
  ordered_json json = ordered_json::array();
  for (const Missing& it : missing) {
    json.push_back({{"allocator", it.allocator}, {"reason", std::string(it.why.message())}});
  }
  return json;
}

void PrintTable(const Comparison& comparison) {
  size_t width = 14;
  for (const Result& it : comparison.results) width = std::max(width, NameOf(it.median).size());
  absl::PrintF("max load %s", Bytes(comparison.max_load));
  if (comparison.requested_max_load != comparison.max_load) {
    absl::PrintF(" in multiples of 16 bytes, %s as requested",
                 Bytes(comparison.requested_max_load));
  }
  absl::PrintF("\n%-*s %10s %10s %13s %10s %10s %7s\n", static_cast<int>(width), "allocator",
               "peak RSS", "footprint", "fragmentation", "internal", "external", "time");
  for (const Result& it : comparison.results) {
    PrintRow(it, width, comparison.requested_max_load);
  }
  PrintRuns(comparison);
  PrintVerdict(comparison);
  if (!comparison.what_if.is_null()) PrintWhatIf(comparison);
}

void PrintPins(const std::vector<Comparison>& images) {
  constexpr size_t kMostImages = 3;
  std::vector<const Comparison*> worst;
  for (const Comparison& it : images) worst.push_back(&it);
  std::stable_sort(worst.begin(), worst.end(), [](const auto* a, const auto* b) {
    return MostHeldBack(*a) > MostHeldBack(*b);
  });
  for (size_t i = 0; i < std::min(kMostImages, worst.size()); ++i) {
    if (images.size() > 1) absl::PrintF("\n%s\n", Printable(worst[i]->trace));
    for (const Result& it : worst[i]->results) {
      if (!it.pins.is_null()) PrintHolders(it);
    }
  }
  if (images.size() <= kMostImages) return;
  absl::PrintF("\nless is held for nothing in %s: see compare FILE --pins\n",
               Counted(images.size() - kMostImages, "other image"));
}

}  // namespace reprise::cli
