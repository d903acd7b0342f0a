#include "replay/plan/lane_choice.h"

#include <algorithm>
#include <numeric>

#include "base/page.h"
#include "planner/core/instance.h"

namespace reprise::replay {
namespace {

// What all lanes may cost together, and what the lanes of some threads may: a part of the max load,
// or so many bytes.
constexpr int64_t kShareOfAll = 4;
constexpr int64_t kLeastPerThread = 256 << 10;
constexpr int64_t kFewThreads = 32;  // for which that holds
constexpr int64_t kShareOfSome = 32;
constexpr int64_t kLeastOfSome = 256 << 10;
// Idle bytes beyond which pages certainly go back to the system. The heap's own rule goes by the
// length of blocks (replay/arena/heap.h), and keeps less.
constexpr int64_t kMostIdleBytes = 16 << 20;

// Looks at the lanes at so many instants.
class Instants {
 public:
  Instants(size_t lanes, int64_t events) : events_(std::max<int64_t>(events, 1)) {
    constexpr size_t kMost = 1024, kLeastCount = 16, kNumbers = 1 << 22;
    count_ = std::clamp(kNumbers / std::max<size_t>(lanes, 1), kLeastCount, kMost);
  }
  size_t count() const { return count_; }
  // The first instant that is not before this event.
  size_t From(int64_t event) const {
    const auto at = (event * static_cast<int64_t>(count_) + events_ - 1) / events_;
    return std::min(static_cast<size_t>(at), count_);
  }

 private:
  int64_t events_;
  size_t count_;
};

struct Curves {
  std::vector<int64_t> live;  // bytes per instant
  std::vector<int64_t> free;  // bytes per instant, in the used part of the box of a running thread
  int64_t box = 0;            // bytes that are used in the end, whole pages
};

Curves Look(const PlannedLane& lane, const Instants& instants) {
  const std::vector<int64_t> none(instants.count() + 1);
  Curves curves{none, none};
  std::vector<int64_t> used = none;
  for (const PlannedLane::Block& block : lane.blocks) {
    const size_t from = instants.From(block.lower), to = instants.From(block.upper);
    used[from] = std::max(used[from], planner::RoundUp(block.end, base::kPageBytes));
    curves.live[from] += block.size;
    curves.live[to] -= block.size;
  }
  std::partial_sum(curves.live.begin(), curves.live.end(), curves.live.begin());
  std::partial_sum(used.begin(), used.end(), used.begin(),
                   [](int64_t a, int64_t b) { return std::max(a, b); });
  curves.box = used.back();
  const size_t end = instants.From(lane.end_event);
  for (size_t at = instants.From(lane.first_event); at < end; ++at) {
    curves.free[at] = std::max<int64_t>(used[at] - curves.live[at], 0);
  }
  return curves;
}

// What a run holds that follows some lanes; to begin with, none.
class Holding {
 public:
  Holding(const std::vector<Curves>& lanes, size_t instants) : heap_(instants), now_(instants) {
    for (const Curves& lane : lanes) {
      for (size_t at = 0; at < instants; ++at) now_[at] = heap_[at] += lane.live[at];
    }
  }
  void Take(const Curves& lane) {
    boxes_ += lane.box;
    for (size_t at = 0; at < now_.size(); ++at) {
      now_[at] += lane.free[at];
      heap_[at] -= lane.live[at];
    }
  }
  int64_t Most() const {
    const int64_t heap = std::max<int64_t>(*std::max_element(heap_.begin(), heap_.end()), 0);
    return std::min(boxes_ + heap, *std::max_element(now_.begin(), now_.end()) + kMostIdleBytes);
  }

 private:
  int64_t boxes_ = 0;          // bytes, of all boxes
  std::vector<int64_t> heap_;  // per instant: live bytes of the other threads
  std::vector<int64_t> now_;   // per instant: live bytes and those that are free in running boxes
};

// Which lanes cost no more than so many bytes. Each is tried once, those with many allocations for
// few free bytes first.
std::vector<bool> TakeCheap(const std::vector<PlannedLane>& lanes,
                            const std::vector<Curves>& curves, int64_t most, Holding& holding) {
  std::vector<double> worth;  // allocations per free byte
  for (size_t i = 0; i < lanes.size(); ++i) {
    const int64_t free = *std::max_element(curves[i].free.begin(), curves[i].free.end());
    worth.push_back(static_cast<double>(lanes[i].blocks.size()) / static_cast<double>(free + 1));
  }
  std::vector<size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return worth[a] > worth[b]; });
  std::vector<bool> taken(lanes.size());
  for (const size_t lane : order) {
    Holding with = holding;
    with.Take(curves[lane]);
    if (with.Most() > most) continue;
    taken[lane] = true;
    holding = std::move(with);
  }
  return taken;
}

}  // namespace

LaneChoice ChooseLanes(const std::vector<PlannedLane>& lanes, int64_t max_load, bool all) {
  int64_t events = 0, threads = 0;
  for (const PlannedLane& lane : lanes) {
    events = std::max(events, lane.end_event);
    threads += lane.blocks.empty() ? 0 : 1;
  }
  const Instants instants(lanes.size(), events);
  std::vector<Curves> curves;
  for (const PlannedLane& lane : lanes) curves.push_back(Look(lane, instants));
  const Holding none(curves, instants.count());
  Holding with_all = none;
  for (const Curves& lane : curves) with_all.Take(lane);
  const int64_t least = threads <= kFewThreads ? threads * kLeastPerThread : 0;
  if (all || with_all.Most() <= max_load + std::max(max_load / kShareOfAll, least)) {
    return {std::vector<bool>(lanes.size(), true), std::max(with_all.Most(), max_load)};
  }
  Holding some = none;
  LaneChoice choice;
  choice.taken =
      TakeCheap(lanes, curves, max_load + std::max(max_load / kShareOfSome, kLeastOfSome), some);
  choice.held = std::max(some.Most(), max_load);
  return choice;
}

}  // namespace reprise::replay
