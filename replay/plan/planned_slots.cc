#include "replay/plan/planned_slots.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "replay/plan/stream.h"

namespace reprise::replay {
namespace {

constexpr size_t kLeastSlots = 64;  // of a kind that visits as many places

}  // namespace

SlotGatherer::SlotGatherer(const std::vector<PlanKey>& keys)
    : keys_(keys), kind_(keys.size()), tally_(keys.size()) {
  // Keys that differ only in what malloc_usable_size answered are one kind.
  absl::flat_hash_map<std::tuple<uint64_t, uint64_t, uint32_t, uint32_t>, uint32_t> kinds;
  for (uint32_t key = 0; key < keys.size(); ++key) {
    const PlanKey& it = keys[key];
    kind_[key] =
        kinds.try_emplace({it.shape, it.site_offset, it.module, it.depth}, key).first->second;
  }
}

void SlotGatherer::Gather(std::span<const uint32_t> words, uint32_t offset_bits,
                          const std::vector<PlanBlock>& placements, uint64_t box_bytes,
                          uint64_t first_slot) {
  FindPeaks(words, offset_bits, box_bytes);
  visited_.clear();
  for (const PlanBlock& block : placements) {
    const uint32_t kind = kind_[block.key];
    Tally& tally = tally_[kind];
    const uint64_t dwelt = std::min<uint64_t>(block.death, words.size()) - block.birth;
    // Equal offsets come one after the other.
    if (tally.visits != 0 && visited_[tally.latest].offset == block.offset) {
      visited_[tally.latest].dwelt += dwelt;
      continue;
    }
    if (tally.visits++ == 0) kinds_.push_back(kind);
    tally.latest = visited_.size();
    visited_.push_back({kind, block.offset, dwelt});
  }
  // By kind, each kind's still by offset.
  std::sort(kinds_.begin(), kinds_.end());
  uint64_t next = 0;
  for (const uint32_t kind : kinds_) {
    tally_[kind].latest = next;
    next += tally_[kind].visits;
  }
  std::vector<Visited> by_kind(visited_.size());
  for (const Visited& place : visited_) by_kind[tally_[place.kind].latest++] = place;
  rings_.clear();
  slots_.clear();
  auto begin = by_kind.begin();
  for (const uint32_t kind : kinds_) {
    const auto end = begin + tally_[kind].visits;
    const bool is_long = ShapeGranules(keys_[kind].shape) >= kLongGapGranules;
    const size_t most = is_long ? 1 : std::max(kLeastSlots, size_t{tally_[kind].peak});
    rings_.push_back({kind, 0, first_slot + slots_.size()});
    AddLongest({begin, end}, most);
    rings_.back().count =
        static_cast<uint32_t>(first_slot + slots_.size() - rings_.back().first_slot);
    tally_[kind] = {};
    begin = end;
  }
  kinds_.clear();
}

// How many blocks of each kind live at one time.
void SlotGatherer::FindPeaks(std::span<const uint32_t> words, uint32_t offset_bits,
                             uint64_t box_bytes) {
  const auto count = [&](auto& live_at) {
    for (const uint32_t* at = words.data();;) {
      const Word word = DecodeWord(at, offset_bits);
      if (word.kind == Word::kEnded) break;
      if (word.kind == Word::kAllocation) {
        Tally& tally = tally_[live_at[word.granule] = kind_[word.key]];
        tally.peak = std::max(tally.peak, ++tally.live);
      } else if (word.kind == Word::kFree || word.kind == Word::kDrained) {
        --tally_[live_at[word.granule]].live;
      }
      at += word.length;
    }
  };
  constexpr uint64_t kFewWords = 256;  // granules for each of them
  if (box_bytes / kGranule > kFewWords * words.size()) {
    absl::flat_hash_map<uint64_t, uint32_t> live_at;
    return count(live_at);
  }
  if (room_ < box_bytes / kGranule) {
    room_ = box_bytes / kGranule;
    live_at_ = std::make_unique_for_overwrite<uint32_t[]>(room_);
  }
  count(live_at_);
}

// Appends those places of a kind, sorted by offset, where its blocks were for longest.
void SlotGatherer::AddLongest(std::span<const Visited> places, size_t most) {
  uint64_t least = 0;
  size_t of_least = SIZE_MAX;  // places with just that, of those that may come
  if (places.size() > most) {
    dwelt_.clear();
    for (const Visited& place : places) dwelt_.push_back(place.dwelt);
    std::nth_element(dwelt_.begin(), dwelt_.begin() + most - 1, dwelt_.end(), std::greater<>());
    least = dwelt_[most - 1];
    of_least = most - std::count_if(dwelt_.begin(), dwelt_.begin() + most,
                                    [least](uint64_t dwelt) { return dwelt > least; });
  }
  for (const Visited& place : places) {
    if (place.dwelt < least || (place.dwelt == least && of_least == 0)) continue;
    if (place.dwelt == least) --of_least;
    slots_.push_back(place.offset);
  }
}

}  // namespace reprise::replay
