#include "report/measured_facts.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "replay/plan/plan_format.h"
#include "report/measured_json.h"

namespace reprise::report {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json MeasuredContenders(const json& comparison) {
  ordered_json contenders = ordered_json::array();
  for (const json& it : comparison.at("results")) {
    // As compare's table: the process of a placement also holds the table of its offsets.
    const bool placed = it.at("allocator") == "plan" || it.at("allocator") == "heap";
    ordered_json one = {{"label", it.at("allocator")},
                        {"plan", it.at("allocator") == "plan"},
                        {"version", it.value("version", "")},
                        {"footprint", it.at("footprint")},
                        {"requested", it.value("requested_at_peak", int64_t{-1})},
                        {"peak_rss", placed ? json() : it.value("peak_rss_absolute", json())},
                        {"page_faults", it.value("page_faults", json())},
                        {"ns", it.value("nanoseconds_per_operation", json())}};
    if (it.value("waits", int64_t{0}) > 0) one["waits"] = it.at("waits");
    if (it.contains("internal_fragmentation") && it.contains("external_fragmentation")) {
      one["internal"] = it.at("internal_fragmentation");
      one["external"] = it.at("external_fragmentation");
    }
    contenders.push_back(std::move(one));
  }
  return contenders;
}

ordered_json MeasuredSeries(const json& comparison) {
  ordered_json all = ordered_json::array();
  for (const json& it : comparison.at("results")) {
    const auto series = it.find("series");
    if (series == it.end()) continue;
    all.push_back({{"label", absl::StrCat(it.at("allocator").get<std::string>(), " RSS")},
                   {"events", series->at("events")},
                   {"values", series->at("rss")}});
  }
  return all;
}

namespace {

// What a lane expected where it first differed, and what came; the shape holds the size in units of
// 8 bytes (replay/plan/plan_format.h).
std::string Difference(const json& lane) {
  const auto bytes = [&](const char* side) {
    const uint64_t shape = lane.value(side, json::object()).value("shape", uint64_t{0});
    return replay::ShapeUnits(shape) * 8;
  };
  const uint64_t expected = bytes("expected"), seen = bytes("seen");
  if (expected == 0 || seen == 0) return "";
  if (expected == seen) {
    return absl::StrCat(": a request of up to ", seen, " bytes came from another call site");
  }
  return absl::StrCat(": expected a request of up to ", expected, " bytes, came one of ", seen);
}

// What is said of the subject's own process in the statistics of a run of several; all of them when
// it cannot be told which that is.
const json& OwnPart(const json& replay, const std::string& executable) {
  const json& images = replay.at("images");
  if (images.size() < 2) return replay;
  const json* own = nullptr;
  for (const json& image : images) {
    if (image.value("executable", "") != executable) continue;
    if (own != nullptr) return replay;
    own = &image;
  }
  return own != nullptr ? *own : replay;
}

}  // namespace

ordered_json ReplayFacts(const json& statistics, const std::string& executable) {
  const json& replay = OwnPart(statistics, executable);
  const auto number = [&](const char* name) {
    return replay.contains(name) && replay[name].is_number() ? replay[name].get<double>() : 0.0;
  };
  const double all = number("allocations");
  const double planned = number("served") - number("improvised");
  std::string text;
  if (all == 0) {
    text = "Nothing was replayed.";
  } else if (planned >= all) {
    text = "The run followed its plan to the end: every block went where the plan put it.";
  } else {
    text = absl::StrFormat(
        "The run left its plan: %.3f %% of the allocations went to a place that the plan has for "
        "such a request, %.3f %% elsewhere in the arena, where nothing was live, and %.3f %% to "
        "the "
        "fallback.",
        100 * planned / all, 100 * number("improvised") / all, 100 * number("fallback") / all);
    size_t lane_number = 0;
    for (const json& image : replay.value("images", json::array({replay}))) {
      for (const json& lane : image.value("lanes", json::array())) {
        // As `replay` says it: a number of the lane's allocations, where that is known.
        const auto at =
            lane.value("diverged_at_allocation", lane.value("diverged_at", uint64_t{0}));
        if (at > 0 && lane.value("unmatched", uint64_t{0}) > 0) {
          absl::StrAppend(&text, " Lane ", lane_number, " first differed at its allocation ", at,
                          Difference(lane), ".");
        }
        ++lane_number;
      }
      if (lane_number > 8) break;
    }
  }
  ordered_json counters = ordered_json::object();
  for (const base::JsonField& field : ReplayCounters()) {
    const auto value = replay.find(std::string(field.name));
    if (value != replay.end() && value->is_number()) counters[std::string(field.name)] = *value;
  }
  return {{"explanation", text}, {"counters", counters}};
}

}  // namespace reprise::report
