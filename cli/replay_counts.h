// What the processes of a replay counted, lane by lane, and its sums.
#ifndef REPRISE_CLI_REPLAY_COUNTS_H_
#define REPRISE_CLI_REPLAY_COUNTS_H_

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/launch.h"
#include "replay/plan/counters.h"
#include "replay/plan/plan_file.h"
#include "replay/plan/replay_totals.h"

namespace reprise::cli {

// The sums of one image, or of several.
struct ReplayTotals {
  uint64_t planned = 0, improvised = 0, fallback = 0, blocked = 0, unmatched = 0, invalid_frees = 0,
           reallocs = 0, reallocs_in_place = 0, iterations = 0;
  uint64_t held_bytes = 0, table_bytes = 0, peak_rss = 0;
  uint64_t address_hash = 0, fallback_hash = 0;
  uint64_t recorded = 0;  // RecordedOf

  void Add(const ReplayTotals& other) {
    planned += other.planned;
    recorded += other.recorded;
    improvised += other.improvised;
    fallback += other.fallback;
    blocked += other.blocked;
    unmatched += other.unmatched;
    invalid_frees += other.invalid_frees;
    reallocs += other.reallocs;
    reallocs_in_place += other.reallocs_in_place;
    iterations += other.iterations;
    held_bytes += other.held_bytes;
    table_bytes += other.table_bytes;
    peak_rss = std::max(peak_rss, other.peak_rss);
    address_hash = address_hash * 31 + other.address_hash;
    fallback_hash = fallback_hash * 31 + other.fallback_hash;
  }

  uint64_t served() const { return planned + improvised; }
  uint64_t allocations() const { return served() + fallback; }
  uint64_t elsewhere() const { return improvised + fallback; }
  double served_percent() const {
    return allocations() > 0 ? 100.0 * static_cast<double>(served()) / allocations() : 100.0;
  }

  nlohmann::ordered_json Json() const;
};

// One per lane of the plan, and one for everything else; none where the image left no counters.
std::vector<replay::LaneCounters> CountersOf(const std::string& bytes,
                                             const replay::PlanHeader& plan);

// What each of them served. Without the plan file what followed it is not known.
std::vector<replay::Served> ServedBy(const std::vector<replay::LaneCounters>& counters,
                                     const replay::PlanFile* plan);

ReplayTotals TotalsOf(const interpose::ImageEntry& image,
                      const std::vector<replay::LaneCounters>& counters,
                      const std::vector<replay::Served>& served, const replay::PlanHeader& plan);

// Allocations that the recording made where the plan has places for them: a run that does the same
// has as many `planned`.
uint64_t RecordedOf(const replay::PlanFile& plan);

// Allocations of threads whose lane has no box.
uint64_t BoxlessOf(const std::vector<replay::LaneCounters>& counters, const replay::PlanFile* plan);

// What became of each lane, for those who want to know which thread left its plan, and where.
nlohmann::ordered_json LaneDetails(const std::vector<replay::LaneCounters>& counters,
                                   const std::vector<replay::Served>& served);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_REPLAY_COUNTS_H_
