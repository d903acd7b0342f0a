#include "replay/plan/plan_builder.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "planner/core/check.h"
#include "replay/plan/lane_choice.h"
#include "replay/plan/lane_plan.h"
#include "replay/plan/loops.h"
#include "replay/plan/plan_encoder.h"
#include "replay/plan/plan_format.h"
#include "trace/statistics.h"

namespace reprise::replay {
namespace {

using planner::Buffer;
using planner::Instance;
using trace::Allocation;
using trace::Recording;

void CountReallocations(const Recording& recording, BuiltPlan& built) {
  for (size_t i = 0; i < built.offsets.size(); ++i) {
    const uint32_t previous = recording.allocations[i].previous;
    if (previous == trace::kNone) continue;
    ++built.reallocs;
    if (built.offsets[i] == built.offsets[previous]) ++built.reallocs_in_place;
  }
}

// Drops lanes whose boxes cost too much memory. Returns what a run that follows the others holds.
int64_t DropCostlyLanes(const PlanRequest& request, std::vector<LaneWork>& lanes,
                        int64_t max_load) {
  std::vector<PlannedLane> planned(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    const LaneWork& lane = lanes[i];
    const trace::Thread& thread = request.recording.threads[i];
    planned[i].first_event = static_cast<int64_t>(thread.first_event);
    planned[i].end_event = static_cast<int64_t>(thread.end_event);
    for (size_t k = 0; k < lane.members.count; ++k) {
      const Allocation& allocation = request.recording.allocations[lane.members[k]];
      const uint64_t upper = std::min<uint64_t>(allocation.death, request.recording.events);
      const auto size = static_cast<int64_t>(request.block_bytes[lane.members[k]]);
      planned[i].blocks.push_back({static_cast<int64_t>(allocation.birth),
                                   static_cast<int64_t>(upper), lane.plan.offsets[k] + size, size});
    }
  }
  const LaneChoice choice = ChooseLanes(planned, max_load, request.mode == LaneMode::kThread);
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (choice.taken[i]) continue;
    lanes[i].plan.makespan = lanes[i].box.size = 0;
    lanes[i].loops = nullptr;
    lanes[i].alignment = kBoxAlignment;
  }
  return choice.held;
}

// The lanes that have members. Their boxes lie one behind the other: each thread has addresses of
// its own, whichever threads run beside it next time.
struct Boxes {
  Instance instance;  // when each holds memory, and how much: a lane that was dropped none
  std::vector<size_t> lane;
  std::vector<int64_t> offset;
};

Boxes LineUpBoxes(const std::vector<LaneWork>& lanes) {
  Boxes boxes;
  boxes.instance.alignment = kBoxAlignment;
  int64_t end = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].members.count == 0) continue;
    boxes.instance.buffers.push_back(lanes[i].box);
    boxes.lane.push_back(i);
    boxes.offset.push_back(planner::RoundUp(end, lanes[i].alignment));
    end = boxes.offset.back() + lanes[i].box.size;
  }
  return boxes;
}

