#include "replay/plan/lane_choice.h"

#include <algorithm>
#include <numeric>

namespace reprise::replay {
namespace {

// What all lanes may cost together, and what the lanes of some threads may: a part of the max load,
// or so many bytes.
constexpr int64_t kShareOfAll = 4;
constexpr int64_t kLeastPerThread = 256 << 10;
constexpr int64_t kMostOfLeast = 8 << 20;
constexpr int64_t kShareOfSome = 16;
constexpr int64_t kLeastOfSome = 512 << 10;

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
  std::vector<int64_t> free;  // bytes per instant, in the used part of the box
};

Curves Look(const PlannedLane& lane, const Instants& instants) {
  Curves curves{std::vector<int64_t>(instants.count() + 1),
                std::vector<int64_t>(instants.count() + 1)};
  std::vector<int64_t> used(instants.count() + 1);
  for (const PlannedLane::Block& block : lane.blocks) {
    const size_t from = instants.From(block.lower), to = instants.From(block.upper);
    used[from] = std::max(used[from], block.end);
    curves.live[from] += block.size;
    curves.live[to] -= block.size;
  }
  std::partial_sum(curves.live.begin(), curves.live.end(), curves.live.begin());
  std::partial_sum(used.begin(), used.end(), used.begin(),
                   [](int64_t a, int64_t b) { return std::max(a, b); });
  const size_t begin = instants.From(lane.first_event), end = instants.From(lane.end_event);
  for (size_t at = begin; at < end; ++at) {
    curves.free[at] = std::max<int64_t>(used[at] - curves.live[at], 0);
  }
  return curves;
}

}  // namespace

LaneChoice ChooseLanes(const std::vector<PlannedLane>& lanes, int64_t max_load, bool all) {
  int64_t events = 0;
  for (const PlannedLane& lane : lanes) events = std::max(events, lane.end_event);
  const Instants instants(lanes.size(), events);
  std::vector<Curves> curves;
  std::vector<int64_t> held(instants.count()), with_all(instants.count());
  std::vector<double> worth;  // allocations per free byte
  for (const PlannedLane& lane : lanes) {
    curves.push_back(Look(lane, instants));
    for (size_t at = 0; at < held.size(); ++at) {
      held[at] += curves.back().live[at];
      with_all[at] += curves.back().live[at] + curves.back().free[at];
    }
    const int64_t free = *std::max_element(curves.back().free.begin(), curves.back().free.end());
    worth.push_back(static_cast<double>(lane.blocks.size()) / static_cast<double>(free + 1));
  }
  std::vector<size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return worth[a] > worth[b]; });
  const auto threads = static_cast<int64_t>(std::count_if(
      lanes.begin(), lanes.end(), [](const PlannedLane& lane) { return !lane.blocks.empty(); }));
  const int64_t least = std::min(threads * kLeastPerThread, kMostOfLeast);
  all = all || *std::max_element(with_all.begin(), with_all.end()) <=
                   max_load + std::max(max_load / kShareOfAll, least);
  const int64_t most = max_load + std::max(max_load / kShareOfSome, kLeastOfSome);
  LaneChoice choice{std::vector<bool>(lanes.size()), max_load};
  for (const size_t lane : order) {
    const std::vector<int64_t>& free = curves[lane].free;
    bool fits = true;
    for (size_t at = 0; at < held.size(); ++at) fits = fits && held[at] + free[at] <= most;
    if (!fits && !all) continue;
    choice.taken[lane] = true;
    for (size_t at = 0; at < held.size(); ++at) {
      held[at] += free[at];
      choice.held = std::max(choice.held, held[at]);
    }
  }
  return choice;
}

}  // namespace reprise::replay
