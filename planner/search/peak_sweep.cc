#include "planner/search/peak_sweep.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/core/sort.h"
#include "planner/placement/make_room.h"

namespace reprise::planner {
namespace {

// In one direction of a scored sweep. Each takes milliseconds.
constexpr int kMostMoves = 400;
constexpr size_t kMostBlocks = 200'000;  // above that it would be tens

// Where more are live, other sweeps find more in the time of a reshuffle. All of one sweep may take
// a few times as long as the sweep itself.
constexpr size_t kMostToReshuffle = 4096;
constexpr int64_t kWorkPerJob = 256;
constexpr size_t kCellsPerJob = 8;

// In one stack: who is looked at for what fills gaps. About a hundredth of a second.
constexpr std::ptrdiff_t kMostLooks = 1 << 20;

uint64_t StackKey(const Job& job, uint32_t peak, const PeakRecipe& recipe) {
  switch (recipe.stack) {
    case PeakRecipe::Stack::kSoonestDead:
      return job.upper;
    case PeakRecipe::Stack::kLatestDead:
      return ~uint64_t{job.upper};
    case PeakRecipe::Stack::kLatestBorn:
      return ~uint64_t{job.lower};
    case PeakRecipe::Stack::kEarliestBorn:
      return job.lower;
    case PeakRecipe::Stack::kLargest:
      return Descending(job.size);
    case PeakRecipe::Stack::kTwoEnded: {
      const uint32_t age = peak - job.lower;
      const uint32_t rest = job.upper - peak;
      return rest <= recipe.balance * age ? ~uint64_t{rest} : age;
    }
  }
  return 0;
}

// The median of those live at the peak, in sections.
float UsualLifespan(const Problem& problem, const Hill& hill) {
  if (hill.at_peak.empty()) return 1;
  std::vector<uint32_t> spans;
  for (const uint32_t j : hill.at_peak) {
    spans.push_back(problem.jobs[j].upper - problem.jobs[j].lower);
  }
  const auto middle = spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2);
  std::nth_element(spans.begin(), middle, spans.end());
  return static_cast<float>(*middle);
}

}  // namespace

PeakSweep::PeakSweep(const PeakTables& tables)
    : tables_(tables),
      problem_(tables.problem),
      aligned_(!problem_.instance->alignments.empty()),
      least_alignment_(problem_.instance->alignment / problem_.unit),
      is_rock_(problem_.size()),
      solid_(problem_.pieces.empty()),
      handles_(problem_.size()) {}

bool PeakSweep::PlaceRocks(const std::vector<uint32_t>& rocks, const Addresses& places,
                           int64_t limit, const std::function<bool()>& stop) {
  for (const uint32_t rock : rocks_) is_rock_[rock] = false;
  rocks_.clear();
  forwards_.clear();
  backwards_.clear();
  std::vector<uint32_t> cuts;
  for (const std::vector<uint32_t>* jobs : {&problem_.fixed, &rocks}) {
    for (const uint32_t rock : *jobs) {
      if (is_rock_[rock]) continue;
      is_rock_[rock] = true;
      rocks_.push_back(rock);
      const Job& job = problem_.jobs[rock];
      forwards_.push_back({job.lower, rock});
      backwards_.push_back({job.upper, rock});
      cuts.push_back(job.lower);
      cuts.push_back(job.upper);
      if (solid_) continue;
      for (uint32_t p = problem_.first_piece[rock]; p < problem_.first_piece[rock + 1]; ++p) {
        cuts.push_back(problem_.pieces[p].lower);
        cuts.push_back(problem_.pieces[p].upper);
      }
    }
  }
  if (rocks_.empty()) return true;
  std::sort(forwards_.begin(), forwards_.end(), [](const Arrival& a, const Arrival& b) {
    return a.section != b.section ? a.section < b.section : a.rock < b.rock;
  });
  std::sort(backwards_.begin(), backwards_.end(), [](const Arrival& a, const Arrival& b) {
    return a.section != b.section ? a.section > b.section : a.rock < b.rock;
  });
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  occupancy_.emplace(problem_, std::move(cuts));
  for (size_t i = 0; i < rocks_.size(); ++i) {
    const uint32_t rock = rocks_[i];
    if (i < problem_.fixed.size()) {
      addresses_[rock] = problem_.fixed_address(rock);
    } else if (i < places.size()) {
      addresses_[rock] = places[i];
    } else {
      if (i % 256 == 255 && stop()) return false;
      const int64_t highest = limit == INT64_MAX ? limit : limit - problem_.jobs[rock].size - 1;
      addresses_[rock] = occupancy_->FirstFit(rock, 0, highest);
      if (addresses_[rock] > highest) return false;
    }
    occupancy_->Place(rock, addresses_[rock]);
  }
  return true;
}