// Puts the lanes' plans into their boxes: offsets, makespan and arena of `built`. Takes the plans'
// offsets. Returns the lanes as the plan file has them.
std::vector<EncodedLane> PlaceLanes(const PlanRequest& request, const Boxes& boxes,
                                    std::vector<LaneWork>& lanes, BuiltPlan& built) {
  const size_t allocations = request.recording.allocations.size();
  const bool single = boxes.lane.size() == 1 && boxes.instance.buffers[0].size > 0 &&
                      lanes[boxes.lane[0]].members.count == allocations;
  built.offsets.resize(single ? 0 : allocations, kUnplanned);
  std::vector<EncodedLane> encoded;
  for (size_t box = 0; box < boxes.lane.size(); ++box) {
    LaneWork& lane = lanes[boxes.lane[box]];
    const int64_t base = boxes.offset[box];
    const int64_t box_bytes = boxes.instance.buffers[box].size;
    if (single) {
      built.offsets = std::move(lane.plan.offsets);
      for (int64_t& offset : built.offsets) offset += base;
    } else if (box_bytes > 0) {
      for (size_t k = 0; k < lane.members.count; ++k) {
        built.offsets[lane.members[k]] = base + lane.plan.offsets[k];
      }
    }
    built.lanes += box_bytes > 0 ? 1 : 0;
    built.arena_bytes = std::max(built.arena_bytes, base + box_bytes);
    EncodedLane entry;
    // One lane for several threads is a plan to look at, not to replay.
    const auto& threads = request.recording.threads;
    const bool by_thread = request.mode != LaneMode::kNone && threads.size() > 1;
    entry.path = by_thread || threads.size() == 1 ? threads[boxes.lane[box]].path : 0;
    entry.thread = by_thread ? static_cast<uint32_t>(boxes.lane[box]) : trace::kNone;
    entry.box_offset = static_cast<uint64_t>(base);
    entry.box_bytes = static_cast<uint64_t>(box_bytes);
    entry.loops = lane.loops;
    encoded.push_back(entry);
  }
  for (size_t i = 0; i < allocations; ++i) {
    if (built.offsets[i] == kUnplanned) continue;
    const int64_t end = built.offsets[i] + static_cast<int64_t>(request.block_bytes[i]);
    built.makespan = std::max(built.makespan, end);
  }
  return encoded;
}

int64_t LoadOf(const PlanRequest& request, const std::vector<LaneWork>& lanes) {
  if (lanes.size() == 1 && request.as_recorded() && !lanes[0].on_pages &&
      lanes[0].loops == nullptr) {
    return lanes[0].plan.max_load;
  }
  return planner::MaxLoad(WholeInstance(request.recording));
}

int64_t UsableSizeBytes(const Recording& recording, int64_t max_load) {
  if (recording.usable_answers.empty()) return 0;
  Instance requested = WholeInstance(recording);
  for (size_t i = 0; i < requested.buffers.size(); ++i) {
    requested.buffers[i].size =
        static_cast<int64_t>(trace::BlockBytes(recording.allocations[i].size));
  }
  return max_load - planner::MaxLoad(requested);
}

// What the plan is measured against: bounds, strategy. `held`: by a run with several threads.
void Summarize(const PlanRequest& request, const Boxes& boxes, const std::vector<LaneWork>& lanes,
               int64_t held, BuiltPlan& built) {
  const auto by_members = [](const LaneWork& a, const LaneWork& b) {
    return a.members.count < b.members.count;
  };
  built.lower_bound = built.max_load;
  if (request.mode == LaneMode::kNone && built.lanes > 0) {
    built.lower_bound = std::max(built.lower_bound, lanes[0].plan.lower_bound);
  }
  built.unplanned = std::count(built.offsets.begin(), built.offsets.end(), kUnplanned);
  const int64_t highest_end = built.makespan;
  if (built.threads > 1 || built.unplanned > 0) {
    built.makespan = built.estimated_held_bytes = held;
  }
  // What a run with several threads holds is an estimate, which proves nothing.
  built.proven_optimal = built.unplanned == 0 && built.makespan == built.lower_bound &&
                         highest_end == built.lower_bound;
  // Of one lane for all, page rounding is a matter of the box, not of the planner.
  if (built.max_load > 0 && built.lanes > 0 &&
      !(request.mode == LaneMode::kNone && built.lanes == 1)) {
    const int64_t box_load = planner::MaxLoad(boxes.instance);
    built.lane_overhead_percent =
        std::max(0.0, 100.0 * static_cast<double>(box_load - built.max_load) / built.max_load);
  }
  const auto largest = std::max_element(lanes.begin(), lanes.end(), by_members);
  if (largest != lanes.end()) built.strategy = largest->plan.strategy;
  if (built.strategy.empty()) built.strategy = request.options.strategy;  // nothing to place
}

