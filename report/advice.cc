// The parts of a report that say what to do: who holds the memory, what if, lanes.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "replay/compare/fragmentation_holders.h"
#include "replay/plan/plan_file.h"
#include "report/facts.h"
#include "trace/reader.h"
#include "trace/what_if.h"

namespace reprise::report {
namespace {

using nlohmann::ordered_json;

constexpr size_t kPinningSites = 8;
constexpr size_t kHintedSites = 6;

std::string Bytes(int64_t bytes) { return base::HumanBytes(static_cast<double>(bytes)); }

ordered_json PinFacts(const Subject& subject, const SiteTable& sites,
                      const std::vector<SiteName>& names, const HeapMap& map) {
  const bool plan = map.is_plan();
  ordered_json json = {{"map", map.name}, {"sites", ordered_json::array()}};
  if (!IsWasteful(map.footprint(), subject.statistics.max_load)) return json;
  const replay::Pins pins = replay::FindPins(subject.recording, map.offsets,
                                             plan ? nullptr : &map.returned, 0, subject.alignment);
  if (pins.held_bytes == pins.live_bytes) return json;
  const double share =
      100.0 * static_cast<double>(pins.live_bytes) / static_cast<double>(pins.held_bytes);
  json["when"] =
      absl::StrCat(subject.is_instance ? "time " : "event ",
                   subject.recording.first_instant +
                       static_cast<int64_t>(trace::TimeOf(subject.recording, pins.event)));
  json["what"] = absl::StrFormat(
      "At %s %s although there was free memory: %s were held, of which %s (%.0f %%) were "
      "live. In between lay %s, the largest of %s. These blocks kept them apart:",
      json["when"].get<std::string>(), plan ? "the plan reached higher" : "new pages were taken",
      Bytes(pins.held_bytes), Bytes(pins.live_bytes), share,
      base::Counted(pins.holes, "free range"), Bytes(pins.largest_hole));
  for (const replay::PinnedBySite& it : pins.sites) {
    if (json["sites"].size() == kPinningSites) break;
    std::string threads;
    for (const uint32_t thread : it.threads) {
      absl::StrAppend(&threads, threads.empty() ? "" : ", ",
                      thread == 0 ? "main" : absl::StrCat(thread));
    }
    json["sites"].push_back({{"label", names[sites.Of(it.site)].label},
                             {"hostage_bytes", it.hostage_bytes},
                             {"bytes", it.bytes},
                             {"blocks", it.blocks},
                             {"threads", threads},
                             {"oldest_age", it.oldest_age}});
  }
  return json;
}

}  // namespace

void AddAdvice(const Subject& subject, const SiteTable& sites, const std::vector<SiteName>& names,
               const std::vector<HeapMap>& maps, ordered_json& facts) {
  facts["pins"] = ordered_json::array();
  for (const HeapMap& map : maps) {
    ordered_json pins = PinFacts(subject, sites, names, map);
    if (!pins["sites"].empty()) facts["pins"].push_back(std::move(pins));
  }
  std::vector<uint32_t> asked;
  for (const SiteTable::Row& row : sites.rows) {
    if (row.site != trace::kNone && row.peak_bytes > 0) asked.push_back(row.site);
    if (asked.size() == kHintedSites) break;
  }
  facts["hints"] = ordered_json::array();
  if (asked.empty() || subject.is_instance) return;  // buffers have no pools, nor threads
  trace::WhatIfBuilder builder(subject.recording, asked);
  trace::ForEachEvent(subject.recording, [&](const trace::Event& event) { builder.Add(event); });
  for (const trace::WhatIf& it : builder.Finish()) {
    facts["hints"].push_back({{"label", names[sites.Of(it.site)].label},
                              {"peak_bytes", it.peak_bytes},
                              {"freed_at_once", it.freed_at_once},
                              {"pooled", it.pooled},
                              {"own_lane", it.own_lane}});
  }
}

absl::StatusOr<ordered_json> LaneFacts(const Subject& subject, const std::string& path) {
  ordered_json lanes = ordered_json::array();
  if (subject.is_instance) return lanes;
  const absl::StatusOr<replay::PlanFile> plan =
      replay::PlanFile::Read(replay::PlanFor(path, subject.path));
  if (!plan.ok()) return plan.status();
  const trace::Recording& recording = subject.recording;
  // What each thread's blocks need at one time, whoever frees them.
  std::vector<int64_t> load(recording.threads.size()), most(recording.threads.size());
  std::vector<uint64_t> blocks(recording.threads.size());
  trace::ForEachEvent(recording, [&](const trace::Event& event) {
    const bool birth = event.kind == trace::EventKind::kAllocate;
    if (!birth && event.kind != trace::EventKind::kFree &&
        event.kind != trace::EventKind::kImpliedFree) {
      return;
    }
    const uint32_t thread = recording.allocations[event.block].thread;
    const auto bytes = static_cast<int64_t>(trace::BlockBytes(event.size));
    load[thread] += birth ? bytes : -bytes;
    most[thread] = std::max(most[thread], load[thread]);
    blocks[thread] += birth;
  });
  const auto* table = plan->table<replay::PlanLane>(plan->header().lanes);
  for (uint64_t i = 0; i < plan->header().lanes.count; ++i) {
    const replay::PlanLane& lane = table[i];
    ordered_json one = {{"box_offset", lane.box_offset}, {"box_bytes", lane.box_bytes}};
    if (lane.path == 0) {
      one.update(ordered_json{{"thread", "all threads in one"},
                              {"blocks", subject.statistics.buffers},
                              {"max_load", subject.statistics.max_load},
                              {"first_event", 0},
                              {"end_event", recording.events}});
    }
    for (size_t thread = 0; thread < recording.threads.size(); ++thread) {
      const trace::Thread& it = recording.threads[thread];
      if (lane.path == 0 || it.path != lane.path) continue;
      one["thread"] = ThreadName(recording, thread);
      one["blocks"] = blocks[thread];
      one["max_load"] = most[thread];
      one["first_event"] = it.first_event;
      one["end_event"] = it.end_event;
      break;
    }
    if (one.contains("thread")) lanes.push_back(std::move(one));
  }
  std::stable_sort(lanes.begin(), lanes.end(), [](const ordered_json& a, const ordered_json& b) {
    return a["box_bytes"].get<uint64_t>() > b["box_bytes"].get<uint64_t>();
  });
  return lanes;
}

}  // namespace reprise::report