// `look`: it may meet rocks that are not in the space.
void PeakSweep::Put(uint32_t job, bool look, FreeBlocks& space) {
  const int64_t size = problem_.jobs[job].size;
  if (look && occupancy_->Look(job)) {
    const auto first = [&](int64_t lower, int64_t upper) {
      return occupancy_->FirstFitAgain(job, lower, upper - size);
    };
    uint32_t handle = FreeBlocks::kNone;
    if (weights_ != nullptr) {
      handle = space.TakeBestScored(
          size, NoteOf(job, /*movable=*/false), *weights_,
          [&](int64_t address) { return first(address, address + size) == address; });
    }
    handles_[job] = handle != FreeBlocks::kNone ? handle : space.TakeWhere(size, first);
  } else if (aligned_ && problem_.alignment(job) > least_alignment_) {
    handles_[job] =
        space.TakeWhere(size, [&](int64_t lower, int64_t) { return problem_.AlignUp(job, lower); });
  } else {
    handles_[job] = weights_ != nullptr ? TakeScored(job, space) : space.Take(size);
    addresses_[job] = space.address(handles_[job]);
    return;
  }
  addresses_[job] = space.address(handles_[job]);
  Pin(job, space);
}

FreeBlocks::Note PeakSweep::NoteOf(uint32_t job, bool movable) const {
  const Job& j = problem_.jobs[job];
  const uint32_t since = movable ? 0 : FreeBlocks::Note::kNever;
  if (forwards_now_) return {job, j.lower, j.upper, since};
  return {job, problem_.sections - j.upper, problem_.sections - j.lower, since};
}

void PeakSweep::Pin(uint32_t job, FreeBlocks& space) {
  if (weights_ != nullptr) space.Annotate(handles_[job], NoteOf(job, /*movable=*/false));
}

uint32_t PeakSweep::TakeScored(uint32_t job, FreeBlocks& space) {
  const int64_t size = problem_.jobs[job].size;
  const FreeBlocks::Note note = NoteOf(job, /*movable=*/true);
  uint32_t handle = space.TakeBestScored(size, note, *weights_);
  if (handle != FreeBlocks::kNone) return handle;
  if (space.TopBelowFree() + size > problem_.max_load && moves_left_ > 0 &&
      space.blocks() <= kMostBlocks) {
    --moves_left_;
    if (MoveOthers(job, space)) return handles_[job];
  }
  handle = space.TakeFromTop(size);
  space.Annotate(handle, note);
  return handle;
}

bool PeakSweep::MoveOthers(uint32_t job, FreeBlocks& space) {
  const std::vector<FreeBlocks::Element> elements = space.Elements();
  const int64_t size = problem_.jobs[job].size;
  std::vector<Move> moves = MakeRoom(elements, size);
  if (moves.empty() && reshuffles_) {
    moves = reshuffle_.Run(elements, size, NoteOf(job, /*movable=*/true).born,
                           std::max(problem_.max_load, space.top()));
  }
  for (const Move& move : moves) {
    if (move.element == Move::kTarget) continue;
    space.Free(elements[move.element].handle, elements[move.element].note.since);
  }
  for (const Move& move : moves) {
    const uint32_t mover = move.element == Move::kTarget ? job : elements[move.element].note.job;
    handles_[mover] = space.TakeAt(move.address, problem_.jobs[mover].size);
    space.Annotate(handles_[mover], NoteOf(mover, /*movable=*/true));
    addresses_[mover] = move.address;
  }
  return !moves.empty();
}

