#include "replay/plan/feedback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::Recording;

// The allocations of a thread, and when the last of them dies.
struct LaneMembers {
  std::vector<uint32_t> allocations;
  uint64_t upper = 0;
};

uint64_t UpperOf(const Recording& recording, const Allocation& allocation) {
  return allocation.death == trace::kNever ? recording.events : allocation.death;
}

uint64_t ShapeOf(const Allocation& allocation) {
  return Shape(allocation.size, allocation.log2_alignment);
}

absl::flat_hash_map<uint64_t, LaneMembers> MembersOf(const Recording& recording,
                                                     const std::vector<Squatter>& squatters) {
  absl::flat_hash_map<uint64_t, LaneMembers> lanes;
  for (const Squatter& squatter : squatters) lanes[squatter.lane];
  if (lanes.empty()) return lanes;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    const auto lane = lanes.find(recording.threads[allocation.thread].path);
    if (lane == lanes.end()) continue;
    lane->second.allocations.push_back(i);
    lane->second.upper = std::max(lane->second.upper, UpperOf(recording, allocation));
  }
  return lanes;
}

absl::Status LearnLifetimes(const Recording& recording, const std::vector<Squatter>& squatters,
                            Learned& learned) {
  const auto lanes = MembersOf(recording, squatters);
  for (const Squatter& squatter : squatters) {
    const LaneMembers& lane = lanes.at(squatter.lane);
    if (squatter.allocation >= lane.allocations.size() ||
        ShapeOf(recording.allocations[lane.allocations[squatter.allocation]]) != squatter.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("allocation ", squatter.allocation,
                       " of a thread is not the one that the recording has there"));
    }
    const uint32_t index = lane.allocations[squatter.allocation];
    const uint64_t upper =
        squatter.freed_before < lane.allocations.size()
            ? uint64_t{recording.allocations[lane.allocations[squatter.freed_before]].birth}
            : lane.upper;
    if (upper <= UpperOf(recording, recording.allocations[index])) continue;
    uint64_t& known = learned.upper[index];
    known = std::max(known, upper);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Learned> Learn(const Recording& recording, const Lessons& lessons) {
  Learned learned;
  learned.from_replays = true;
  const absl::Status status = LearnLifetimes(recording, lessons.squatters, learned);
  if (!status.ok()) return status;
  return learned;
}

}  // namespace reprise::replay
