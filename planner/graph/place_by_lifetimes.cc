#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/graph/place.h"

namespace reprise::planner::graph {
namespace {

// The buffer of a group: it lives as long as any member, and in parts of that only the members that
// live then are in use; what is between the first and the last of them counts as used.
class GroupBuffer {
 public:
  GroupBuffer(const PreparedGraph& flow, const std::vector<Span>& spans,
              const std::vector<uint32_t>& group)
      : flow_(flow), spans_(spans), group_(group) {}

  absl::Status Add(Instance& instance, std::vector<int64_t>& relative) const {
    const uint32_t index = static_cast<uint32_t>(instance.buffers.size());
    int64_t size = 0, alignment = 1, offset = Instance::kFree;
    std::vector<int64_t> times;
    for (const uint32_t s : group_) {
      const Storage& storage = flow_.storages[s];
      relative[s] = size;
      if (size % storage.alignment != 0) {
        return absl::FailedPreconditionError(
            "--strategy: this one needs groups whose members are all aligned as the group is; auto "
            "takes others");
      }
      alignment = std::max(alignment, storage.alignment);
      if (storage.offset != kFree) offset = storage.offset - size;
      size += storage.bytes;
      if (storage.bytes == 0) continue;
      times.push_back(spans_[s].lower);
      times.push_back(spans_[s].upper);
    }
    if (size == 0) return absl::OkStatus();
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    instance.buffers.push_back({times.front(), times.back(), size});
    instance.alignments.push_back(alignment);
    instance.fixed_offsets.push_back(offset);
    for (size_t i = 0; i + 1 < times.size(); ++i) {
      int64_t lower = size, upper = 0;
      for (const uint32_t s : group_) {
        const int64_t bytes = flow_.storages[s].bytes;
        if (bytes == 0 || spans_[s].lower > times[i] || spans_[s].upper <= times[i]) continue;
        lower = std::min(lower, relative[s]);
        upper = std::max(upper, relative[s] + bytes);
      }
      if (lower >= upper) lower = upper = 0;
      if (lower == 0 && upper == size) continue;
      instance.gaps.push_back({index, times[i], times[i + 1], lower, upper});
    }
    return absl::OkStatus();
  }

 private:
  const PreparedGraph& flow_;
  const std::vector<Span>& spans_;
  const std::vector<uint32_t>& group_;
};

// As PlaceByConflicts says it; the caller puts names in.
absl::Status CheckGiven(const PreparedGraph& flow, const std::vector<Span>& spans) {
  std::vector<uint32_t> given;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (flow.storages[s].offset != kFree && flow.storages[s].bytes > 0) given.push_back(s);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const Storage& a = flow.storages[given[i]];
    for (size_t j = i + 1; j < given.size(); ++j) {
      const Storage& b = flow.storages[given[j]];
      if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) continue;
      const Span& x = spans[given[i]];
      const Span& y = spans[given[j]];
      if (x.lower >= y.upper || y.lower >= x.upper) continue;
      return absl::InvalidArgumentError(absl::StrCat("storages ", given[i], " ", given[j]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placed> PlaceByLifetimes(const PreparedGraph& flow, const Options& options) {
  const std::vector<Span> spans = Lifetimes(flow, flow.sequence);
  if (absl::Status status = CheckGiven(flow, spans); !status.ok()) return status;
  Instance instance;
  std::vector<uint32_t> buffer_of(flow.storages.size(), kNone);
  std::vector<int64_t> relative(flow.storages.size(), 0);
  std::vector<uint8_t> grouped(flow.storages.size(), 0);
  for (const auto& group : flow.groups) {
    const uint32_t index = static_cast<uint32_t>(instance.buffers.size());
    const absl::Status status = GroupBuffer(flow, spans, group).Add(instance, relative);
    if (!status.ok()) return status;
    for (const uint32_t s : group) {
      grouped[s] = 1;
      if (instance.buffers.size() > index) buffer_of[s] = index;
    }
  }
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    const Storage& storage = flow.storages[s];
    if (grouped[s] || storage.bytes == 0) continue;
    buffer_of[s] = static_cast<uint32_t>(instance.buffers.size());
    instance.buffers.push_back({spans[s].lower, spans[s].upper, storage.bytes});
    instance.alignments.push_back(storage.alignment);
    instance.fixed_offsets.push_back(storage.offset);
  }
  const auto is_default = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  instance.alignment = flow.alignment;
  if (is_default(instance.alignments, flow.alignment)) instance.alignments.clear();
  if (is_default(instance.fixed_offsets, Instance::kFree)) instance.fixed_offsets.clear();

  const absl::StatusOr<Plan> plan = Solve(instance, options);
  if (!plan.ok()) return plan.status();
  Placed placed;
  placed.offsets.assign(flow.storages.size(), 0);
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    if (buffer_of[s] != kNone) {
      placed.offsets[s] = plan->offsets[buffer_of[s]] + relative[s];
    } else if (grouped[s]) {
      placed.offsets[s] = relative[s];
    } else if (flow.storages[s].offset != kFree) {
      placed.offsets[s] = flow.storages[s].offset;
    }
  }
  placed.makespan = plan->makespan;
  // Spared memory inside of groups may make the instance's own bounds too high.
  placed.lower_bound = flow.groups.empty() ? plan->lower_bound : Peak(flow, flow.sequence);
  placed.finder = plan->strategy;
  placed.proven_optimal = placed.makespan == placed.lower_bound;
  return placed;
}

}  // namespace reprise::planner::graph
