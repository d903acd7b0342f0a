#include "cli/periodic_csv.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/instance_file.h"
#include "planner/core/periodic.h"

namespace reprise::cli {
namespace {

// How many copies of [lower, upper) hold the instant `phase` of a period in the steady state.
int64_t CopiesAt(int64_t lower, int64_t upper, int64_t phase, int64_t period) {
  // Of the instants phase + n * period, those below a bound that is not negative.
  const auto below = [&](int64_t bound) {
    return bound <= phase ? 0 : (bound - phase - 1) / period + 1;
  };
  return below(upper) - below(lower);
}

}  // namespace

void AddPeriod(CLI::App* command, int64_t& period) {
  const auto check = [](const std::string& text) -> std::string {
    const std::string wrong = CheckWholeNumber(text);
    if (wrong.empty() && text.find_first_not_of('0') != std::string::npos) return {};
    return absl::StrCat("expected a whole number from 1 on, found '", text, "'");
  };
  command
      ->add_option("--period", period,
                   "of a CSV instance: it is the body of a loop that begins anew every so many "
                   "instants")
      ->type_name("T")
      ->check(check);
}

absl::Status CheckPeriod(const trace::CsvInstance& csv, const planner::Instance& instance,
                         int64_t period, const std::string& path) {
  const absl::Status status = planner::ValidatePeriodic(instance, period, NamesIn(path));
  if (!status.ok()) return InFile(path, status);
  for (const trace::CsvBuffer& row : csv.buffers) {
    if (row.size > 0 || row.lower < period) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": buffer '", row.id, "' in line ",
                                                   row.line, ": expected lower in [0, ", period,
                                                   "), the period, found ", row.lower));
  }
  return absl::OkStatus();
}

absl::StatusOr<planner::PeriodicPlan> SolveWithPeriod(const planner::Instance& instance,
                                                      int64_t period,
                                                      const planner::Options& options) {
  if (period != planner::kNotPeriodic) return planner::SolvePeriodic(instance, period, options);
  absl::StatusOr<planner::Plan> plan = planner::Solve(instance, options);
  if (!plan.ok()) return plan.status();
  planner::PeriodicPlan periodic{*std::move(plan), {}};
  periodic.first_slot.resize(instance.buffers.size() + 1);
  std::iota(periodic.first_slot.begin(), periodic.first_slot.end(), 0);
  return periodic;
}

RowSlots SlotsOfRows(const std::vector<int64_t>& offsets, const std::vector<uint32_t>& first_slot,
                     const std::vector<EmptyRow>& empty) {
  RowSlots rows;
  const auto end_row = [&] { rows.first.push_back(static_cast<uint32_t>(rows.offsets.size())); };
  auto next = empty.begin();
  const auto add_empty = [&] {
    for (; next != empty.end() && next->row + 1 == rows.first.size(); ++next) {
      rows.offsets.push_back(next->offset);
      end_row();
    }
  };
  for (size_t b = 0; b + 1 < first_slot.size(); ++b) {
    add_empty();
    rows.offsets.insert(rows.offsets.end(), offsets.begin() + first_slot[b],
                        offsets.begin() + first_slot[b + 1]);
    end_row();
  }
  add_empty();
  return rows;
}

absl::StatusOr<std::vector<int64_t>> PlannedSlots(const trace::CsvInstance& csv, int64_t period,
                                                  const std::string& plan, bool ignore_unknown) {
  const absl::StatusOr<std::vector<trace::CsvBuffer>> rows =
      PlannedRows(csv, plan, ignore_unknown, /*slots=*/true);
  if (!rows.ok()) return rows.status();
  std::vector<int64_t> offsets;
  for (size_t r = 0; r < rows->size(); ++r) {
    const trace::CsvBuffer& row = csv.buffers[r];
    if (row.size == 0) continue;  // as ToInstance does
    const trace::CsvBuffer& planned = (*rows)[r];
    const auto slots =
        static_cast<size_t>(planner::Slots({row.lower, row.upper, row.size}, period));
    const size_t found = std::max<size_t>(planned.slot_offsets.size(), 1);
    if (found != slots) {
      return absl::InvalidArgumentError(
          absl::StrCat(plan, ":", planned.line, ": expected ", Counted(slots, "offset"),
                       ", one for each copy that is live at one time, found ", found));
    }
    if (slots == 1) {
      offsets.push_back(*planned.offset);
    } else {
      offsets.insert(offsets.end(), planned.slot_offsets.begin(), planned.slot_offsets.end());
    }
  }
  return offsets;
}

LoopSummary Summarize(const trace::CsvInstance& csv, int64_t period, size_t most_rows) {
  const planner::Instance instance = ToInstance(csv, /*keep_offsets=*/false);
  LoopSummary loop;
  const planner::PeriodicPeak peak = planner::PeakOf(instance, period);
  loop.max_load = peak.load;
  loop.peak_time = peak.phase;
  loop.slots = planner::FirstSlots(instance, period).back();
  for (const planner::Buffer& b : instance.buffers) {
    // The copies that are live both at the last instant of a period and at the first of the next.
    const int64_t copies = b.upper > period ? (b.upper - 1) / period : 0;
    loop.crossing += copies > 0 ? 1 : 0;
    loop.crossing_bytes += copies * b.size;
  }
  for (uint32_t r = 0; r < csv.buffers.size(); ++r) {
    const trace::CsvBuffer& row = csv.buffers[r];
    const bool live = CopiesAt(row.lower, row.upper, peak.phase, period) > 0;
    if (live && row.size > 0) loop.top_rows.push_back(r);
  }
  std::stable_sort(loop.top_rows.begin(), loop.top_rows.end(), [&](uint32_t a, uint32_t b) {
    return csv.buffers[a].size > csv.buffers[b].size;
  });
  if (loop.top_rows.size() > most_rows) loop.top_rows.resize(most_rows);
  return loop;
}

}  // namespace reprise::cli
