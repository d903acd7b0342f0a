#include "planner/search/peak_sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planner/core/sort.h"
#include "planner/placement/make_room.h"

namespace reprise::planner {
namespace {

constexpr uint32_t kMostRocks = 16384;
constexpr size_t kMostScoredRocks = 64;

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

uint64_t StackKey(const Job& job, uint32_t peak, const PeakSweep::Recipe& recipe) {
  switch (recipe.stack) {
    case PeakSweep::Stack::kSoonestDead:
      return job.upper;
    case PeakSweep::Stack::kLatestDead:
      return ~uint64_t{job.upper};
    case PeakSweep::Stack::kLatestBorn:
      return ~uint64_t{job.lower};
    case PeakSweep::Stack::kEarliestBorn:
      return job.lower;
    case PeakSweep::Stack::kLargest:
      return Descending(job.size);
    case PeakSweep::Stack::kTwoEnded: {
      const uint32_t age = peak - job.lower;
      const uint32_t rest = job.upper - peak;
      return rest <= recipe.balance * age ? ~uint64_t{rest} : age;
    }
  }
  return 0;
}

// Where the load comes within 2 % of its maximum on both sides of a section where it is below 70 %,
// time is cut there.
std::vector<uint32_t> Valleys(const Problem& problem) {
  const double high = 0.98 * static_cast<double>(problem.max_load);
  const double low = 0.7 * static_cast<double>(problem.max_load);
  std::vector<uint32_t> cuts;
  bool seen_peak = false;
  uint32_t lowest = 0;
  for (uint32_t s = 0; s < problem.sections; ++s) {
    if (static_cast<double>(problem.load[s]) >= high) {
      if (seen_peak && static_cast<double>(problem.load[lowest]) < low) cuts.push_back(lowest);
      seen_peak = true;
      lowest = s;
    } else if (problem.load[s] < problem.load[lowest]) {
      lowest = s;
    }
  }
  return cuts;
}

Hill MakeHill(const Problem& problem, uint32_t lower, uint32_t upper) {
  Hill hill{lower, upper, lower, {}};
  for (uint32_t s = lower; s < upper; ++s) {
    if (problem.load[s] > problem.load[hill.peak]) hill.peak = s;
  }
  return hill;
}

// What did best on heaps of perl, Python, mawk and C++, in usual lifespans.
constexpr std::array<FreeBlocks::CostWeights, 3> kStandardWeights = {
    {{6, 0.06F, 0.05F, 0.2F}, {2.5F, 0.17F, 0, 0.14F}, {2, 0.06F, 0.1F, 0.1F}}};

// More find a better pair of directions, and a sweep above the incumbent soon ends.
constexpr size_t kRandomWeights = 6;

// The standard recipes that are scored: how the two ends of the stack are balanced, and how many
// weights are tried. The first ones are there soon.
struct ScoredRecipe {
  double balance;
  size_t weights;
};
constexpr std::array<ScoredRecipe, 5> kScored = {
    {{1, 1}, {0.5, 1}, {2, 1}, {0.7, kStandardWeights.size()}, {1.4, kStandardWeights.size()}}};

FreeBlocks::CostWeights RandomWeights(Random& random) {
  const auto spread = [&](double middle) {
    return static_cast<float>(middle * std::exp(3 * random.Unit() - 1.5));
  };
  const auto lifespan = static_cast<float>(std::exp2(0.5 + 2.5 * random.Unit()));
  const float large = random.Below(3) == 0 ? 0 : spread(0.07);
  return {lifespan, spread(0.06), large, spread(0.1)};
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

bool StaysFull(const Problem& problem) {
  const auto high = static_cast<int64_t>(0.98 * static_cast<double>(problem.max_load));
  const auto full = std::count_if(problem.load.begin(), problem.load.end(),
                                  [&](int64_t load) { return load >= high; });
  return full >= problem.sections / 100;
}

PeakTables::PeakTables(const Problem& the_problem)
    : problem(the_problem), births(Births(the_problem)), deaths(Deaths(the_problem)) {
  whole = MakeHill(problem, 0, problem.sections);
  stays_full = StaysFull(problem);
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const Job& job = problem.jobs[j];
    if (job.lower <= whole.peak && whole.peak < job.upper) whole.at_peak.push_back(j);
  }
  // What is born in one section lives together, so its order is ours. The backward sweep sees
  // deaths as births.
  const auto larger = [&](uint32_t a, uint32_t b) {
    const int64_t size_a = problem.jobs[a].size;
    const int64_t size_b = problem.jobs[b].size;
    return size_a != size_b ? size_a > size_b : a < b;
  };
  for (Groups* groups : {&births, &deaths}) {
    for (size_t g = 0; g + 1 < groups->first.size(); ++g) {
      const auto begin = groups->ids.begin() + groups->first[g];
      const auto end = groups->ids.begin() + groups->first[g + 1];
      if (end - begin > 1) std::sort(begin, end, larger);
    }
  }
  const uint32_t count = std::min(problem.size() / 8, kMostRocks);
  largest.resize(problem.size());
  for (uint32_t j = 0; j < problem.size(); ++j) largest[j] = j;
  std::nth_element(largest.begin(), largest.begin() + count, largest.end(), larger);
  largest.resize(count);
  largest.shrink_to_fit();
  std::sort(largest.begin(), largest.end(), larger);
  max_load = MaxLoadInSpan(problem, largest);

  const std::vector<uint32_t> valleys = Valleys(problem);
  if (valleys.empty()) return;
  std::vector<uint32_t> hill_of(problem.sections);
  uint32_t lower = 0;
  for (size_t v = 0; v <= valleys.size(); ++v) {
    const uint32_t upper = v < valleys.size() ? valleys[v] : problem.sections;
    std::fill(hill_of.begin() + lower, hill_of.begin() + upper, static_cast<uint32_t>(v));
    hills.push_back(MakeHill(problem, lower, upper));
    lower = upper;
  }
  for (uint32_t j = 0; j < problem.size(); ++j) {
    const Job& job = problem.jobs[j];
    Hill& hill = hills[hill_of[job.lower]];
    if (job.upper > hill.upper) {
      across.push_back(j);
    } else if (job.lower <= hill.peak && hill.peak < job.upper) {
      hill.at_peak.push_back(j);
    }
  }
  std::sort(across.begin(), across.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t span_a = problem.jobs[a].upper - problem.jobs[a].lower;
    const uint32_t span_b = problem.jobs[b].upper - problem.jobs[b].lower;
    return span_a != span_b ? span_a > span_b : a < b;
  });
}

PeakSweep::PeakSweep(const PeakTables& tables)
    : tables_(tables),
      problem_(tables.problem),
      aligned_(!problem_.instance->alignments.empty()),
      least_alignment_(problem_.instance->alignment / problem_.unit),
      is_rock_(problem_.size()),
      solid_(problem_.pieces.empty()),
      handles_(problem_.size()) {}

PeakSweep::Recipe PeakSweep::Standard(int number) const {
  // Without rocks or with those above a fraction of the max load: what a block too many costs.
  struct Group {
    int64_t fraction;
    size_t least;
    size_t most;
  };
  constexpr std::array<Group, 5> kGroups = {
      {{1, 0, 0}, {256, 16, 4096}, {1024, 128, 4096}, {4096, 1024, 4096}, {64, 4, 4096}}};
  constexpr int kPerStack = kGroups.size();
  // Careful ones come soon, and right after the first where the heap stays full.
  const int first_scored = tables_.stays_full ? 1 : kPerStack;
  const int end_scored = first_scored + static_cast<int>(kScored.size());
  const bool scored = number >= first_scored && number < end_scored;
  if (scored) {
    const auto& [balance, weights] = kScored[number - first_scored];
    return Scored(balance, {kStandardWeights.begin(), kStandardWeights.begin() + weights});
  }
  if (number >= end_scored) number -= end_scored - first_scored;
  // Where there are hills nothing fits as well as to go by them. Then the last group is left out.
  constexpr int kByHills = 4;
  const bool hills = !tables_.hills.empty();
  if (hills && number < kByHills) return {{}, static_cast<Stack>(number), true};
  const int groups = hills ? kPerStack - 1 : kPerStack;
  if (hills) number -= kByHills;
  const auto stack = static_cast<Stack>(number / groups);
  int group = number % groups;
  // Where single blocks can cost percents, rocks come first.
  const bool large =
      !tables_.largest.empty() && problem_.jobs[tables_.largest[0]].size >= problem_.max_load / 64;
  if (large && group < 2) group = 1 - group;
  const auto& [fraction, least, most] = kGroups[group];
  return {Rocks(fraction, least, most), stack};
}

std::vector<uint32_t> PeakSweep::Rocks(int64_t fraction, size_t least, size_t most) const {
  const auto smallest = problem_.max_load / fraction;
  const auto& largest = tables_.largest;
  const auto end = std::partition_point(largest.begin(), largest.end(), [&](uint32_t j) {
    return problem_.jobs[j].size >= smallest;
  });
  const size_t rocks = std::clamp<size_t>(end - largest.begin(), least, most);
  return {largest.begin(), largest.begin() + std::min(rocks, largest.size())};
}

// Only those that nobody would find room for: what meets rocks can be placed in fewer ways. Where
// the heap is made of such jobs, as a cache of documents is, the sweep itself packs them better.
PeakSweep::Recipe PeakSweep::Scored(double balance,
                                    std::vector<FreeBlocks::CostWeights> weights) const {
  std::vector<uint32_t> rocks = Rocks(256, 0, kMostScoredRocks + 1);
  if (rocks.size() > kMostScoredRocks) rocks.clear();
  return {std::move(rocks), Stack::kTwoEnded, false, std::move(weights), balance};
}

PeakSweep::Recipe PeakSweep::Draw(Random& random) const {
  if (random.Below(4) != 0) {
    std::vector<FreeBlocks::CostWeights> weights(kRandomWeights);
    for (FreeBlocks::CostWeights& some : weights) some = RandomWeights(random);
    return Scored(std::exp2(2 * (random.Unit() + random.Unit() - 1)), std::move(weights));
  }
  const double most = std::max<double>(static_cast<double>(tables_.largest.size()), 1);
  const auto rocks = static_cast<uint32_t>(std::pow(most, 0.3 + 0.7 * random.Unit()));
  const double a = std::tan(random.Unit() * 1.57);
  const double b = random.Unit() * 2;
  const double g = random.Unit() * 2 - 0.5;
  const double jitter = std::pow(random.Unit(), 2);
  std::vector<std::pair<double, uint32_t>> scored;
  for (uint32_t i = 0; i < rocks && i < tables_.largest.size(); ++i) {
    const uint32_t j = tables_.largest[i];
    const double score = a * std::log(static_cast<double>(tables_.max_load[i])) +
                         b * std::log(static_cast<double>(problem_.jobs[j].size)) +
                         g * std::log(static_cast<double>(problem_.lifespan(j))) +
                         jitter * random.Unit();
    scored.emplace_back(-score, j);
  }
  std::sort(scored.begin(), scored.end());
  Recipe recipe;
  for (const auto& [score, job] : scored) recipe.rocks.push_back(job);
  recipe.stack = static_cast<Stack>(random.Below(kStacks));
  recipe.by_hills = !tables_.hills.empty() && random.Below(2) == 0;
  return recipe;
}

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

void PeakSweep::StackAtPeak(const Hill& hill, const Recipe& recipe, FreeBlocks& space) {
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

bool PeakSweep::SweepForwards(const Hill& hill, const Recipe& recipe, int64_t limit,
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

bool PeakSweep::SweepHill(const Hill& hill, const Recipe& recipe, int64_t limit,
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

Addresses PeakSweep::Run(const Recipe& recipe, int64_t limit, const std::function<bool()>& stop) {
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
