#include "replay/plan/plan_builder.h"

#include <algorithm>
#include <bit>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "planner/core/check.h"
#include "replay/plan/plan_encoder.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/realloc_chains.h"

namespace reprise::replay {
namespace {

using planner::Buffer;
using planner::Instance;
using trace::Allocation;
using trace::Recording;

// Seconds: what a lane gets at least, so that even a small share of the budget gives a plan worth
// having. Less where there are so many lanes that this alone would take more than the budget; per
// buffer only where that is a small part of the whole budget.
constexpr double kLeastBudget = 0.02;
constexpr double kLeastBudgetPerBuffer = 1.5e-6;
constexpr double kMostOfBudget = 0.1;

// Seconds per buffer that putting the lanes together, encoding and writing take: of the budget,
// too.
constexpr double kFinishSeconds = 1.5e-7;

// The allocations of a lane.
struct Members {
  size_t count = 0;
  std::vector<uint32_t> some;  // empty: all of the recording
  uint32_t operator[](size_t k) const { return some.empty() ? static_cast<uint32_t>(k) : some[k]; }
};

// The part of a recording that one lane holds, as a planning problem of its own.
Instance LaneInstance(const Recording& recording, const BlockBytes& block_bytes,
                      const Members& members, const Learned& learned = {}) {
  Instance instance;
  instance.alignment = kGranule;
  instance.buffers.reserve(members.count);
  bool aligned = false;
  for (size_t k = 0; k < members.count; ++k) {
    const uint32_t member = members[k];
    const Allocation& allocation = recording.allocations[member];
    uint64_t upper = allocation.death == trace::kNever ? recording.events : allocation.death;
    if (!learned.upper.empty()) {
      const auto later = learned.upper.find(member);
      if (later != learned.upper.end()) upper = later->second;
    }
    instance.buffers.push_back({static_cast<int64_t>(allocation.birth), static_cast<int64_t>(upper),
                                static_cast<int64_t>(block_bytes[member])});
    aligned = aligned || allocation.log2_alignment > 4;
  }
  if (aligned) {
    for (size_t k = 0; k < members.count; ++k) {
      const int log2 = std::max<int>(4, recording.allocations[members[k]].log2_alignment);
      instance.alignments.push_back(int64_t{1} << log2);
    }
  }
  return instance;
}

// A program that takes and gives back long blocks all the time touches fewer pages and lines of the
// caches when these begin with a page. In a lane with many of them each is planned so much longer
// that it finds one in its place: at most 1.6 % of it. Not as an alignment, which the fast
// strategies do not have.
constexpr int64_t kPage = 4096;
constexpr int64_t kLong = kLongBlock;
constexpr int64_t kManyLongBlocks = 256;

bool LengthenForPages(Instance& instance) {
  const auto is_long = [](const Buffer& buffer) { return buffer.size >= kLong; };
  std::vector<Buffer>& buffers = instance.buffers;
  if (std::count_if(buffers.begin(), buffers.end(), is_long) < kManyLongBlocks) return false;
  for (Buffer& buffer : buffers) buffer.size += is_long(buffer) ? kPage - kGranule : 0;
  return true;
}

// Solves an instance whose long buffers have been made longer, or none.
absl::StatusOr<planner::Plan> SolveForPages(const Instance& instance,
                                            const planner::Options& options, bool on_pages) {
  absl::StatusOr<planner::Plan> plan = planner::Solve(instance, options);
  for (size_t k = 0; on_pages && plan.ok() && k < plan->offsets.size(); ++k) {
    if (instance.buffers[k].size < kLong) continue;
    plan->offsets[k] = planner::RoundUp(plan->offsets[k], kPage);
  }
  return plan;
}

constexpr int64_t kMostArenaBytes = int64_t{256} << 30;

struct LaneWork {
  Members members;
  planner::Plan plan;
  int64_t alignment = kBoxAlignment;
  bool on_pages = false;     // long blocks begin with a page
  int64_t shared_bytes = 0;  // from where on the box is reserved; 0: it is not
  Buffer box;                // when the lane holds memory, and how much
};

// Splits the recording into lanes. Without lanes there is one that holds everything.
std::vector<LaneWork> Split(const Recording& recording, LaneMode mode) {
  if (mode == LaneMode::kNone || recording.threads.size() == 1) {
    std::vector<LaneWork> whole(1);
    whole[0].members.count = recording.allocations.size();
    return whole;
  }
  std::vector<LaneWork> lanes(recording.threads.size());
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    Members& members = lanes[recording.allocations[i].thread].members;
    members.some.push_back(i);
    ++members.count;
  }
  return lanes;
}

// Per member: which other one a realloc replaced by it, or kNoBuffer. A chain with a lifetime that
// was learned is none.
std::vector<uint32_t> PreviousOf(const Recording& recording, const Members& members,
                                 const Learned& learned) {
  std::vector<uint32_t> previous(members.count, kNoBuffer);
  for (size_t k = 0; k < members.count; ++k) {
    const Allocation& allocation = recording.allocations[members[k]];
    const uint32_t replaced = allocation.previous;
    if (replaced == trace::kNone || recording.allocations[replaced].thread != allocation.thread ||
        learned.upper.contains(replaced)) {
      continue;
    }
    previous[k] = replaced;
    if (members.some.empty()) continue;
    const auto at = std::lower_bound(members.some.begin(), members.some.end(), replaced);
    previous[k] = static_cast<uint32_t>(at - members.some.begin());
  }
  return previous;
}

// Solves a lane so that blocks which grow stay where they are, if that makes it no longer. A
// quarter of the budget is for that, and what the plan that moves them leaves.
absl::StatusOr<planner::Plan> SolveInPlace(const Instance& instance, std::vector<uint32_t> previous,
                                           const planner::Options& options, bool on_pages) {
  const absl::Time start = absl::Now();
  const Chains chains = JoinChains(instance, previous);
  std::vector<uint32_t>().swap(previous);  // the searches need the memory
  const double budget =
      std::max(0.0, options.budget_seconds - absl::ToDoubleSeconds(absl::Now() - start));
  planner::Options share = options;
  share.budget_seconds = budget;
  if (chains.links == 0) return SolveForPages(instance, share, on_pages);
  share.budget_seconds = budget * 3 / 4;
  absl::StatusOr<planner::Plan> moving = SolveForPages(instance, share, on_pages);
  if (!moving.ok()) return moving;
  share.budget_seconds = budget - std::min(moving->seconds, share.budget_seconds);
  share.worst_case_fragmentation = moving->fragmentation();
  absl::StatusOr<planner::Plan> joined = SolveForPages(chains.joined, share, on_pages);
  if (!joined.ok() || joined->makespan > moving->makespan) return moving;
  for (size_t k = 0; k < chains.buffer_of.size(); ++k) {
    moving->offsets[k] = joined->offsets[chains.buffer_of[k]];
  }
  moving->makespan = joined->makespan;
  moving->strategy = joined->strategy;
  return moving;
}

uint64_t MostReserved(const Learned& learned, const Recording& recording, size_t thread) {
  const auto found = learned.most_reserved.find(recording.threads[thread].path);
  return found == learned.most_reserved.end() ? 0 : found->second;
}

// Solves a lane in which crowded kinds have places of their own, above everything else.
absl::StatusOr<planner::Plan> SolveLearned(const Instance& instance,
                                           const std::vector<uint32_t>& previous,
                                           const planner::Options& options, const Learned& learned,
                                           uint64_t most_reserved, LaneWork& lane,
                                           int64_t* learned_buffers) {
  std::vector<uint32_t> members;
  members.reserve(lane.members.count);
  for (size_t k = 0; k < lane.members.count; ++k) members.push_back(lane.members[k]);
  const Reserved reserved = ReservePlaces(instance, learned, members, most_reserved);
  std::vector<uint32_t> other_of(members.size(), kNoBuffer);
  std::vector<uint32_t> previous_other;
  for (size_t k = 0; k < members.size(); ++k) {
    if (reserved.offset[k] != Reserved::kNotReserved) continue;
    other_of[k] = static_cast<uint32_t>(previous_other.size());
    previous_other.push_back(previous[k] == kNoBuffer ? kNoBuffer : other_of[previous[k]]);
  }
  absl::StatusOr<planner::Plan> plan =
      SolveInPlace(reserved.others, std::move(previous_other), options, lane.on_pages);
  if (!plan.ok() || reserved.bytes == 0) return plan;
  lane.shared_bytes = planner::RoundUp(plan->makespan, reserved.alignment);
  std::vector<int64_t> offsets;
  offsets.reserve(members.size());
  size_t other = 0;
  for (const int64_t offset : reserved.offset) {
    offsets.push_back(offset == Reserved::kNotReserved ? plan->offsets[other++]
                                                       : lane.shared_bytes + offset);
  }
  plan->offsets = std::move(offsets);
  plan->makespan = lane.shared_bytes + reserved.bytes;
  *learned_buffers += reserved.buffers;
  return plan;
}

void CountReallocations(const Recording& recording, BuiltPlan& built) {
  for (size_t i = 0; i < built.offsets.size(); ++i) {
    const uint32_t previous = recording.allocations[i].previous;
    if (previous == trace::kNone) continue;
    ++built.reallocs;
    if (built.offsets[i] == built.offsets[previous]) ++built.reallocs_in_place;
  }
}

}  // namespace

