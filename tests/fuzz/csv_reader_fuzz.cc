// Feeds the reader of CSV instances anything at all; the first byte says whether unknown columns
// are ignored ('i'). A small instance is planned, checked, and written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/csv_instance.h"
#include "planner/core/check.h"
#include "planner/solve.h"
#include "tests/fuzz/require.h"
#include "trace/formats/csv.h"
#include "trace/statistics.h"

namespace {

using namespace reprise;  // NOLINT(google-build-using-namespace)
using fuzz::Require;

// Larger ones take too long for a fuzzer.
constexpr size_t kSmall = 50;

void PlanAndWrite(const trace::CsvInstance& csv, bool ignore_unknown) {
  const planner::Instance instance = cli::ToInstance(csv, /*keep_offsets=*/true);
  size_t gaps = 0;
  for (const trace::CsvBuffer& buffer : csv.buffers) gaps += buffer.gaps.size();
  if (csv.buffers.size() > kSmall || gaps > kSmall) return;
  planner::Options options;
  options.strategy = "first_fit_by_size";
  options.threads = 1;
  const absl::StatusOr<planner::Plan> plan = planner::Solve(instance, options);
  if (!plan.ok()) return fuzz::RequireRefusal(plan.status());
  Require(planner::Check(instance, plan->offsets).valid);
  const std::vector<int64_t> offsets =
      cli::OffsetsOfRows(plan->offsets, cli::EmptyRows(csv, instance.start_address));
  Require(offsets.size() == csv.buffers.size());
  const absl::StatusOr<trace::CsvInstance> read =
      trace::ParseCsv(trace::FormatCsv(csv, offsets), "fuzz", ignore_unknown);
  Require(read.ok() && read->buffers.size() == csv.buffers.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    Require(read->buffers[i].id == csv.buffers[i].id && read->buffers[i].offset == offsets[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool ignore_unknown = data[0] == 'i';
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const absl::StatusOr<trace::CsvInstance> csv = trace::ParseCsv(text, "fuzz", ignore_unknown);
  if (!csv.ok()) {
    fuzz::RequireRefusal(csv.status());
    return 0;
  }
  Require(ignore_unknown || csv->ignored.empty());
  Require(trace::Peak(*csv).load >= 0);
  const trace::Recording recording = trace::ToRecording(*csv);
  Require(recording.allocations.size() == csv->buffers.size());
  trace::ComputeStatistics(*csv, recording);
  PlanAndWrite(*csv, ignore_unknown);
  return 0;
}
