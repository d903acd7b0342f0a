#include "report/measured_json.h"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/text.h"
#include "trace/mapped_file.h"

namespace reprise::report {
namespace {

using base::CheckJsonFields;
using base::JsonField;
using base::JsonKind;

using nlohmann::json;

constexpr std::string_view kComparisonIs = "what `reprise compare --json` prints";
constexpr std::string_view kStatisticsAre = "what `reprise replay --stats` writes";

// Of a comparison: cli/compare_table.cc.
constexpr JsonField kSeries[] = {{"events", JsonKind::kNumbers, true},
                                 {"rss", JsonKind::kNumbers, true},
                                 {"footprint", JsonKind::kNumbers},
                                 {"usable", JsonKind::kNumbers}};
constexpr JsonField kResult[] = {{"allocator", JsonKind::kText, true},
                                 {"version", JsonKind::kText},
                                 {"library", JsonKind::kText},
                                 {"peak_rss"},
                                 {"peak_rss_absolute"},
                                 {"footprint", JsonKind::kNumber, true},
                                 {"address_span"},
                                 {"fragmentation"},
                                 {"fragmentation_percent"},
                                 {"total_fragmentation"},
                                 {"total_fragmentation_percent"},
                                 {"seconds"},
                                 {"cpu_seconds"},
                                 {"wall_seconds"},
                                 {"wait_seconds"},
                                 {"waits", JsonKind::kBytes},
                                 {"page_faults"},
                                 {"operations"},
                                 {"nanoseconds_per_operation"},
                                 {"failures"},
                                 {"threads"},
                                 {"threads_shared"},
                                 {"runs"},
                                 {"seconds_range", JsonKind::kNumbers},
                                 {"peak_rss_range", JsonKind::kNumbers},
                                 {"requested_at_peak", JsonKind::kBytes},
                                 {"internal_fragmentation"},
                                 {"external_fragmentation"},
                                 {"provenance", JsonKind::kAny},
                                 {"pins", JsonKind::kAny},
                                 {"series", JsonKind::kObject, false, kSeries}};
constexpr JsonField kImageComparison[] = {
    {"trace", JsonKind::kText},  {"max_load"},
    {"requested_max_load"},      {"results", JsonKind::kObjects, true, kResult},
    {"what_if", JsonKind::kAny}, {"live", JsonKind::kAny}};
constexpr JsonField kComparison[] = {{"trace", JsonKind::kText},
                                     {"max_load"},
                                     {"requested_max_load"},
                                     {"results", JsonKind::kObjects, true, kResult},
                                     {"what_if", JsonKind::kAny},
                                     {"live", JsonKind::kAny},
                                     {"skipped", JsonKind::kAny},
                                     {"failed", JsonKind::kAny},
                                     {"images", JsonKind::kObjects, false, kImageComparison}};

// Of statistics: cli/replay.cc, cli/replay_findings.cc.
constexpr JsonField kRequest[] = {
    {"where", JsonKind::kText}, {"shape", JsonKind::kCount}, {"site", JsonKind::kCount}};
constexpr JsonField kLane[] = {{"served"},
                               {"improvised"},
                               {"planned"},
                               {"fallback"},
                               {"blocked"},
                               {"unmatched", JsonKind::kCount},
                               {"diverged_at", JsonKind::kCount},
                               {"expected", JsonKind::kObject, false, kRequest},
                               {"seen", JsonKind::kObject, false, kRequest},
                               {"thread", JsonKind::kHexadecimal},
                               {"diverged_at_allocation"},
                               {"blocked_by_unnamed"},
                               {"off_plan_at_allocation"}};
constexpr JsonField kMissedSite[] = {{"thread", JsonKind::kHexadecimal, true},
                                     {"where", JsonKind::kText},
                                     {"bytes"},
                                     {"shape", JsonKind::kCount, true},
                                     {"offset", JsonKind::kCount, true},
                                     {"depth", JsonKind::kCount, true},
                                     {"module", JsonKind::kCount},
                                     {"unexpected"},
                                     {"blocked", JsonKind::kCount, true},
                                     {"in_the_way", JsonKind::kText},
                                     {"off_plan", JsonKind::kFlag, true}};
constexpr JsonField kBlocker[] = {{"thread", JsonKind::kHexadecimal, true},
                                  {"allocation", JsonKind::kCount, true},
                                  {"where", JsonKind::kText},
                                  {"bytes"},
                                  {"shape", JsonKind::kCount, true},
                                  {"offset", JsonKind::kCount},
                                  {"depth", JsonKind::kCount},
                                  {"module", JsonKind::kCount},
                                  {"blocked"},
                                  {"freed_before_allocation", JsonKind::kCountOrNull, true}};
constexpr JsonField kRecording[] = {{"events", JsonKind::kCount, true},
                                    {"hash", JsonKind::kHexadecimal, true}};
constexpr JsonField kTotals[] = {{"allocations"},
                                 {"served", JsonKind::kNumber, true},
                                 {"served_percent"},
                                 {"planned"},
                                 {"improvised"},
                                 {"fallback"},
                                 {"blocked"},
                                 {"unmatched"},
                                 {"invalid_frees"},
                                 {"lanes_moved"},
                                 {"reallocs"},
                                 {"reallocs_in_place"},
                                 {"iterations"},
                                 {"held_bytes"},
                                 {"arena_bytes"},
                                 {"table_bytes"},
                                 {"peak_rss"},
                                 {"address_hash", JsonKind::kText},
                                 {"fallback_hash", JsonKind::kText}};
constexpr JsonField kOnlyImages[] = {{"executable", JsonKind::kText},
                                     {"place", JsonKind::kText},
                                     {"recording", JsonKind::kObject, true, kRecording},
                                     {"lanes", JsonKind::kObjects, true, kLane},
                                     {"missed_sites", JsonKind::kObjects, true, kMissedSite},
                                     {"blockers", JsonKind::kObjects, true, kBlocker}};

std::vector<JsonField> TotalsAnd(std::span<const JsonField> more) {
  std::vector<JsonField> fields(std::begin(kTotals), std::end(kTotals));
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

absl::StatusOr<json> Parse(std::string_view text, const std::string& name,
                           std::span<const JsonField> fields, std::string_view what,
                           base::UnknownNames& unknown) {
  json document;
  const std::string wrong = base::ParseJson(text, document);
  if (!wrong.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected ", std::string(what), ": ", wrong));
  }
  const std::string_view found = base::OwnJson(document);
  if (!found.empty() && found != what) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected ", std::string(what), ", found ", std::string(found)));
  }
  absl::Status status = CheckJsonFields(document, fields, name, "", what, unknown);
  if (!status.ok()) return status;
  return document;
}

// Curves have a value for each event.
absl::Status CheckSeries(const json& comparison, const std::string& name,
                         const std::string& where) {
  const json& results = comparison["results"];
  for (size_t i = 0; i < results.size(); ++i) {
    const auto series = results[i].find("series");
    if (series == results[i].end()) continue;
    if ((*series)["events"].size() == (*series)["rss"].size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", where, "results[", i, "].series: expected as many values in rss as ",
        "in events, found ", (*series)["rss"].size(), " and ", (*series)["events"].size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const absl::StatusOr<trace::MappedFile> file = trace::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto bytes = file->bytes();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (absl::Status whole = file->Whole(path); !whole.ok()) return whole;
  return text;
}

absl::StatusOr<json> ParseComparison(std::string_view text, const std::string& name,
                                     const std::string& trace_name, base::UnknownNames& unknown) {
  absl::StatusOr<json> document = Parse(text, name, kComparison, kComparisonIs, unknown);
  if (!document.ok()) return document;
  absl::Status status = CheckSeries(*document, name, "");
  if (!status.ok()) return status;
  const auto images = document->find("images");
  if (images == document->end()) return document;
  for (size_t i = 0; i < images->size(); ++i) {
    json& image = (*images)[i];
    if (base::FileName(image.value("trace", "")) != trace_name) continue;
    status = CheckSeries(image, name, absl::StrCat("images[", i, "]."));
    if (!status.ok()) return status;
    return json(std::move(image));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": images: expected one of the trace ", trace_name, ", found none"));
}

std::span<const JsonField> ReplayCounters() { return kTotals; }

absl::StatusOr<json> ParseReplayStatistics(std::string_view text, const std::string& name,
                                           base::UnknownNames& unknown) {
  const std::vector<JsonField> image = TotalsAnd(kOnlyImages);
  const JsonField more[] = {{"images_without_plan"},
                            {"runs", JsonKind::kAny},
                            {"images", JsonKind::kObjects, true, image}};
  return Parse(text, name, TotalsAnd(more), kStatisticsAre, unknown);
}

}  // namespace reprise::report