Instance WholeInstance(const Recording& recording) {
  return LaneInstance(recording, BlockBytes(recording), {recording.allocations.size(), {}});
}

absl::StatusOr<BuiltPlan> BuildPlan(const Recording& recording, const planner::Options& options,
                                    LaneMode mode, const Learned& learned) {
  const absl::Time start = absl::Now();
  const BlockBytes block_bytes(recording);
  std::vector<LaneWork> lanes = Split(recording, mode);
  BuiltPlan built;
  built.learned = static_cast<int64_t>(learned.upper.size());
  size_t largest = 0;
  bool on_pages = false;
  size_t members_left = recording.allocations.size();
  double budget_left =
      std::max(0.0, options.budget_seconds - kFinishSeconds * static_cast<double>(members_left));
  const double least =
      std::min(kLeastBudget, std::max(kLeastBudget, options.budget_seconds) /
                                 static_cast<double>(std::max<size_t>(lanes.size(), 1)));
  for (size_t i = 0; i < lanes.size(); ++i) {
    LaneWork& lane = lanes[i];
    if (lane.members.count == 0) continue;
    if (lane.members.count > lanes[largest].members.count) largest = i;
    Instance instance = LaneInstance(recording, block_bytes, lane.members, learned);
    lane.on_pages = mode == LaneMode::kThread && LengthenForPages(instance);
    on_pages = on_pages || lane.on_pages;
    planner::Options lane_options = options;
    const auto members = static_cast<double>(lane.members.count);
    lane_options.budget_seconds = std::max(
        {least, std::min(kLeastBudgetPerBuffer * members, kMostOfBudget * options.budget_seconds),
         budget_left * members / static_cast<double>(members_left)});
    members_left -= lane.members.count;
    const absl::Time lane_start = absl::Now();
    const auto previous = [&] { return PreviousOf(recording, lane.members, learned); };
    absl::StatusOr<planner::Plan> plan =
        mode == LaneMode::kNone ? planner::Solve(instance, lane_options)
        : learned.kind.empty()
            ? SolveInPlace(instance, previous(), lane_options, lane.on_pages)
            : SolveLearned(instance, previous(), lane_options, learned,
                           MostReserved(learned, recording, i), lane, &built.learned);
    if (!plan.ok()) return plan.status();
    budget_left = std::max(0.0, budget_left - absl::ToDoubleSeconds(absl::Now() - lane_start));
    lane.plan = *std::move(plan);
    if (static_cast<uint64_t>(lane.plan.makespan) / kGranule >= kMostLaneGranules) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a lane needs ", lane.plan.makespan, " bytes; replay serves up to 32 GiB"));
    }
    for (const int64_t alignment : instance.alignments) {
      lane.alignment = std::max(lane.alignment, alignment);
    }
    lane.box = instance.buffers.front();
    for (const Buffer& buffer : instance.buffers)
      lane.box.upper = std::max(lane.box.upper, buffer.upper);
    lane.box.size = planner::RoundUp(lane.plan.makespan, kBoxAlignment);
  }

  // The boxes are buffers themselves: lanes of threads that do not coexist share memory.
  Instance boxes;
  boxes.alignment = kBoxAlignment;
  std::vector<size_t> box_lane;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].members.count == 0) continue;
    boxes.buffers.push_back(lanes[i].box);
    boxes.alignments.push_back(lanes[i].alignment);
    box_lane.push_back(i);
  }
  planner::Plan box_plan;
  if (!boxes.buffers.empty()) {
    planner::Options box_options = options;
    box_options.budget_seconds = std::min(1.0, std::max(kLeastBudget, options.budget_seconds / 4));
    box_options.strategy = "auto";
    box_options.on_improvement = nullptr;
    absl::StatusOr<planner::Plan> plan = planner::Solve(boxes, box_options);
    if (!plan.ok()) return plan.status();
    box_plan = *std::move(plan);
  }

  built.offsets.resize(box_lane.size() == 1 ? 0 : recording.allocations.size());
  std::vector<EncodedLane> encoded;
  for (size_t box = 0; box < box_lane.size(); ++box) {
    LaneWork& lane = lanes[box_lane[box]];
    const int64_t base = box_plan.offsets[box];
    if (box_lane.size() == 1) {  // it holds everything
      built.offsets = std::move(lane.plan.offsets);
      for (int64_t& offset : built.offsets) offset += base;
    } else {
      for (size_t k = 0; k < lane.members.count; ++k) {
        built.offsets[lane.members[k]] = base + lane.plan.offsets[k];
      }
    }
    built.makespan = std::max(built.makespan, base + lane.plan.makespan);
    built.arena_bytes = std::max(built.arena_bytes, base + boxes.buffers[box].size);
    EncodedLane entry;
    // One lane for several threads is a plan to look at, not to replay.
    const bool replayable = mode == LaneMode::kThread || recording.threads.size() == 1;
    entry.path = replayable ? recording.threads[box_lane[box]].path : 0;
    entry.thread = mode == LaneMode::kThread ? static_cast<uint32_t>(box_lane[box]) : trace::kNone;
    entry.box_offset = static_cast<uint64_t>(base);
    entry.box_bytes = static_cast<uint64_t>(boxes.buffers[box].size);
    if (lane.shared_bytes > 0) {
      entry.reserved_bytes = entry.box_bytes - static_cast<uint64_t>(lane.shared_bytes);
    }
    encoded.push_back(entry);
  }
  if (built.arena_bytes > kMostArenaBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the lanes together need ", built.arena_bytes,
                                                     " bytes; replay serves up to 256 GiB"));
  }
  const bool as_recorded = learned.upper.empty() && learned.kind.empty();
  if (box_lane.size() == 1 && as_recorded && !on_pages) {
    built.max_load = lanes[largest].plan.max_load;
  } else if (!box_lane.empty()) {
    built.max_load = planner::MaxLoad(WholeInstance(recording));
  }
  built.lower_bound = built.max_load;
  if (mode == LaneMode::kNone && !box_lane.empty()) {
    built.lower_bound = std::max(built.lower_bound, lanes[0].plan.lower_bound);
  }
  built.lanes = static_cast<int64_t>(box_lane.size());
  if (built.max_load > 0) {
    const int64_t box_load = planner::MaxLoad(boxes);
    built.lane_overhead_percent =
        std::max(0.0, 100.0 * static_cast<double>(box_load - built.max_load) / built.max_load);
  }
  if (!lanes.empty()) built.strategy = lanes[largest].plan.strategy;
  if (built.strategy.empty()) built.strategy = options.strategy;  // there was nothing to place
  if (mode == LaneMode::kNone && built.lanes == 1) {
    // Page rounding is a matter of the box, not of the planner.
    built.lane_overhead_percent = 0;
  }
  // What is put together is checked as a whole, while it is encoded. A single lane was already,
  // unless it was planned with other lifetimes or lengths than the recorded ones, or blocks that
  // grow as one.
  CountReallocations(recording, built);
  std::future<bool> valid;
  if (box_lane.size() > 1 || !as_recorded || on_pages || built.reallocs_in_place > 0) {
    valid = std::async(std::launch::async | std::launch::deferred, [&] {
      return planner::Check(WholeInstance(recording), built.offsets, 1).valid;
    });
  }
  built.bytes =
      EncodePlan(recording, block_bytes, built.offsets, encoded,
                 static_cast<uint64_t>(built.arena_bytes), static_cast<uint64_t>(built.max_load));
  if (valid.valid() && !valid.get()) return absl::InternalError("the plan failed its check");
  built.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return built;
}

}  // namespace reprise::replay