// The loops of the lanes that the plan has. Whether there are any.
bool SummarizeLoops(const PlanRequest& request, const std::vector<LaneWork>& lanes,
                    const std::vector<LaneLoops>& loops, BuiltPlan& built) {
  for (size_t i = 0; i < loops.size(); ++i) {
    if (lanes[i].members.count == 0) continue;
    const bool planned = lanes[i].loops != nullptr || loops[i].loops.empty();
    if (planned) built.loops.Add(request.recording, i, loops[i]);
  }
  built.loops.Sort();
  return !built.loops.loops.empty();
}

}  // namespace

Instance WholeInstance(const Recording& recording) {
  return LaneInstance(recording, BlockBytes(recording), {recording.allocations.size(), {}});
}

void KeepPlanned(Instance& instance, std::vector<int64_t>& offsets) {
  size_t kept = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] == kUnplanned) continue;
    instance.buffers[kept] = instance.buffers[i];
    if (!instance.alignments.empty()) instance.alignments[kept] = instance.alignments[i];
    offsets[kept++] = offsets[i];
  }
  instance.buffers.resize(kept);
  if (!instance.alignments.empty()) instance.alignments.resize(kept);
  offsets.resize(kept);
}

absl::StatusOr<BuiltPlan> BuildPlan(const Recording& recording, const planner::Options& options,
                                    LaneMode mode, const Learned& learned, LoopMode loop_mode) {
  const absl::Time start = absl::Now();
  const BlockBytes block_bytes(recording);
  const PlanRequest request{recording, block_bytes, options, mode, learned};
  std::vector<LaneWork> lanes = SplitIntoLanes(recording, mode);
  std::vector<LaneLoops> loops;
  if (loop_mode != LoopMode::kNone && mode != LaneMode::kNone) {
    loops = FindLoops(recording, block_bytes, HasLanePerThread(recording, mode), loop_mode);
  }
  for (size_t i = 0; i < loops.size(); ++i) {
    if (!loops[i].loops.empty()) lanes[i].loops = &loops[i];
  }
  if (absl::Status status = PlanLanes(request, lanes); !status.ok()) return status;
  const bool on_pages =
      std::any_of(lanes.begin(), lanes.end(), [](const LaneWork& lane) { return lane.on_pages; });

  BuiltPlan built;
  built.max_load = LoadOf(request, lanes);
  built.usable_size_bytes = UsableSizeBytes(recording, built.max_load);
  int64_t held = 0;
  if (lanes.size() > 1) held = DropCostlyLanes(request, lanes, built.max_load);
  const Boxes boxes = LineUpBoxes(lanes);
  built.learned = static_cast<int64_t>(learned.upper.size());
  built.threads = static_cast<int64_t>(std::count_if(
      lanes.begin(), lanes.end(), [](const LaneWork& lane) { return !lane.plan.offsets.empty(); }));
  const std::vector<EncodedLane> encoded = PlaceLanes(request, boxes, lanes, built);
  if (built.arena_bytes > static_cast<int64_t>(kMostArenaBytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("the lanes together need ", built.arena_bytes,
                                                     " bytes; replay serves up to 128 GiB"));
  }
  Summarize(request, boxes, lanes, held, built);
  const bool loop = SummarizeLoops(request, lanes, loops, built);
  CountReallocations(recording, built);

  // What is put together is checked as a whole, while it is encoded. A single lane was already,
  // unless it was planned with other lifetimes or lengths than the recorded ones, or blocks that
  // grow as one.
  std::future<bool> valid;
  if (built.lanes > 1 || !request.as_recorded() || on_pages || loop ||
      built.reallocs_in_place > 0) {
    valid = std::async(std::launch::async | std::launch::deferred, [&] {
      Instance instance = WholeInstance(recording);
      std::vector<int64_t> offsets = built.offsets;
      KeepPlanned(instance, offsets);
      return planner::Check(instance, offsets, 1).valid;
    });
  }
  built.bytes = EncodePlan(
      recording, block_bytes, built.offsets, encoded, static_cast<uint64_t>(built.arena_bytes),
      static_cast<uint64_t>(built.max_load), learned.from_replays ? kPlanLearned : 0);
  if (valid.valid() && !valid.get()) return absl::InternalError("the plan failed its check");
  built.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return built;
}

}  // namespace reprise::replay
