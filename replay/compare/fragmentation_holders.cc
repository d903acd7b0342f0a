#include "replay/compare/fragmentation_holders.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/page.h"
#include "trace/reader.h"
#include "trace/statistics.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::kNone;
using trace::Recording;

int64_t Bytes(const Allocation& allocation, uint64_t alignment) {
  return static_cast<int64_t>(trace::BlockBytes(allocation.size, alignment));
}

// The highest end among live blocks: a heap with lazy deletion.
class HighestEnd {
 public:
  void Add(int64_t end) {
    ends_.push_back(end);
    std::push_heap(ends_.begin(), ends_.end());
  }
  void Remove(int64_t end) {
    gone_.push_back(end);
    std::push_heap(gone_.begin(), gone_.end());
  }
  int64_t Get() {
    while (!gone_.empty() && gone_.front() == ends_.front()) {
      std::pop_heap(gone_.begin(), gone_.end());
      gone_.pop_back();
      std::pop_heap(ends_.begin(), ends_.end());
      ends_.pop_back();
    }
    return ends_.empty() ? 0 : ends_.front();
  }

 private:
  std::vector<int64_t> ends_, gone_;
};

// Which pages were ever touched, on the axis of the offsets.
class TouchedPages {
 public:
  // Returns the bytes of pages that had not been touched before.
  int64_t Touch(int64_t begin, int64_t end) {
    const auto last = static_cast<size_t>((std::max(end, begin + 1) - 1) / kPageBytes);
    if (last >= pages_.size()) pages_.resize(std::max(last + 1, pages_.size() * 2));
    int64_t added = 0;
    for (auto page = static_cast<size_t>(begin / kPageBytes); page <= last; ++page) {
      added += pages_[page] ? 0 : kPageBytes;
      pages_[page] = true;
    }
    return added;
  }

  // From now on BytesBelow may be asked.
  void Count() {
    below_.assign(pages_.size() + 1, 0);
    for (size_t i = 0; i < pages_.size(); ++i) {
      below_[i + 1] = below_[i] + (pages_[i] ? kPageBytes : 0);
    }
  }
  int64_t BytesBelow(int64_t offset) const {
    const auto page = static_cast<size_t>(offset / kPageBytes);
    if (page >= pages_.size()) return below_.back();
    return below_[page] + (pages_[page] ? offset % kPageBytes : 0);
  }

 private:
  static constexpr int64_t kPageBytes = base::kPageBytes;
  std::vector<bool> pages_;
  std::vector<int64_t> below_;  // per page
};

// Finds the event at which the most is held: the first one, because what becomes free later, when
// the program gives back what it has, was needed once.
void FindEvent(const Recording& recording, const std::vector<int64_t>& offsets, bool grows_only,
               uint64_t alignment, Pins& pins) {
  HighestEnd ends;
  TouchedPages touched;
  int64_t live = 0, held = 0;
  const auto step = [&](const trace::Event& event) {
    const bool birth = event.kind == trace::EventKind::kAllocate;
    if (!birth && event.kind != trace::EventKind::kFree &&
        event.kind != trace::EventKind::kImpliedFree) {
      return;
    }
    const int64_t offset = offsets[event.block];
    if (offset < 0) return;
    const int64_t bytes = Bytes(recording.allocations[event.block], alignment);
    live += birth ? bytes : -bytes;
    if (grows_only) {
      if (birth) held += touched.Touch(offset, offset + bytes);
    } else {
      birth ? ends.Add(offset + bytes) : ends.Remove(offset + bytes);
      held = ends.Get();
    }
    if (held <= pins.held_bytes) return;
    pins.event = event.index;
    pins.held_bytes = held;
    pins.live_bytes = live;
  };
  trace::ForEachEvent(recording, step);
}

}  // namespace

Pins FindPins(const Recording& recording, const std::vector<int64_t>& offsets, bool grows_only,
              size_t most, uint64_t alignment) {
  Pins pins;
  FindEvent(recording, offsets, grows_only, alignment, pins);
  TouchedPages touched;
  std::vector<uint32_t> live;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& it = recording.allocations[i];
    if (it.birth > pins.event || offsets[i] < 0) continue;
    if (grows_only) touched.Touch(offsets[i], offsets[i] + Bytes(it, alignment));
    if (pins.event < it.death) live.push_back(i);
  }
  touched.Count();
  const auto held_between = [&](int64_t begin, int64_t end) {
    if (begin >= end) return int64_t{0};
    return grows_only ? touched.BytesBelow(end) - touched.BytesBelow(begin) : end - begin;
  };
  std::sort(live.begin(), live.end(),
            [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });

  std::map<trace::SitePlace, PinnedBySite> sites;
  int64_t end = 0;                                               // of the blocks so far
  std::vector<std::pair<int64_t, int64_t>> around(live.size());  // free below and above
  for (size_t i = 0; i < live.size(); ++i) {
    const int64_t gap = held_between(end, offsets[live[i]]);
    around[i].first = gap;
    if (i > 0) around[i - 1].second = gap;
    if (gap > 0) ++pins.holes;
    pins.largest_hole = std::max(pins.largest_hole, gap);
    end = std::max(end, offsets[live[i]] + Bytes(recording.allocations[live[i]], alignment));
  }
  const int64_t above_all = live.empty() ? 0 : held_between(end, grows_only ? INT64_MAX : end);
  if (above_all > 0) {
    around.back().second = above_all;
    ++pins.holes;
    pins.largest_hole = std::max(pins.largest_hole, above_all);
  }
  for (size_t i = 0; i < live.size(); ++i) {
    const auto [below, above] = around[i];
    if (below + above == 0) continue;
    pins.blocks.push_back({live[i], below + above});
    const Allocation& it = recording.allocations[live[i]];
    const trace::SitePlace place =
        it.site == kNone ? trace::PlaceOfNone() : trace::PlaceOf(recording.sites[it.site]);
    PinnedBySite& row = sites.try_emplace(place, PinnedBySite{.site = it.site}).first->second;
    // A hole has a block on either side; what is above the last block is its alone.
    const bool last = i + 1 == live.size();
    row.hostage_bytes += (i == 0 ? below : below / 2) + (last ? above : above - above / 2);
    row.bytes += Bytes(it, alignment);
    ++row.blocks;
    row.oldest_age = std::max(row.oldest_age, pins.event - it.birth);
    if (row.threads.size() < 8 &&
        std::find(row.threads.begin(), row.threads.end(), it.thread) == row.threads.end()) {
      row.threads.push_back(it.thread);
      std::sort(row.threads.begin(), row.threads.end());
    }
  }
  std::stable_sort(pins.blocks.begin(), pins.blocks.end(),
                   [](const Pin& a, const Pin& b) { return a.hostage_bytes > b.hostage_bytes; });
  if (pins.blocks.size() > most) pins.blocks.resize(most);
  for (auto& [where, row] : sites) pins.sites.push_back(std::move(row));
  std::stable_sort(pins.sites.begin(), pins.sites.end(),
                   [](const PinnedBySite& a, const PinnedBySite& b) {
                     return a.hostage_bytes > b.hostage_bytes;
                   });
  return pins;
}

}  // namespace reprise::replay
