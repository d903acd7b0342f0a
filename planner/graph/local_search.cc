#include "planner/graph/local_search.h"

#include <algorithm>

namespace reprise::planner::graph {
namespace {

// More nodes than this are not moved at once.
constexpr size_t kMostMoved = 256;

}  // namespace

LocalSearch::LocalSearch(const MemoryModel& model, std::vector<uint32_t> order)
    : model_(model), order_(std::move(order)) {
  const uint32_t n = model.nodes;
  place_.resize(n);
  for (uint32_t i = 0; i < n; ++i) place_[order_[i]] = i;
  next_place_ = place_;
  next_load_.resize(n);
  mark_.assign(n, 0);
  peak_ = Evaluate(0, n, order_).peak;
  load_ = next_load_;
  best_ = order_;
  best_peak_ = peak_;
}

// The loads of `order` at the places [from, to), into next_load_. Places are next_place_'s.
LocalSearch::Height LocalSearch::Evaluate(uint32_t from, uint32_t to,
                                          const std::vector<uint32_t>& order) {
  // Of a node at `place`: what it is the first to open, what it is the last to close.
  const auto opened = [&](uint32_t node, uint32_t place) {
    int64_t bytes = 0;
    for (const uint32_t s : model_.opens[node]) {
      bool first = true;
      for (const uint32_t other : model_.openers[s]) first &= next_place_[other] >= place;
      if (first) bytes += model_.bytes[s];
    }
    return bytes;
  };
  const auto closed = [&](uint32_t node, uint32_t place) {
    int64_t bytes = 0;
    for (const uint32_t s : model_.closes[node]) {
      bool last = true;
      for (const uint32_t other : model_.closers[s]) last &= next_place_[other] <= place;
      if (last) bytes += model_.bytes[s];
    }
    return bytes;
  };
  // What is open between two places depends on the set in front only, so outside nothing changes.
  int64_t load = model_.initial;
  if (from > 0) load = load_[from - 1] - closed(order[from - 1], from - 1);
  for (uint32_t i = from; i < to; ++i) {
    load += opened(order[i], i);
    next_load_[i] = load;
    load -= closed(order[i], i);
  }
  Height height{model_.floor, 0};
  const double mark = 0.97 * static_cast<double>(best_peak_);
  for (uint32_t i = 0; i < model_.nodes; ++i) {
    const int64_t here = i >= from && i < to ? next_load_[i] : load_[i];
    height.peak = std::max(height.peak, here);
    height.near += std::max(0.0, static_cast<double>(here) - mark);
  }
  return height;
}

bool LocalSearch::CloseEarlier(uint32_t storage, uint32_t step, Random& random) {
  std::vector<uint32_t> moved;
  ++round_;
  const auto take = [&](uint32_t node) {
    if (place_[node] < step || mark_[node] == round_) return true;
    if (place_[node] == step || moved.size() == kMostMoved) return false;
    mark_[node] = round_;
    moved.push_back(node);
    return true;
  };
  for (const uint32_t node : model_.closers[storage]) {
    if (!take(node)) return false;
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    for (const uint32_t before : model_.predecessors[moved[i]]) {
      if (!take(before)) return false;
    }
  }
  if (moved.empty()) return false;
  // As late as in front of the peak, or as early as what they need allows.
  uint32_t earliest = 0;
  for (const uint32_t node : moved) {
    for (const uint32_t before : model_.predecessors[node]) {
      if (mark_[before] != round_) earliest = std::max(earliest, place_[before] + 1);
    }
  }
  const uint32_t target = random.Below(2) == 0
                              ? step
                              : earliest + static_cast<uint32_t>(random.Below(step - earliest + 1));
  std::sort(moved.begin(), moved.end(),
            [&](uint32_t a, uint32_t b) { return place_[a] < place_[b]; });
  from_ = target;
  to_ = place_[moved.back()] + 1;
  next_.assign(order_.begin() + from_, order_.begin() + to_);
  std::stable_partition(next_.begin(), next_.end(),
                        [&](uint32_t node) { return mark_[node] == round_; });
  return true;
}

bool LocalSearch::OpenLater(uint32_t storage, uint32_t step, Random& random) {
  std::vector<uint32_t> moved;
  ++round_;
  const auto take = [&](uint32_t node) {
    if (place_[node] > step || mark_[node] == round_) return true;
    if (place_[node] == step || moved.size() == kMostMoved) return false;
    mark_[node] = round_;
    moved.push_back(node);
    return true;
  };
  for (const uint32_t node : model_.openers[storage]) {
    if (!take(node)) return false;
  }
  for (size_t i = 0; i < moved.size(); ++i) {
    for (const uint32_t after : model_.successors[moved[i]]) {
      if (!take(after)) return false;
    }
  }
  if (moved.empty()) return false;
  uint32_t latest = model_.nodes;  // they may come just before this place
  for (const uint32_t node : moved) {
    for (const uint32_t after : model_.successors[node]) {
      if (mark_[after] != round_) latest = std::min(latest, place_[after]);
    }
  }
  const uint32_t first_place = step + 1;
  const uint32_t target =
      random.Below(2) == 0
          ? first_place
          : first_place + static_cast<uint32_t>(random.Below(latest - first_place + 1));
  std::sort(moved.begin(), moved.end(),
            [&](uint32_t a, uint32_t b) { return place_[a] < place_[b]; });
  from_ = place_[moved.front()];
  to_ = target;
  next_.assign(order_.begin() + from_, order_.begin() + to_);
  std::stable_partition(next_.begin(), next_.end(),
                        [&](uint32_t node) { return mark_[node] != round_; });
  return true;
}

bool LocalSearch::Propose(Random& random) {
  // A step of the peak, or of one nearly as high.
  const double mark = (random.Below(4) == 0 ? 0.97 : 1.0) * static_cast<double>(peak_);
  uint32_t count = 0, step = 0;
  for (uint32_t i = 0; i < model_.nodes; ++i) {
    if (static_cast<double>(load_[i]) < mark) continue;
    if (random.Below(++count) == 0) step = i;
  }
  if (count == 0) return false;
  // A storage that is open there: the more bytes, the likelier.
  int64_t sum = 0;
  uint32_t chosen = kNone;
  for (uint32_t s = 0; s < model_.bytes.size(); ++s) {
    uint32_t first = model_.openers[s].empty() ? 0 : model_.nodes;
    uint32_t last = model_.closers[s].empty() ? model_.nodes : 0;
    for (const uint32_t node : model_.openers[s]) first = std::min(first, place_[node]);
    for (const uint32_t node : model_.closers[s]) last = std::max(last, place_[node]);
    if (first > step || last < step) continue;
    sum += model_.bytes[s];
    if (static_cast<double>(model_.bytes[s]) > random.Unit() * static_cast<double>(sum)) chosen = s;
  }
  if (chosen == kNone) return false;
  const bool closable = !model_.closers[chosen].empty();
  const bool openable = !model_.openers[chosen].empty();
  const bool close = closable && (!openable || random.Below(2) == 0);
  if (close && CloseEarlier(chosen, step, random)) return true;
  if (openable && OpenLater(chosen, step, random)) return true;
  return closable && !close && CloseEarlier(chosen, step, random);
}

void LocalSearch::Run(int64_t steps, int64_t good, Random& random,
                      const std::function<bool()>& stop) {
  if (model_.nodes == 0) return;
  Height height = Evaluate(0, 0, order_);
  for (int64_t i = 0; i < steps && best_peak_ > good; ++i) {
    if ((i & 15) == 0 && stop()) return;
    if (!Propose(random)) continue;
    for (uint32_t k = from_; k < to_; ++k) next_place_[next_[k - from_]] = k;
    std::swap_ranges(order_.begin() + from_, order_.begin() + to_, next_.begin());
    const Height next = Evaluate(from_, to_, order_);
    const double heat = 0.01 * (1 - static_cast<double>(i) / static_cast<double>(steps));
    const double rise = static_cast<double>(next.peak - height.peak) /
                        static_cast<double>(std::max<int64_t>(best_peak_, 1));
    const bool better =
        next.peak < height.peak || (next.peak == height.peak && next.near <= height.near);
    if (!better && random.Unit() >= 0.3 * ChanceOfRise(std::max(rise, 0.001), heat)) {
      std::swap_ranges(order_.begin() + from_, order_.begin() + to_, next_.begin());
      for (uint32_t k = from_; k < to_; ++k) next_place_[order_[k]] = k;
      continue;
    }
    height = next;
    peak_ = next.peak;
    for (uint32_t k = from_; k < to_; ++k) {
      place_[order_[k]] = k;
      load_[k] = next_load_[k];
    }
    if (peak_ < best_peak_) {
      best_peak_ = peak_;
      best_ = order_;
      height = Evaluate(0, 0, order_);
    }
  }
}

}  // namespace reprise::planner::graph
