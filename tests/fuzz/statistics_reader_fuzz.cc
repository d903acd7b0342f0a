// Feeds the readers of replay's statistics (`plan --learn`, `report --replay`) anything at all; the
// first byte says whether unknown fields are ignored ('i'). HASH stands for the hash of the
// recording that the statistics may be about; what they teach is learned, and planned.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "cli/feedback_file.h"
#include "replay/plan/plan_builder.h"
#include "replay/plan/plan_encoder.h"
#include "report/measured_facts.h"
#include "report/measured_json.h"
#include "tests/fuzz/require.h"
#include "tests/unit/plan/recordings.h"

namespace {

using namespace reprise;  // NOLINT(google-build-using-namespace)

const trace::Recording& Subject() {
  static const trace::Recording recording =
      replay::RandomRecording({.allocations = 40, .threads = 2, .sites = 3}, 1);
  return recording;
}

void Learn(const std::string& text, bool ignore_unknown) {
  base::UnknownNames unknown(ignore_unknown);
  cli::LessonsFiles files;
  absl::Status status = files.Add(text, "fuzz", unknown);
  if (!status.ok()) return fuzz::RequireRefusal(status);
  const absl::StatusOr<replay::Learned> learned = files.For(Subject(), /*alone=*/true);
  if (!learned.ok()) return fuzz::RequireRefusal(learned.status());
  planner::Options options;
  options.strategy = "first_fit_by_size";
  options.threads = 1;
  const auto plan = replay::BuildPlan(Subject(), options, replay::LaneMode::kThread, *learned);
  fuzz::Require(plan.ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool ignore_unknown = data[0] == 'i';
  const std::string hash = absl::StrFormat("%016x", replay::HashRecording(Subject()));
  const std::string text = absl::StrReplaceAll(
      std::string(reinterpret_cast<const char*>(data + 1), size - 1), {{"HASH", hash}});
  Learn(text, ignore_unknown);
  base::UnknownNames unknown(ignore_unknown);
  const absl::StatusOr<nlohmann::json> statistics =
      report::ParseReplayStatistics(text, "fuzz", unknown);
  if (statistics.ok()) report::ReplayFacts(*statistics, "/bin/true").dump();
  return 0;
}