void PeakSweep::StackAtPeak(const Hill& hill, const PeakRecipe& recipe, FreeBlocks& space) {
  std::vector<KeyedId> order;
  for (const uint32_t j : hill.at_peak) {
    if (!is_rock_[j]) order.push_back({StackKey(problem_.jobs[j], hill.peak, recipe), j});
  }
  std::vector<KeyedId> scratch;
  SortByKey(order, scratch);
  std::ptrdiff_t looks = aligned_ ? kMostLooks : 0;
  for (auto item = order.begin(); item != order.end(); ++item) {
    const int64_t top = space.top();
    if (looks > 0 && problem_.AlignUp(item->id, top) > top) {
      // It would leave a gap: first what fills that.
      const auto last = item + std::min(looks, order.end() - item);
      const auto filler = std::find_if(item + 1, last, [&](const KeyedId& other) {
        const int64_t above = top + problem_.jobs[other.id].size;
        return problem_.AlignUp(other.id, top) == top && problem_.AlignUp(item->id, above) == above;
      });
      looks -= filler - item;
      if (filler != last) std::rotate(item, filler, filler + 1);
    }
    Put(item->id, !rocks_.empty(), space);
    Pin(item->id, space);
  }
}

// What is live at the peak and has an address already, in a new space.
void PeakSweep::RestorePeak(const Hill& hill, bool rocks_only, FreeBlocks& space) {
  std::vector<KeyedId> order;
  if (solid_) {
    for (const uint32_t rock : rocks_) {
      const Job& job = problem_.jobs[rock];
      if (job.lower <= hill.peak && hill.peak < job.upper) {
        order.push_back({Ascending(addresses_[rock]), rock});
      }
    }
  }
  for (const uint32_t j : hill.at_peak) {
    if (!rocks_only && !is_rock_[j]) order.push_back({Ascending(addresses_[j]), j});
  }
  std::vector<KeyedId> scratch;
  SortByKey(order, scratch);
  for (const KeyedId& item : order) {
    handles_[item.id] = space.Append(addresses_[item.id], problem_.jobs[item.id].size);
    Pin(item.id, space);
  }
}

bool PeakSweep::Sweep(const Hill& hill, FreeBlocks& space, int64_t limit,
                      const std::function<bool()>& stop) {
  const bool forwards = forwards_now_;
  moves_left_ = kMostMoves;
  reshuffles_ = weights_ != nullptr && hill.at_peak.size() <= kMostToReshuffle;
  if (reshuffles_) {
    reshuffle_.Begin(space.top(), kCellsPerJob * problem_.size(), kWorkPerJob * problem_.size());
  }
  // Backwards, what is born in section s dies there, and what is dead in s + 1 is born.
  const Groups& arrivals = forwards ? tables_.births : tables_.deaths;
  const Groups& departures = forwards ? tables_.deaths : tables_.births;
  const uint32_t steps = forwards ? hill.upper - 1 - hill.peak : hill.peak - hill.lower;
  const std::vector<Arrival>& rocks = forwards ? forwards_ : backwards_;
  // The rocks that the sweep has not met yet; none of them is live at the peak.
  auto next = std::find_if(rocks.begin(), rocks.end(), [&](const Arrival& rock) {
    return forwards ? rock.section > hill.peak : rock.section <= hill.peak;
  });
  for (uint32_t step = 1; step <= steps; ++step) {
    const uint32_t group = forwards ? hill.peak + step : hill.peak - step + 1;
    const int moves_before = moves_left_;
    for (uint32_t i = departures.first[group]; i < departures.first[group + 1]; ++i) {
      const uint32_t job = departures.ids[i];
      if (forwards) LookAhead(departures, i, handles_, space);
      if (!solid_ && is_rock_[job]) continue;
      const uint32_t now = forwards ? group : problem_.sections - group;
      space.Free(handles_[job], now);
      if (reshuffles_) reshuffle_.Left(addresses_[job], problem_.jobs[job].size, now);
    }
    for (; next != rocks.end() && next->section == group; ++next) {
      const uint32_t rock = next->rock;
      if (!solid_) continue;
      handles_[rock] = space.TakeAt(addresses_[rock], problem_.jobs[rock].size);
      Pin(rock, space);
    }
    for (uint32_t i = arrivals.first[group]; i < arrivals.first[group + 1]; ++i) {
      const uint32_t job = arrivals.ids[i];
      if (is_rock_[job]) continue;
      const bool meets =
          next != rocks.end() && (forwards ? next->section < problem_.jobs[job].upper
                                           : next->section > problem_.jobs[job].lower);
      Put(job, meets || (!solid_ && !rocks.empty()), space);
    }
    if (space.top() >= limit) return false;
    if (((step & 4095) == 0 || moves_left_ < moves_before) && stop()) return false;
  }
  swept_top_ = space.top();
  return true;
}

