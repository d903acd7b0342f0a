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

const std::vector<Returned> kNothing;

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

// Which pages hold or held a block and were not given back, on the axis of the offsets.
class PagesHeld {
 public:
  explicit PagesHeld(const std::vector<Returned>& returned) : returned_(returned) {}

  // An allocation more, in order, whether or not it lies anywhere. Returns the bytes of pages that
  // are held from now on, less those that were given back by now.
  int64_t Add(int64_t begin, int64_t end) {
    ++allocations_;
    int64_t added = begin >= 0 ? Touch(begin, end) : 0;
    for (; next_ < returned_.size() && returned_[next_].allocations <= allocations_; ++next_) {
      added -= GiveBack(returned_[next_]);
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
  int64_t GiveBack(const Returned& it) {
    int64_t given = 0;
    const size_t end = std::min(pages_.size(), (it.begin + it.bytes) / kPageBytes);
    for (size_t page = it.begin / kPageBytes; page < end; ++page) {
      given += pages_[page] ? kPageBytes : 0;
      pages_[page] = false;
    }
    return given;
  }

  static constexpr int64_t kPageBytes = base::kPageBytes;
  const std::vector<Returned>& returned_;
  size_t next_ = 0;
  uint64_t allocations_ = 0;
  std::vector<bool> pages_;
  std::vector<int64_t> below_;  // per page
};

// Calls look(event, bytes held, bytes live) after each event that changes them.
template <typename Look>
void ForEachState(const Recording& recording, const std::vector<int64_t>& offsets,
                  const std::vector<Returned>* returned, uint64_t alignment, Look look) {
  HighestEnd ends;
  PagesHeld pages(returned != nullptr ? *returned : kNothing);
  int64_t live = 0, held = 0;
  trace::ForEachEvent(recording, [&](const trace::Event& event) {
    const bool birth = event.kind == trace::EventKind::kAllocate;
    if (!birth && event.kind != trace::EventKind::kFree &&
        event.kind != trace::EventKind::kImpliedFree) {
      return;
    }
    const int64_t offset = offsets[event.block];
    const int64_t bytes = Bytes(recording.allocations[event.block], alignment);
    if (returned != nullptr && birth) held += pages.Add(offset, offset + bytes);
    if (offset < 0) return;
    live += birth ? bytes : -bytes;
    if (returned == nullptr) {
      birth ? ends.Add(offset + bytes) : ends.Remove(offset + bytes);
      held = ends.Get();
    }
    look(event.index, held, live);
  });
}

// Where as much is held as ever, the event at which most of it is live: what lies free then was
// never of use. An allocator may take a last page when the program has freed nearly all.
void FindEvent(const Recording& recording, const std::vector<int64_t>& offsets,
               const std::vector<Returned>* returned, uint64_t alignment, Pins& pins) {
  int64_t most = 0;
  ForEachState(recording, offsets, returned, alignment,
               [&](uint64_t, int64_t held, int64_t) { most = std::max(most, held); });
  const int64_t enough = returned != nullptr ? most - most / 128 : most;
  ForEachState(recording, offsets, returned, alignment,
               [&](uint64_t event, int64_t held, int64_t live) {
                 if (held < enough || live <= pins.live_bytes) return;
                 pins.event = event;
                 pins.held_bytes = held;
                 pins.live_bytes = live;
               });
}

}  // namespace

Pins FindPins(const Recording& recording, const std::vector<int64_t>& offsets,
              const std::vector<Returned>* returned, size_t most, uint64_t alignment) {
  Pins pins;
  FindEvent(recording, offsets, returned, alignment, pins);
  const bool keeps_pages = returned != nullptr;
  PagesHeld pages(keeps_pages ? *returned : kNothing);
  std::vector<uint32_t> live;
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& it = recording.allocations[i];
    if (it.birth > pins.event) continue;
    if (keeps_pages) pages.Add(offsets[i], offsets[i] + Bytes(it, alignment));
    if (offsets[i] < 0) continue;
    if (pins.event < it.death) live.push_back(i);
  }
  pages.Count();
  const auto held_between = [&](int64_t begin, int64_t end) {
    if (begin >= end) return int64_t{0};
    return keeps_pages ? pages.BytesBelow(end) - pages.BytesBelow(begin) : end - begin;
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
  const int64_t above_all = live.empty() ? 0 : held_between(end, keeps_pages ? INT64_MAX : end);
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
