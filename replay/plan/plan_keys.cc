#include "replay/plan/plan_keys.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "replay/plan/stream.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::Recording;

// Codes of all ones say "far", whatever their width, so these indices name no key.
bool IsReserved(uint64_t index) { return index != 0 && (index & (index + 1)) == 0; }

// For each site the first one that replay does not tell from it: it sees no call stacks.
std::vector<uint32_t> WithoutStacks(const std::vector<trace::Site>& sites) {
  std::vector<uint32_t> same(sites.size());
  absl::flat_hash_map<std::tuple<uint32_t, uint64_t, uint32_t>, uint32_t> first;
  for (uint32_t i = 0; i < sites.size(); ++i) {
    same[i] = first.try_emplace({sites[i].module, sites[i].offset, sites[i].depth % kDepths}, i)
                  .first->second;
  }
  return same;
}

}  // namespace

Keys FindKeys(const Recording& recording, const BlockBytes& block_bytes) {
  absl::flat_hash_map<uint32_t, uint64_t> answers;
  for (const auto& [allocation, answer] : recording.usable_answers) {
    // Some allocators answer what was asked for, which may be nothing.
    const uint64_t told = std::max<uint64_t>(answer, recording.allocations[allocation].size);
    answers[allocation] = 8 * ShapeUnits(Shape(told, 4));
  }
  const auto usable = [&](uint32_t allocation) {
    const auto found = answers.find(allocation);
    return found == answers.end() ? block_bytes[allocation] : found->second;
  };
  const std::vector<uint32_t> same = WithoutStacks(recording.sites);
  absl::flat_hash_map<std::tuple<uint64_t, uint32_t, uint64_t>, uint32_t> index;
  std::vector<PlanKey> found;
  std::vector<uint64_t> count;
  Keys result;
  result.of.reserve(recording.allocations.size());
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    const uint64_t shape = Shape(allocation.size, allocation.log2_alignment);
    const uint64_t told = usable(i);
    const uint32_t site = allocation.site == trace::kNone ? trace::kNone : same[allocation.site];
    const auto [entry, fresh] =
        index.try_emplace(std::make_tuple(shape, site, told), static_cast<uint32_t>(found.size()));
    if (fresh) {
      PlanKey key{shape, 0, kNoModule, 0, told};
      if (site != trace::kNone) {
        const trace::Site& where = recording.sites[site];
        key.site_offset = where.offset;
        key.module = where.module == trace::kNone ? kNoModule : where.module;
        key.depth = where.depth % kDepths;
      }
      found.push_back(key);
      count.push_back(0);
    }
    ++count[entry->second];
    result.of.push_back(entry->second);
  }
  std::vector<uint32_t> order(found.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return count[a] > count[b]; });
  std::vector<uint32_t> place(found.size());
  for (const uint32_t key : order) {
    while (IsReserved(result.keys.size())) result.keys.push_back({0, 0, kNoModule, 0, 0});
    place[key] = static_cast<uint32_t>(result.keys.size());
    result.keys.push_back(found[key]);
  }
  // Up to a reserved index, so that every code, far ones included, names an entry.
  result.keys.resize(std::bit_ceil(result.keys.size() + 1), {0, 0, kNoModule, 0, 0});
  for (uint32_t& key : result.of) key = place[key];
  return result;
}

}  // namespace reprise::replay
