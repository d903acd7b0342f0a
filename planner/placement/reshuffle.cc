#include "planner/placement/reshuffle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise::planner {
namespace {

// Placements in one search. Most that succeed need a few dozen.
constexpr int kMostPlacements = 300;

// What a block gains in weight with every placement, in its hardness.
constexpr float kGrowth = 0.3F;

// Cells that are noted in the time of a step.
constexpr int64_t kCellsPerStep = 8;

// Of who stays: it never leaves.
constexpr uint32_t kNever = FreeBlocks::Note::kNever;

}  // namespace

void Reshuffle::Begin(int64_t addresses, size_t cells, int64_t work) {
  const auto most = static_cast<int64_t>(cells);
  cell_ = std::max<int64_t>(1, (addresses + most - 1) / most);
  left_.assign(addresses / cell_ + 1, 0);
  work_left_ = work;
  random_ = Random(1);
}

void Reshuffle::Left(int64_t address, int64_t size, uint32_t now) {
  const size_t first = address / cell_;
  const size_t end = (address + size - 1) / cell_ + 1;
  work_left_ -= static_cast<int64_t>(end - first) / kCellsPerStep;
  if (work_left_ <= 0) return;
  if (end > left_.size()) left_.resize(end);
  std::fill(left_.begin() + first, left_.begin() + end, now);
}

void Reshuffle::AddStretch(int64_t lower, int64_t upper, uint32_t left) {
  if (!stretches_.empty() && stretches_.back().left == left) {
    stretches_.back().upper = upper;
  } else {
    stretches_.push_back({lower, upper, left});
  }
}

void Reshuffle::AddCells(int64_t lower, int64_t upper) {
  while (lower < upper) {
    const int64_t cell = lower / cell_;
    const int64_t end = (upper - 1) / cell_ + 1;
    int64_t next = cell + 1;
    while (next < end && left_[next] == left_[cell]) ++next;
    const int64_t until = std::min(upper, next * cell_);
    AddStretch(lower, until, left_[cell]);
    lower = until;
  }
}

// At who lies where, and since when it might.
void Reshuffle::Look(const std::vector<FreeBlocks::Element>& elements, uint32_t now,
                     int64_t capacity) {
  if (static_cast<size_t>(capacity / cell_) >= left_.size()) left_.resize(capacity / cell_ + 1);
  stretches_.clear();
  lying_.clear();
  movers_.assign(elements.size() + 1, {});
  int64_t top = 0;
  for (uint32_t e = 0; e < elements.size(); ++e) {
    const auto& [handle, free, address, size, note] = elements[e];
    top = address + size;
    if (!free && note.since == kNever) {
      AddStretch(address, top, kNever);
      continue;
    }
    AddCells(address, top);
    if (free) continue;
    // The older one is, the fewer places it has.
    const float hardness =
        static_cast<float>(size) * std::sqrt(static_cast<float>(now - note.born) + 1);
    movers_[e] = {size, address, address, note.born, hardness, hardness};
    lying_.push_back({address, top, e, hardness});
  }
  AddCells(top, capacity);
}

// The one that weighs most: the others may still fit beside it.
uint32_t Reshuffle::TakeFromPool() {
  const auto heaviest = std::max_element(pool_.begin(), pool_.end(), [&](uint32_t a, uint32_t b) {
    return movers_[a].weight < movers_[b].weight;
  });
  const uint32_t mover = *heaviest;
  *heaviest = pool_.back();
  pool_.pop_back();
  return mover;
}

// Where nobody lies that is not in the pool, in the tightest gap; else where those who lie weigh
// least. -1: there has been somebody everywhere.
int64_t Reshuffle::FindPlace(const Mover& mover) {
  const int64_t size = mover.size;
  double least = std::numeric_limits<double>::infinity();
  int64_t tightest = INT64_MAX;  // of the gaps
  int64_t place = -1;
  uint32_t ties = 0;
  const auto offer = [&](int64_t address, double weight, int64_t spare) {
    if (weight > least || (weight == least && spare > tightest)) return;
    ties = weight < least || spare < tightest ? 1 : ties + 1;
    least = weight;
    tightest = spare;
    if (random_.Below(ties) == 0) place = address;
  };
  size_t first = 0;  // [first, last) meet the mover
  size_t last = 0;
  for (size_t s = 0; s < stretches_.size(); ++s) {
    if (stretches_[s].left > mover.born) continue;
    const int64_t lower = stretches_[s].lower;
    while (s + 1 < stretches_.size() && stretches_[s + 1].left <= mover.born) ++s;
    const int64_t upper = stretches_[s].upper;
    if (upper - lower < size) continue;
    if (first > 0 && lying_[first - 1].end > lower) --first;
    while (first < lying_.size() && lying_[first].end <= lower) ++first;
    last = first;
    double weight = 0;
    // From below, and right above each that lies there.
    for (int64_t address = lower; address + size <= upper;) {
      for (; last < lying_.size() && lying_[last].address < address + size; ++last) {
        weight += lying_[last].weight;
      }
      if (first < last) {
        offer(address, weight, INT64_MAX - 1);
        address = lying_[first].end;
        weight -= lying_[first++].weight;
        continue;
      }
      weight = 0;  // rounding may have left something
      const int64_t end = last < lying_.size() ? std::min(lying_[last].address, upper) : upper;
      offer(address, 0, end - address - size);
      offer(end - size, 0, end - address - size);
      if (last == lying_.size()) break;
      address = lying_[last].end;
      first = ++last;
    }
  }
  return place;
}

void Reshuffle::Put(uint32_t mover, int64_t address) {
  Mover& m = movers_[mover];
  const auto first = std::partition_point(lying_.begin(), lying_.end(),
                                          [&](const Lying& lying) { return lying.end <= address; });
  auto last = first;
  for (; last != lying_.end() && last->address < address + m.size; ++last) {
    movers_[last->mover].address = -1;
    pool_.push_back(last->mover);
  }
  m.address = address;
  m.weight += kGrowth * m.hardness;
  lying_.insert(lying_.erase(first, last), {address, address + m.size, mover, m.weight});
}

std::vector<Move> Reshuffle::Run(const std::vector<FreeBlocks::Element>& elements, int64_t size,
                                 uint32_t now, int64_t capacity) {
  if (work_left_ <= 0) return {};
  Look(elements, now, capacity);
  const auto target = static_cast<uint32_t>(elements.size());
  const auto hardness = static_cast<float>(size);
  movers_[target] = {size, -1, -1, now, hardness, hardness};
  pool_ = {target};
  work_left_ -= static_cast<int64_t>(elements.size());
  for (int placements = 0; !pool_.empty(); ++placements) {
    work_left_ -= static_cast<int64_t>(stretches_.size() + lying_.size());
    if (placements == kMostPlacements || work_left_ <= 0) return {};
    const uint32_t mover = TakeFromPool();
    const int64_t place = FindPlace(movers_[mover]);
    if (place < 0) return {};
    Put(mover, place);
  }
  std::vector<Move> moves = {{Move::kTarget, movers_[target].address}};
  for (uint32_t e = 0; e < target; ++e) {
    if (movers_[e].address != movers_[e].home) moves.push_back({e, movers_[e].address});
  }
  return moves;
}

}  // namespace reprise::planner
