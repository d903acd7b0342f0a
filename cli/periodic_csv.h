// Periodic instances as CSV: `--period T` of plan, check and info.
#ifndef REPRISE_CLI_PERIODIC_CSV_H_
#define REPRISE_CLI_PERIODIC_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/csv_instance.h"
#include "planner/core/instance.h"
#include "planner/solve.h"
#include "trace/formats/csv.h"

namespace CLI {
class App;
}

namespace reprise::cli {

// The option --period, from 1 on; 0: it was not given.
void AddPeriod(CLI::App* command, int64_t& period);

// Whether all rows of the file at `path`, also those of size 0, make a periodic instance;
// `instance` is what ToInstance made of them. InvalidArgument: one line with the file and the row.
absl::Status CheckPeriod(const trace::CsvInstance& csv, const planner::Instance& instance,
                         int64_t period, const std::string& path);

// planner::SolvePeriodic, or without a period planner::Solve, with one slot for each buffer.
absl::StatusOr<planner::PeriodicPlan> SolveWithPeriod(const planner::Instance& instance,
                                                      int64_t period,
                                                      const planner::Options& options);

// The offsets of all rows: those of row r are [first[r], first[r + 1]).
struct RowSlots {
  std::vector<int64_t> offsets;
  std::vector<uint32_t> first = {0};
};

// Of buffers without rows of size 0, which have one offset each.
RowSlots SlotsOfRows(const std::vector<int64_t>& offsets, const std::vector<uint32_t>& first_slot,
                     const std::vector<EmptyRow>& empty);

// The offsets of all slots of the rows that take memory, from the CSV file at `plan`, by ids; the
// instance is one that CheckPeriod takes. InvalidArgument, one line, when a row is missing or has
// not one offset for each slot.
absl::StatusOr<std::vector<int64_t>> PlannedSlots(const trace::CsvInstance& csv, int64_t period,
                                                  const std::string& plan, bool ignore_unknown);

// What a loop is, for `info`. Sizes count as they are given.
struct LoopSummary {
  int64_t max_load = 0;            // bytes, in the steady state
  int64_t peak_time = 0;           // the first instant of the period at which that is in use
  int64_t crossing = 0;            // buffers that are live across the end of the period
  int64_t crossing_bytes = 0;      // of all their copies that are
  int64_t slots = 0;               // of all buffers that take memory
  std::vector<uint32_t> top_rows;  // live at the peak, largest first
};
LoopSummary Summarize(const trace::CsvInstance& csv, int64_t period, size_t most_rows);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PERIODIC_CSV_H_
