#include "cli/replay_counts.h"

#include <cstring>

#include "absl/strings/str_format.h"

namespace reprise::cli {

using interpose::ImageEntry;
using nlohmann::ordered_json;
using replay::LaneCounters;

ordered_json ReplayTotals::Json() const {
  return {{"allocations", allocations()},
          {"served", served()},
          {"served_percent", served_percent()},
          {"planned", planned},
          {"improvised", improvised},
          {"fallback", fallback},
          {"blocked", blocked},
          {"unmatched", unmatched},
          {"invalid_frees", invalid_frees},
          {"lanes_moved", 0},  // each lane has addresses of its own
          {"reallocs", reallocs},
          {"reallocs_in_place", reallocs_in_place},
          {"iterations", iterations},
          {"held_bytes", held_bytes},
          {"arena_bytes", held_bytes},
          {"table_bytes", table_bytes},
          {"peak_rss", peak_rss},
          {"address_hash", absl::StrFormat("%016x", address_hash)},
          {"fallback_hash", absl::StrFormat("%016x", fallback_hash)}};
}

std::vector<LaneCounters> CountersOf(const std::string& bytes, const replay::PlanHeader& plan) {
  std::vector<LaneCounters> counters(std::min<size_t>(plan.lanes.count + replay::kOtherCounters,
                                                      bytes.size() / sizeof(LaneCounters)));
  std::memcpy(static_cast<void*>(counters.data()), bytes.data(),
              counters.size() * sizeof(LaneCounters));
  for (size_t i = plan.lanes.count + 1; i < counters.size(); ++i) {
    LaneCounters& other = counters[plan.lanes.count];
    other.heap.allocations += counters[i].heap.allocations;
    other.heap.addresses += counters[i].heap.addresses;
  }
  if (counters.size() > plan.lanes.count) counters.resize(plan.lanes.count + 1);
  return counters;
}

std::vector<replay::Served> ServedBy(const std::vector<LaneCounters>& counters,
                                     const replay::PlanFile* plan) {
  std::vector<replay::Served> served;
  for (size_t i = 0; i < counters.size(); ++i) {
    if (plan == nullptr || i >= plan->header().lanes.count) {
      served.push_back({});
      continue;
    }
    const auto& lane = plan->table<replay::PlanLane>(plan->header().lanes)[i];
    const auto* words = plan->table<uint32_t>(plan->header().words) + lane.first_word;
    const auto* loops = plan->table<replay::PlanLoop>(plan->header().loops) + lane.first_loop;
    served.push_back(replay::ServedBy(lane, words, loops, counters[i]));
  }
  return served;
}

ReplayTotals TotalsOf(const ImageEntry& image, const std::vector<LaneCounters>& counters,
                      const std::vector<replay::Served>& served, const replay::PlanHeader& plan) {
  constexpr uint64_t kPage = 4096;
  ReplayTotals totals;
  for (size_t i = 0; i < counters.size(); ++i) {
    const LaneCounters& lane = counters[i];
    totals.planned += served[i].planned;
    totals.iterations += served[i].iterations;
    totals.improvised += lane.heap.allocations;
    totals.fallback += lane.fallback;
    totals.blocked += lane.blocked;
    totals.unmatched += lane.unmatched;
    totals.invalid_frees += lane.invalid_frees;
    totals.reallocs += lane.reallocs;
    totals.reallocs_in_place += lane.reallocs_in_place;
    totals.address_hash = totals.address_hash * 31 + served[i].address_hash;
    totals.fallback_hash = totals.fallback_hash * 31 +
                           replay::MixAddress(0, lane.heap.addresses + lane.fallback_addresses);
  }
  totals.peak_rss = image.peak_rss;
  if (counters.size() > plan.lanes.count) {
    totals.held_bytes = counters[plan.lanes.count].most_held * kPage;
  }
  totals.table_bytes = plan.file_bytes;
  return totals;
}

uint64_t RecordedOf(const replay::PlanFile& plan) {
  uint64_t recorded = 0;
  for (uint64_t i = 0; i < plan.header().lanes.count; ++i) {
    const auto& lane = plan.table<replay::PlanLane>(plan.header().lanes)[i];
    if (lane.box_bytes == 0) continue;
    recorded += lane.blocks;
    const auto* loops = plan.table<replay::PlanLoop>(plan.header().loops) + lane.first_loop;
    for (uint32_t loop = 0; loop < lane.loops; ++loop) {
      recorded += uint64_t{loops[loop].blocks} * (loops[loop].passes - 1);
    }
  }
  return recorded;
}

uint64_t BoxlessOf(const std::vector<LaneCounters>& counters, const replay::PlanFile* plan) {
  uint64_t boxless = 0;
  for (size_t i = 0; plan != nullptr && i + 1 < counters.size(); ++i) {
    const auto& lane = plan->table<replay::PlanLane>(plan->header().lanes)[i];
    if (lane.box_bytes == 0) boxless += counters[i].heap.allocations;
  }
  return boxless;
}

ordered_json LaneDetails(const std::vector<LaneCounters>& counters,
                         const std::vector<replay::Served>& served) {
  constexpr size_t kMostLanes = 256;
  ordered_json lanes = ordered_json::array();
  for (size_t i = 0; i < std::min(kMostLanes, counters.size()); ++i) {
    const LaneCounters& lane = counters[i];
    lanes.push_back({{"served", served[i].planned + lane.heap.allocations},
                     {"planned", served[i].planned},
                     {"improvised", lane.heap.allocations},
                     {"fallback", lane.fallback},
                     {"blocked", lane.blocked},
                     {"unmatched", lane.unmatched},
                     {"diverged_at", lane.diverged_at},
                     {"expected", {{"shape", lane.expected_shape}, {"site", lane.expected_site}}},
                     {"seen", {{"shape", lane.seen_shape}, {"site", lane.seen_site}}}});
  }
  return lanes;
}

}  // namespace reprise::cli
