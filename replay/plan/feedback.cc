#include "replay/plan/feedback.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "replay/plan/plan_format.h"

namespace reprise::replay {
namespace {

// One place more for so many.
constexpr uint32_t kSpareShare = 8;

using planner::Instance;
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

using KindName = std::tuple<uint64_t, uint64_t, uint32_t, uint64_t, uint32_t>;

KindName NameOf(uint64_t lane, uint64_t shape, const trace::Site& site) {
  return {lane, shape, site.module, site.offset, site.depth % kDepths};
}

// A kind that the recording does not have is no reason to refuse the rest: where a library was
// unloaded, its call sites may have been taken for those of another.
void LearnKinds(const Recording& recording, const std::vector<CrowdedKind>& kinds,
                Learned& learned) {
  absl::flat_hash_map<KindName, uint32_t> names;
  absl::flat_hash_set<uint64_t> shapes;  // most allocations need not be looked at any closer
  for (const CrowdedKind& kind : kinds) {
    const auto [entry, fresh] = names.try_emplace(NameOf(kind.lane, kind.shape, kind.site),
                                                  static_cast<uint32_t>(learned.missed.size()));
    if (fresh) learned.missed.push_back(0);
    learned.missed[entry->second] = std::max(learned.missed[entry->second], kind.missed);
    shapes.insert(kind.shape);
  }
  if (names.empty()) return;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    if (!shapes.contains(ShapeOf(allocation))) continue;
    const trace::Site site =
        allocation.site == trace::kNone ? trace::Site() : recording.sites[allocation.site];
    const auto kind =
        names.find(NameOf(recording.threads[allocation.thread].path, ShapeOf(allocation), site));
    if (kind != names.end()) learned.kind[i] = kind->second;
  }
}

// A crowded kind's buffers and the places that they could have for themselves.
struct Pool {
  std::vector<uint32_t> buffers;   // by birth
  std::vector<uint32_t> place_of;  // per buffer
  uint32_t places = 0;
  int64_t place_bytes = 0;
  int64_t alignment = 1;
  uint64_t missed = 0;

  int64_t bytes() const { return places * place_bytes; }
};

// As many places as the kind has blocks at one time, and some more, because the next run may have
// more of them. They are taken in turns.
void AssignPlaces(const Instance& instance, Pool& pool) {
  using Free = std::pair<int64_t, uint32_t>;  // from when on, which place
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free_places;
  const auto assign = [&](bool add) {
    for (const uint32_t buffer : pool.buffers) {
      uint32_t place = pool.places;
      if (!free_places.empty() && free_places.top().first <= instance.buffers[buffer].lower) {
        place = free_places.top().second;
        free_places.pop();
      } else {
        ++pool.places;
      }
      if (!add) pool.place_of.push_back(place);
      free_places.emplace(instance.buffers[buffer].upper, place);
    }
  };
  assign(/*add=*/true);
  pool.places = std::min<uint32_t>(pool.places + 1 + pool.places / kSpareShare,
                                   static_cast<uint32_t>(pool.buffers.size()));
  free_places = {};
  for (uint32_t place = 0; place < pool.places; ++place) free_places.emplace(INT64_MIN, place);
  assign(/*add=*/false);
  for (const uint32_t buffer : pool.buffers) {
    pool.place_bytes = std::max(pool.place_bytes, instance.buffers[buffer].size);
    if (!instance.alignments.empty()) {
      pool.alignment = std::max(pool.alignment, instance.alignments[buffer]);
    }
  }
  pool.alignment = std::max(pool.alignment, instance.alignment);
  pool.place_bytes = planner::RoundUp(pool.place_bytes, pool.alignment);
}

std::vector<Pool> PoolsOf(const Instance& instance, const Learned& learned,
                          const std::vector<uint32_t>& members) {
  std::vector<Pool> pools(learned.missed.size());
  for (uint32_t k = 0; k < members.size(); ++k) {
    const auto kind = learned.kind.find(members[k]);
    if (kind != learned.kind.end()) pools[kind->second].buffers.push_back(k);
  }
  for (size_t kind = 0; kind < pools.size(); ++kind) {
    pools[kind].missed = learned.missed[kind];
    AssignPlaces(instance, pools[kind]);
  }
  std::erase_if(pools, [](const Pool& pool) { return pool.buffers.empty(); });
  return pools;
}

}  // namespace

absl::StatusOr<Learned> Learn(const Recording& recording, const Lessons& lessons) {
  Learned learned;
  const absl::Status status = LearnLifetimes(recording, lessons.squatters, learned);
  if (!status.ok()) return status;
  LearnKinds(recording, lessons.kinds, learned);
  learned.most_reserved = lessons.annex_bytes;
  return learned;
}

Reserved ReservePlaces(const Instance& instance, const Learned& learned,
                       const std::vector<uint32_t>& members, uint64_t most_bytes) {
  std::vector<Pool> pools = PoolsOf(instance, learned, members);
  std::stable_sort(pools.begin(), pools.end(), [](const Pool& a, const Pool& b) {
    return static_cast<double>(a.missed) * static_cast<double>(b.bytes()) >
           static_cast<double>(b.missed) * static_cast<double>(a.bytes());
  });
  int64_t left = static_cast<int64_t>(most_bytes);
  std::erase_if(pools, [&](const Pool& pool) {
    if (pool.bytes() > left) return true;
    left -= pool.bytes();
    return false;
  });
  // The strictest alignment first, so that none is lost between them.
  std::stable_sort(pools.begin(), pools.end(),
                   [](const Pool& a, const Pool& b) { return a.alignment > b.alignment; });
  Reserved reserved;
  reserved.offset.assign(members.size(), Reserved::kNotReserved);
  if (!pools.empty()) reserved.alignment = pools.front().alignment;
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.buffers.size(); ++i) {
      reserved.offset[pool.buffers[i]] = reserved.bytes + pool.place_of[i] * pool.place_bytes;
      reserved.buffers += learned.upper.contains(members[pool.buffers[i]]) ? 0 : 1;
    }
    reserved.bytes += pool.bytes();
  }
  reserved.others.alignment = instance.alignment;
  for (size_t k = 0; k < members.size(); ++k) {
    if (reserved.offset[k] != Reserved::kNotReserved) continue;
    reserved.others.buffers.push_back(instance.buffers[k]);
    if (instance.alignments.empty()) continue;
    reserved.others.alignments.push_back(instance.alignments[k]);
  }
  return reserved;
}

}  // namespace reprise::replay
