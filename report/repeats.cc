#include "report/repeats.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "replay/plan/loops.h"
#include "replay/plan/plan_file.h"
#include "report/facts.h"
#include "trace/marks.h"
#include "trace/reader.h"

namespace reprise::report {
namespace {

using nlohmann::ordered_json;
using trace::Recording;

// One that is looked for needs as long as all else.
constexpr uint64_t kMostEventsForLoops = 2'000'000;
constexpr size_t kMostLoops = 100, kMostMarks = 2'000;  // on the page

struct Span {
  size_t thread = 0;
  uint64_t first_event = 0, end_event = 0;
  uint64_t iterations = 0;
  uint64_t allocations = 0;  // of an iteration
};

std::vector<Span> FoundSpans(const Recording& recording) {
  std::vector<Span> spans;
  if (recording.events > kMostEventsForLoops) return spans;
  replay::FoundLoops found;
  const std::vector<replay::LaneLoops> lanes =
      replay::FindLoops(recording, replay::BlockBytes(recording), recording.threads.size() > 1);
  for (size_t i = 0; i < lanes.size(); ++i) found.Add(recording, i, lanes[i]);
  for (const replay::FoundLoops::Found& it : found.loops) {
    spans.push_back(
        {it.thread, it.first_event, it.end_event, it.loop.iterations(), it.loop.allocations});
  }
  return spans;
}

// The births of each thread, by its path.
std::vector<uint64_t> BirthsOf(const Recording& recording, size_t thread) {
  std::vector<uint64_t> births;
  for (const trace::Allocation& it : recording.allocations) {
    if (it.thread == thread) births.push_back(it.birth);
  }
  return births;
}

// Those of a plan that PlanOffsets has accepted.
absl::StatusOr<std::vector<Span>> PlannedSpans(const Subject& subject, const std::string& path) {
  const Recording& recording = subject.recording;
  const absl::StatusOr<replay::PlanFile> plan =
      replay::PlanFile::Read(replay::PlanFor(path, subject.path));
  if (!plan.ok()) return plan.status();
  std::vector<Span> spans;
  const auto* lanes = plan->table<replay::PlanLane>(plan->header().lanes);
  for (uint64_t i = 0; i < plan->header().lanes.count; ++i) {
    if (lanes[i].loops == 0) continue;
    const auto thread = std::find_if(recording.threads.begin(), recording.threads.end(),
                                     [&](const auto& it) { return it.path == lanes[i].path; });
    if (thread == recording.threads.end()) continue;
    const auto index = static_cast<size_t>(thread - recording.threads.begin());
    const std::vector<uint64_t> births = BirthsOf(recording, index);
    for (const replay::PlannedLoop& it : plan->Loops(lanes[i])) {
      if (it.end_allocation > births.size() || it.first_allocation >= it.end_allocation) continue;
      spans.push_back({index, births[it.first_allocation], births[it.end_allocation - 1] + 1,
                       it.iterations, (it.end_allocation - it.first_allocation) / it.iterations});
    }
  }
  return spans;
}

std::string Sentence(const Recording& recording, const std::vector<Span>& spans) {
  std::string text;
  if (!spans.empty()) {
    const Span& it = spans.front();
    const std::string where =
        recording.threads.size() == 1 ? "" : absl::StrCat(" of ", ThreadName(recording, it.thread));
    text = absl::StrCat(base::Counted(it.iterations, "iteration"), " of ",
                        base::Counted(it.allocations, "allocation"), where, " from event ",
                        it.first_event, " to ", it.end_event);
    if (spans.size() > 1) {
      absl::StrAppend(&text, ", and ", base::Counted(spans.size() - 1, "loop"), " more");
    }
    absl::StrAppend(&text, ".");
  }
  if (recording.marks.empty()) return text;
  trace::MarkCounter counter(recording.marks);
  trace::ForEachEvent(recording, [&](const trace::Event& event) { counter.Add(event); });
  for (const trace::MarkedThread& it : counter.Finish()) {
    const std::string where =
        recording.threads.size() == 1 ? "" : absl::StrCat(" of ", ThreadName(recording, it.thread));
    absl::StrAppend(&text, text.empty() ? "" : " ", base::Counted(it.marks, "mark"), where);
    if (it.marks > 1) {
      absl::StrAppend(&text, ", ", base::Counted(it.events, "event"), " (",
                      base::HumanBytes(static_cast<double>(it.bytes)), ") apart");
    }
    absl::StrAppend(&text, ".");
    break;  // the others can be seen
  }
  return text;
}

}  // namespace

absl::Status AddRepeats(const Subject& subject, const std::string& plan, ordered_json& facts) {
  const Recording& recording = subject.recording;
  facts["loops"] = facts["marks"] = ordered_json::array();
  facts["repeats"] = "";
  if (subject.is_instance) return absl::OkStatus();
  std::vector<Span> spans;
  if (plan.empty()) {
    spans = FoundSpans(recording);
  } else {
    absl::StatusOr<std::vector<Span>> planned = PlannedSpans(subject, plan);
    if (!planned.ok()) return planned.status();
    spans = *std::move(planned);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.end_event - a.first_event > b.end_event - b.first_event;
  });
  for (size_t i = 0; i < std::min(spans.size(), kMostLoops); ++i) {
    facts["loops"].push_back({spans[i].first_event, spans[i].end_event});
  }
  const size_t step = (recording.marks.size() + kMostMarks - 1) / kMostMarks;
  for (size_t i = 0; i < recording.marks.size(); i += step) {
    facts["marks"].push_back(recording.marks[i].event);
  }
  facts["repeats"] = Sentence(recording, spans);
  return absl::OkStatus();
}

}  // namespace reprise::report