bool PeakSweep::SweepForwards(const Hill& hill, const PeakRecipe& recipe, int64_t limit,
                              const std::function<bool()>& stop) {
  FreeBlocks space(weights_ != nullptr);
  RestorePeak(hill, /*rocks_only=*/true, space);
  StackAtPeak(hill, recipe, space);
  return space.top() < limit && Sweep(hill, space, limit, stop);
}

bool PeakSweep::SweepBackwards(const Hill& hill, int64_t limit, const std::function<bool()>& stop) {
  FreeBlocks space(weights_ != nullptr);
  RestorePeak(hill, /*rocks_only=*/false, space);
  return Sweep(hill, space, limit, stop);
}

bool PeakSweep::SweepHill(const Hill& hill, const PeakRecipe& recipe, int64_t limit,
                          const std::function<bool()>& stop) {
  std::vector<FreeBlocks::CostWeights> choices = recipe.weights;
  const float lifespan = UsualLifespan(problem_, hill);
  for (FreeBlocks::CostWeights& weights : choices) weights.lifespan *= lifespan;
  const auto sweep = [&](const FreeBlocks::CostWeights* weights, int64_t below) {
    weights_ = weights;
    return !stop() && (forwards_now_ ? SweepForwards(hill, recipe, below, stop)
                                     : SweepBackwards(hill, below, stop));
  };
  for (const bool forwards : {true, false}) {
    forwards_now_ = forwards;
    const FreeBlocks::CostWeights* best = nullptr;
    int64_t least = limit;
    for (const FreeBlocks::CostWeights& weights : choices) {
      if (!sweep(&weights, least)) continue;
      best = &weights;
      least = swept_top_;
    }
    if (!choices.empty() && best == nullptr) return false;
    // The addresses are those of the last one.
    const bool have = best != nullptr && best == &choices.back();
    if (!have && !sweep(best, best == nullptr ? limit : least + 1)) return false;
  }
  return true;
}

Addresses PeakSweep::Run(const PeakRecipe& recipe, int64_t limit,
                         const std::function<bool()>& stop) {
  if (problem_.sections == 0) return {};
  addresses_.assign(problem_.size(), 0);
  if (!problem_.plain) {  // those that are one gap throughout are met by no sweep
    for (uint32_t j = 0; j < problem_.size(); ++j) addresses_[j] = problem_.AlignUp(j, 0);
  }
  std::vector<uint32_t> rocks = recipe.rocks;
  if (recipe.by_hills) {
    rocks.insert(rocks.end(), tables_.across.begin(), tables_.across.end());
  }
  if (!PlaceRocks(rocks, recipe.places, limit, stop)) return {};
  if (recipe.by_hills) {
    for (const Hill& hill : tables_.hills) {
      if (!SweepHill(hill, recipe, limit, stop)) return {};
    }
  } else if (!SweepHill(tables_.whole, recipe, limit, stop)) {
    return {};
  }
  return std::move(addresses_);
}

}  // namespace reprise::planner
