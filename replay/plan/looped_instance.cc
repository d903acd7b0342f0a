#include "replay/plan/looped_instance.h"

#include <algorithm>
#include <numeric>

#include "replay/plan/plan_format.h"

namespace reprise::replay {
namespace {

using planner::Buffer;
using planner::Instance;
using trace::Allocation;
using trace::Recording;

// Translates learned ends of lives, which are events of the recording, to steps of the short lane.
class StepTimes {
 public:
  StepTimes(const Recording& recording, const LaneLoops& lane, const ShortLane& shortened)
      : shortened_(shortened) {
    size_t body = 0, dropped = 0;
    for (size_t at = 0; at < shortened.steps.size(); ++at) {
      if (body < shortened.bodies.size() && at == shortened.bodies[body].end) {
        const ShortLane::Body& passed = shortened.bodies[body++];
        dropped += passed.loop.end() - passed.loop.begin - (passed.end - passed.begin);
      }
      const uint32_t step = lane.steps[at + dropped];
      const Allocation& allocation = recording.allocations[step & ~kStepFrees];
      events_.push_back(step >= kStepFrees ? allocation.death : uint64_t{allocation.birth});
    }
  }

  // The step for an event; a block that is born in a body must not outlive it.
  int64_t End(int64_t birth, uint64_t event) const {
    auto end = static_cast<int64_t>(std::lower_bound(events_.begin(), events_.end(), event) -
                                    events_.begin());
    for (const ShortLane::Body& body : shortened_.bodies) {
      if (birth >= body.begin && birth < body.end) end = std::min<int64_t>(end, body.end);
    }
    return end;
  }

 private:
  const ShortLane& shortened_;
  std::vector<uint64_t> events_;
};

}  // namespace

LoopedInstance MakeLoopedInstance(const Recording& recording, const BlockBytes& block_bytes,
                                  const LaneLoops& lane, const Learned& learned,
                                  std::vector<uint32_t>& buffer_of) {
  std::vector<uint32_t> stands_for(recording.allocations.size());
  const ShortLane shortened = Shorten(lane, /*with_copies=*/false, stands_for);
  LoopedInstance looped;
  Instance& instance = looped.instance;
  instance.alignment = kGranule;
  const auto end = static_cast<int64_t>(shortened.steps.size());
  bool aligned = false;
  for (int64_t at = 0; at < end; ++at) {
    const uint32_t allocation = shortened.steps[static_cast<size_t>(at)] & ~kStepFrees;
    if (allocation != shortened.steps[static_cast<size_t>(at)]) {
      instance.buffers[buffer_of[allocation]].upper = at;
      continue;
    }
    buffer_of[allocation] = static_cast<uint32_t>(instance.buffers.size());
    looped.members.push_back(allocation);
    instance.buffers.push_back({at, end, static_cast<int64_t>(block_bytes[allocation])});
    aligned = aligned || recording.allocations[allocation].log2_alignment > 4;
  }
  for (const uint32_t step : lane.steps) {
    if (step < kStepFrees) buffer_of[step] = buffer_of[stands_for[step]];
  }
  for (const auto& [former, latter] : lane.same_offset) {
    looped.same_offset.emplace_back(buffer_of[former], buffer_of[latter]);
  }
  for (const uint32_t member : looped.members) {
    if (!aligned) break;
    const int log2 = std::max<int>(4, recording.allocations[member].log2_alignment);
    instance.alignments.push_back(int64_t{1} << log2);
  }
  if (learned.upper.empty()) return looped;
  const StepTimes times(recording, lane, shortened);
  // What is carried into a pass may live until its successor needs the offset; what a pass carries
  // out of it dies in the next one, where it is the former of the two.
  constexpr int64_t kAny = INT64_MAX, kAsRecorded = 0;
  std::vector<int64_t> most(looped.members.size(), kAny);
  for (const auto& [former, latter] : looped.same_offset) {
    if (most[latter] == kAny) most[latter] = kAsRecorded;
    most[former] = instance.buffers[latter].lower;
  }
  for (size_t k = 0; k < looped.members.size(); ++k) {
    const auto later = learned.upper.find(looped.members[k]);
    if (later == learned.upper.end()) continue;
    Buffer& buffer = instance.buffers[k];
    const int64_t upper = std::min(most[k], times.End(buffer.lower, later->second));
    buffer.upper = std::max(buffer.upper, upper);
  }
  return looped;
}

std::optional<Merged> Merge(const Instance& instance, const SameOffset& same_offset) {
  const size_t count = instance.buffers.size();
  // The first buffer of each group, by birth.
  std::vector<uint32_t> first(count);
  std::iota(first.begin(), first.end(), 0);
  const auto find = [&](uint32_t k) {
    while (first[k] != k) k = first[k] = first[first[k]];
    return k;
  };
  for (const auto& [former, latter] : same_offset) {
    const uint32_t a = find(former), b = find(latter);
    first[std::max(a, b)] = std::min(a, b);
  }
  Merged merged;
  merged.instance.alignment = instance.alignment;
  merged.instance.start_address = instance.start_address;
  merged.buffer_of.resize(count);
  const bool aligned = !instance.alignments.empty();
  for (uint32_t k = 0; k < count; ++k) {
    const uint32_t group = find(k);
    const Buffer& buffer = instance.buffers[k];
    if (group == k) {
      merged.buffer_of[k] = static_cast<uint32_t>(merged.instance.buffers.size());
      merged.instance.buffers.push_back(buffer);
      if (aligned) merged.instance.alignments.push_back(instance.alignments[k]);
      continue;
    }
    const uint32_t to = merged.buffer_of[k] = merged.buffer_of[group];
    Buffer& whole = merged.instance.buffers[to];
    if (buffer.lower < whole.upper) return std::nullopt;
    if (buffer.lower > whole.upper) {
      merged.instance.gaps.push_back({to, whole.upper, buffer.lower, 0, 0});
    }
    whole.upper = buffer.upper;
    whole.size = std::max(whole.size, buffer.size);
    if (aligned) {
      int64_t& alignment = merged.instance.alignments[to];
      alignment = std::max(alignment, instance.alignments[k]);
    }
  }
  std::sort(merged.instance.gaps.begin(), merged.instance.gaps.end(),
            [](const planner::Gap& a, const planner::Gap& b) {
              return a.buffer != b.buffer ? a.buffer < b.buffer : a.lower < b.lower;
            });
  return merged;
}

}  // namespace reprise::replay
