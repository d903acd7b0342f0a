#include "replay/plan/lane_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/page.h"
#include "replay/plan/looped_instance.h"
#include "replay/plan/realloc_chains.h"

namespace reprise::replay {

using planner::Buffer;
using planner::Instance;
using trace::Allocation;
using trace::Recording;

namespace {

// Seconds: what a lane gets at least, so that even a small share of the budget gives a plan worth
// having. Less where there are so many lanes that this alone would take more than the budget; per
// buffer only where that is a small part of the whole budget.
constexpr double kLeastBudget = 0.02;
constexpr double kLeastBudgetPerBuffer = 1.5e-6;
constexpr double kMostOfBudget = 0.1;

// Seconds per buffer that putting the lanes together, encoding and writing take: of the budget,
// too.
constexpr double kFinishSeconds = 1.5e-7;

// A program that takes and gives back long blocks all the time touches fewer pages and lines of the
// caches when these begin with a page. In a lane with many of them each is planned so much longer
// that it finds one in its place: at most 1.6 % of it. Not as an alignment, which the fast
// strategies do not have.
constexpr int64_t kLong = kLongBlock;
constexpr int64_t kManyLongBlocks = 256;

bool LengthenForPages(Instance& instance) {
  const auto is_long = [](const Buffer& buffer) { return buffer.size >= kLong; };
  std::vector<Buffer>& buffers = instance.buffers;
  if (std::count_if(buffers.begin(), buffers.end(), is_long) < kManyLongBlocks) return false;
  for (Buffer& buffer : buffers) buffer.size += is_long(buffer) ? base::kPageBytes - kGranule : 0;
  return true;
}

// Solves an instance whose long buffers have been made longer, or none.
absl::StatusOr<planner::Plan> SolveForPages(const Instance& instance,
                                            const planner::Options& options, bool on_pages) {
  absl::StatusOr<planner::Plan> plan = planner::Solve(instance, options);
  for (size_t k = 0; on_pages && plan.ok() && k < plan->offsets.size(); ++k) {
    if (instance.buffers[k].size < kLong) continue;
    plan->offsets[k] = planner::RoundUp(plan->offsets[k], base::kPageBytes);
  }
  return plan;
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

// The fast strategies take no gaps. Where these would save next to nothing, there are none.
void FillSmallGaps(Instance& instance) {
  constexpr int64_t kShare = 256;  // of the max load
  int64_t bytes = 0;
  for (const planner::Gap& gap : instance.gaps) bytes += instance.buffers[gap.buffer].size;
  if (bytes <= planner::MaxLoad(instance) / kShare) instance.gaps.clear();
}

// The same where some buffers have one offset. FailedPrecondition: they live at the same time.
absl::StatusOr<planner::Plan> SolveMerged(const Instance& instance, const SameOffset& same_offset,
                                          const planner::Options& options, bool on_pages) {
  if (same_offset.empty()) return SolveForPages(instance, options, on_pages);
  std::optional<Merged> merged = Merge(instance, same_offset);
  if (!merged) return absl::FailedPreconditionError("blocks that are carried over overlap");
  FillSmallGaps(merged->instance);
  absl::StatusOr<planner::Plan> plan = SolveForPages(merged->instance, options, on_pages);
  if (!plan.ok()) return plan;
  std::vector<int64_t> offsets;
  offsets.reserve(instance.buffers.size());
  for (const uint32_t buffer : merged->buffer_of) offsets.push_back(plan->offsets[buffer]);
  plan->offsets = std::move(offsets);
  return plan;
}

// Solves a lane so that blocks which grow stay where they are, if that makes it no longer. A
// quarter of the budget is for that, and what the plan that moves them leaves.
absl::StatusOr<planner::Plan> SolveInPlace(const Instance& instance, std::vector<uint32_t> previous,
                                           const planner::Options& options, bool on_pages,
                                           const SameOffset& same_offset = {}) {
  const absl::Time start = absl::Now();
  const Chains chains = JoinChains(instance, previous);
  std::vector<uint32_t>().swap(previous);  // the searches need the memory
  const double budget =
      std::max(0.0, options.budget_seconds - absl::ToDoubleSeconds(absl::Now() - start));
  planner::Options share = options;
  share.budget_seconds = budget;
  if (chains.links == 0) return SolveMerged(instance, same_offset, share, on_pages);
  share.budget_seconds = budget * 3 / 4;
  absl::StatusOr<planner::Plan> moving = SolveMerged(instance, same_offset, share, on_pages);
  if (!moving.ok()) return moving;
  share.budget_seconds = budget - std::min(moving->seconds, share.budget_seconds);
  share.worst_case_fragmentation = moving->fragmentation();
  SameOffset same_in_chains;
  for (const auto& [former, latter] : same_offset) {
    same_in_chains.emplace_back(chains.buffer_of[former], chains.buffer_of[latter]);
  }
  absl::StatusOr<planner::Plan> joined =
      SolveMerged(chains.joined, same_in_chains, share, on_pages);
  if (!joined.ok() || joined->makespan > moving->makespan) return moving;
  for (size_t k = 0; k < chains.buffer_of.size(); ++k) {
    moving->offsets[k] = joined->offsets[chains.buffer_of[k]];
  }
  moving->makespan = joined->makespan;
  moving->strategy = joined->strategy;
  return moving;
}

// Shares the budget among lanes by their number of buffers.
class LaneBudgets {
 public:
  LaneBudgets(const PlanRequest& request, size_t lanes)
      : total_(request.options.budget_seconds),
        members_left_(static_cast<double>(request.recording.allocations.size())),
        left_(std::max(0.0, total_ - kFinishSeconds * members_left_)),
        least_(std::min(kLeastBudget, std::max(kLeastBudget, total_) /
                                          static_cast<double>(std::max<size_t>(lanes, 1)))) {}

  // Seconds for the next lane.
  double Next(size_t lane_members) {
    const auto members = static_cast<double>(lane_members);
    const double share = left_ * members / members_left_;
    members_left_ -= members;
    return std::max(
        {least_, std::min(kLeastBudgetPerBuffer * members, kMostOfBudget * total_), share});
  }
  void Spend(absl::Duration time) { left_ = std::max(0.0, left_ - absl::ToDoubleSeconds(time)); }

 private:
  double total_;
  double members_left_;
  double left_;
  double least_;
};

absl::StatusOr<planner::Plan> SolveLane(const PlanRequest& request, const Instance& instance,
                                        const planner::Options& options, const LaneWork& lane) {
  if (request.mode == LaneMode::kNone) return planner::Solve(instance, options);
  return SolveInPlace(instance, PreviousOf(request.recording, lane.members, request.learned),
                      options, lane.on_pages);
}

// Plans a lane with loops: what the prefix, one period of each body and the suffix need.
absl::StatusOr<planner::Plan> SolveLoopedLane(const PlanRequest& request, LaneWork& lane,
                                              const planner::Options& options) {
  const Recording& recording = request.recording;
  std::vector<uint32_t> buffer_of(recording.allocations.size(), kNoBuffer);
  LoopedInstance looped =
      MakeLoopedInstance(recording, request.block_bytes, *lane.loops, request.learned, buffer_of);
  lane.on_pages = LengthenForPages(looped.instance);
  std::vector<uint32_t> previous(looped.members.size(), kNoBuffer);
  for (size_t k = 0; k < looped.members.size(); ++k) {
    const Allocation& allocation = recording.allocations[looped.members[k]];
    if (allocation.previous == trace::kNone ||
        recording.allocations[allocation.previous].thread != allocation.thread ||
        request.learned.upper.contains(allocation.previous)) {
      continue;
    }
    previous[k] = buffer_of[allocation.previous];
  }
  absl::StatusOr<planner::Plan> plan = SolveInPlace(looped.instance, std::move(previous), options,
                                                    lane.on_pages, looped.same_offset);
  if (!plan.ok()) return plan;
  std::vector<int64_t> offsets;
  offsets.reserve(lane.members.count);
  for (size_t k = 0; k < lane.members.count; ++k) {
    offsets.push_back(plan->offsets[buffer_of[lane.members[k]]]);
  }
  plan->offsets = std::move(offsets);
  return plan;
}

// When a lane holds memory, in events of the recording.
Buffer BoxTimes(const Recording& recording, const Members& members) {
  Buffer box;
  box.lower = static_cast<int64_t>(recording.allocations[members[0]].birth);
  for (size_t k = 0; k < members.count; ++k) {
    const uint64_t death = std::min(recording.allocations[members[k]].death, recording.events);
    box.upper = std::max(box.upper, static_cast<int64_t>(death));
  }
  return box;
}

}  // namespace

Instance LaneInstance(const Recording& recording, const BlockBytes& block_bytes,
                      const Members& members, const Learned& learned) {
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

bool HasLanePerThread(const Recording& recording, LaneMode mode) {
  return mode != LaneMode::kNone && recording.threads.size() > 1;
}

std::vector<LaneWork> SplitIntoLanes(const Recording& recording, LaneMode mode) {
  if (!HasLanePerThread(recording, mode)) {
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

absl::Status PlanLanes(const PlanRequest& request, std::vector<LaneWork>& lanes) {
  LaneBudgets budgets(request, lanes.size());
  for (LaneWork& lane : lanes) {
    if (lane.members.count == 0) continue;
    planner::Options options = request.options;
    options.budget_seconds = budgets.Next(lane.members.count);
    const absl::Time start = absl::Now();
    absl::StatusOr<planner::Plan> plan;
    if (lane.loops != nullptr) {
      plan = SolveLoopedLane(request, lane, options);
      // Planned as if it had none.
      if (absl::IsFailedPrecondition(plan.status())) lane.loops = nullptr;
    }
    if (lane.loops == nullptr) {
      Instance instance =
          LaneInstance(request.recording, request.block_bytes, lane.members, request.learned);
      lane.on_pages = request.mode != LaneMode::kNone && LengthenForPages(instance);
      plan = SolveLane(request, instance, options, lane);
    }
    if (!plan.ok()) return plan.status();
    budgets.Spend(absl::Now() - start);
    lane.plan = *std::move(plan);
    if (static_cast<uint64_t>(lane.plan.makespan) / kGranule >= kMostLaneGranules) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a lane needs ", lane.plan.makespan, " bytes; replay serves up to 32 GiB"));
    }
    for (size_t k = 0; k < lane.members.count; ++k) {
      const int log2 = request.recording.allocations[lane.members[k]].log2_alignment;
      lane.alignment = std::max(lane.alignment, int64_t{1} << log2);
    }
    lane.box = BoxTimes(request.recording, lane.members);
    lane.box.size = planner::RoundUp(lane.plan.makespan, kBoxAlignment);
  }
  return absl::OkStatus();
}

}  // namespace reprise::replay
