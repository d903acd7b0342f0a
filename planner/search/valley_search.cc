#include "planner/search/valley_search.h"

#include <algorithm>
#include <cmath>

#include "planner/placement/sweep.h"

namespace reprise::planner {
ValleySearch::ValleySearch(const Problem& problem)
    : sections_(problem.sections),
      count_(problem.size()),
      problem_(problem),
      original_(problem),
      shapes_(original_),
      skyline_(problem.sections),
      slack_(problem.sections),
      closed_(problem.sections),
      placed_(problem.size()),
      addresses_(problem.size()) {
  for (uint32_t j = 0; j < count_ && !problem.solid; ++j) {
    if (original_.HasGaps(j) || problem.alignment(j) > 1) special_.push_back(j);
  }
  if (problem.fixed.empty()) return;
  given_.assign(count_, -1);
  for (const uint32_t j : problem.fixed) given_[j] = problem.fixed_address(j);
}

void ValleySearch::Start(int64_t capacity, Random& random) {
  capacity_ = capacity;
  shapes_ = original_;
  // Half of the searches run backwards in time.
  if (random.Below(2) == 1) shapes_.Mirror();
  for (uint32_t s = 0; s < sections_; ++s) slack_[s] = capacity - shapes_.load[s];
  SortOptions(random);

  skyline_.Clear();
  std::fill(closed_.begin(), closed_.end(), 0);
  std::fill(placed_.begin(), placed_.end(), 0);
  left_ = count_;
  for (uint32_t j = 0; j < count_; ++j) {
    if (!shapes_.IsNothing(j)) continue;
    placed_[j] = 1;
    addresses_[j] = !given_.empty() && given_[j] >= 0 ? given_[j] : problem_.AlignUp(j, 0);
    --left_;
  }
  covered_.clear();
  steps_.clear();
  if (given_.empty()) return;
  given_in_.assign(sections_, {});
  given_placed_.assign(sections_, 0);
  for (const uint32_t j : problem_.fixed) {
    shapes_.ForPieces(j, [&](const Piece& piece) {
      for (uint32_t s = piece.lower; s < piece.upper; ++s) given_in_[s].push_back(given_[j]);
    });
  }
  for (std::vector<int64_t>& given : given_in_) std::sort(given.begin(), given.end());
}

// Draws the order in which the jobs that start in a section are tried.
void ValleySearch::SortOptions(Random& random) {
  const double by_size = random.Unit() * 2;
  const double by_span = random.Unit() * 2 - 0.5;
  const double jitter = random.Unit() * random.Unit() * 2;
  std::vector<double> score(count_);
  for (uint32_t j = 0; j < count_; ++j) {
    const Job& job = shapes_.jobs[j];
    score[j] = by_size * std::log(static_cast<double>(job.size)) +
               by_span * std::log(static_cast<double>(job.upper - job.lower)) +
               jitter * random.Unit();
  }
  Groups groups = GroupBy(count_, sections_, [&](uint32_t j) { return shapes_.Start(j); });
  for (uint32_t s = 0; s < sections_; ++s) {
    std::sort(
        groups.ids.begin() + groups.first[s], groups.ids.begin() + groups.first[s + 1],
        [&](uint32_t a, uint32_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; });
  }
  first_start_ = std::move(groups.first);
  by_start_ = std::move(groups.ids);
}

// The lowest given address in sections [lower, upper) whose job is not placed yet.
int64_t ValleySearch::Ceiling(uint32_t lower, uint32_t upper) const {
  int64_t ceiling = kSky;
  if (given_.empty()) return ceiling;
  for (uint32_t s = lower; s < upper; ++s) {
    if (given_placed_[s] < given_in_[s].size()) {
      ceiling = std::min(ceiling, given_in_[s][given_placed_[s]]);
    }
  }
  return ceiling;
}

// Whether a job that starts in the valley that ends at `upper` may rest on its floor.
bool ValleySearch::Fits(uint32_t job, uint32_t upper, int64_t floor) const {
  if (!shapes_.HasGaps(job)) {
    if (shapes_.jobs[job].upper > upper) return false;
  } else if (!PiecesFit(job, floor)) {
    return false;
  }
  if (problem_.plain) return true;
  if (!given_.empty() && given_[job] >= 0) return given_[job] == floor;
  if (problem_.AlignUp(job, floor) != floor) return false;
  if (floor + shapes_.jobs[job].size > capacity_) return false;
  bool free = true;
  shapes_.ForPieces(job, [&](const Piece& piece) {
    free = free && floor + piece.window_upper <= Ceiling(piece.lower, piece.upper);
  });
  return free;
}

bool ValleySearch::PiecesFit(uint32_t job, int64_t floor) const {
  bool fits = true;
  shapes_.ForPieces(job, [&](const Piece& piece) {
    const int64_t lower = floor + piece.window_lower;
    for (uint32_t s = piece.lower; s < piece.upper && fits; ++s) {
      fits = skyline_[s] <= lower && !closed_[s] && lower - skyline_[s] <= slack_[s];
    }
  });
  return fits;
}

void ValleySearch::Place(uint32_t job, int64_t address) {
  placed_[job] = 1;
  addresses_[job] = address;
  --left_;
  if (shapes_.HasGaps(job)) return PlacePieces(job, address);
  const Job& j = shapes_.jobs[job];
  skyline_.Set(j.lower, j.upper, address + j.size);
  if (given_.empty() || given_[job] < 0) return;
  for (uint32_t s = j.lower; s < j.upper; ++s) ++given_placed_[s];
}

void ValleySearch::PlacePieces(uint32_t job, int64_t address) {
  shapes_.ForPieces(job, [&](const Piece& piece) {
    for (uint32_t s = piece.lower; s < piece.upper; ++s) {
      covered_.push_back(skyline_[s]);
      slack_[s] -= address + piece.window_lower - skyline_[s];
      if (!given_.empty() && given_[job] >= 0) ++given_placed_[s];
    }
    skyline_.Set(piece.lower, piece.upper, address + piece.window_upper);
  });
}

void ValleySearch::Remove(uint32_t job, int64_t floor) {
  placed_[job] = 0;
  ++left_;
  if (shapes_.HasGaps(job)) return RemovePieces(job, floor);
  const Job& j = shapes_.jobs[job];
  skyline_.Set(j.lower, j.upper, floor);
  if (given_.empty() || given_[job] < 0) return;
  for (uint32_t s = j.lower; s < j.upper; ++s) --given_placed_[s];
}

void ValleySearch::RemovePieces(uint32_t job, int64_t address) {
  size_t count = 0;
  shapes_.ForPieces(job, [&](const Piece& piece) { count += piece.upper - piece.lower; });
  covered_.resize(covered_.size() - count);
  const int64_t* covered = covered_.data() + covered_.size();
  shapes_.ForPieces(job, [&](const Piece& piece) {
    for (uint32_t s = piece.lower; s < piece.upper; ++s) {
      skyline_.Set(s, s + 1, *covered++);
      slack_[s] += address + piece.window_lower - skyline_[s];
      if (!given_.empty() && given_[job] >= 0) --given_placed_[s];
    }
  });
}

// Takes the next option at `section`: a job from `choice` on, or none. False: there is no option.
bool ValleySearch::TryFrom(uint32_t section, uint32_t upper, uint32_t choice, int64_t floor,
                           Range blame) {
  for (; choice < first_start_[section + 1]; ++choice) {
    const uint32_t j = by_start_[choice];
    if (placed_[j] || !Fits(j, upper, floor)) continue;
    // A twin was tried in this place already.
    bool twin = false;
    for (uint32_t c = first_start_[section]; c < choice && !twin; ++c) {
      const uint32_t other = by_start_[c];
      twin = !placed_[other] && shapes_.Twins(other, j) &&
             problem_.alignment(other) == problem_.alignment(j) &&
             (given_.empty() || (given_[other] < 0 && given_[j] < 0));
    }
    if (twin) continue;
    Place(j, floor);
    steps_.push_back({Step::Kind::kJob, section, upper, choice, floor, blame});
    return true;
  }
  if (slack_[section] <= 0 || Ceiling(section, section + 1) == floor) {
    conflict_ = blame;
    return false;
  }
  closed_[section] = 1;
  steps_.push_back({Step::Kind::kClose, section, upper, choice, floor, blame});
  return true;
}

// The lowest valley that is to be decided next. Jobs with gaps may lie in several at once: none is
// given up before all of one height are decided.
Valley ValleySearch::OpenValley() const {
  const Valley lowest = skyline_.Lowest();
  if (special_.empty()) return lowest;
  for (uint32_t s = lowest.lower; s < sections_; ++s) {
    if (skyline_[s] == lowest.floor && !closed_[s]) return skyline_.At(s);
  }
  return lowest;
}

// The lowest address at which `job` would rest on what is there now.
int64_t ValleySearch::Rest(uint32_t job) const {
  int64_t rest = 0;
  shapes_.ForPieces(job, [&](const Piece& piece) {
    for (uint32_t s = piece.lower; s < piece.upper; ++s) {
      rest = std::max(rest, skyline_[s] - piece.window_lower);
    }
  });
  return rest;
}

// The lowest address above `floor`, the lowest height, that anything can have which comes next once
// everything at `floor` is decided.
int64_t ValleySearch::NextEvent(int64_t floor) const {
  int64_t next = kSky;
  for (uint32_t s = 0; s < sections_; ++s) {
    next = std::min(next, skyline_[s] > floor ? skyline_[s] : Ceiling(s, s + 1));
  }
  for (const uint32_t j : special_) {
    const int64_t address = problem_.AlignUp(j, floor);
    if (!placed_[j] && address > floor) next = std::min(next, address);
  }
  return next;
}

// How high the floor of a decided valley may rise: what comes next there is at or above that.
// Widens `blame` to all that this depends on.
int64_t ValleySearch::Level(const Valley& valley, Range& blame) const {
  int64_t level = std::min(valley.rim(), Ceiling(valley.lower, valley.upper));
  for (const uint32_t j : special_) {
    const Job& job = shapes_.jobs[j];
    if (placed_[j] || job.upper <= valley.lower || valley.upper <= job.lower) continue;
    const bool within = valley.lower <= job.lower && job.upper <= valley.upper;
    if (!within && !shapes_.HasGaps(j)) continue;  // rests on the rim
    const int64_t address = problem_.AlignUp(j, within ? valley.floor : Rest(j));
    if (!within) blame = Hull(blame, {job.lower, job.upper});
    if (address > valley.floor) {
      level = std::min(level, address);
    } else if (!within) {
      blame = {0, sections_};
      level = std::min(level, NextEvent(valley.floor));
    }
  }
  return level;
}

// One step further. False: a dead end.
bool ValleySearch::Advance() {
  const Valley valley = OpenValley();
  uint32_t section = valley.lower;
  while (section < valley.upper && closed_[section]) ++section;
  Range blame = Around(valley.lower, valley.upper);
  if (section < valley.upper) {
    return TryFrom(section, valley.upper, first_start_[section], valley.floor,
                   Reach(section, blame));
  }
  // Nothing more rests on this floor: what is left of it is wasted, up to the rim or to what has to
  // be somewhere above it.
  const int64_t level = Level(valley, blame);
  const int64_t waste = level - valley.floor;
  for (uint32_t s = valley.lower; s < valley.upper; ++s) {
    if (slack_[s] >= waste) continue;
    conflict_ = blame;
    return false;
  }
  for (uint32_t s = valley.lower; s < valley.upper; ++s) {
    slack_[s] -= waste;
    closed_[s] = 0;
  }
  skyline_.Set(valley.lower, valley.upper, level);
  steps_.push_back({Step::Kind::kRaise, valley.lower, valley.upper, 0, valley.floor, blame});
  return true;
}

// What is decided in a valley depends on its sections and on its two neighbours.
ValleySearch::Range ValleySearch::Around(uint32_t lower, uint32_t upper) const {
  return {lower == 0 ? 0 : lower - 1, std::min(upper + 1, sections_)};
}

// And on all sections of the jobs with gaps that could start there.
ValleySearch::Range ValleySearch::Reach(uint32_t section, Range range) const {
  if (shapes_.gaps.empty()) return range;
  for (uint32_t c = first_start_[section]; c < first_start_[section + 1]; ++c) {
    const uint32_t j = by_start_[c];
    if (placed_[j] || !shapes_.HasGaps(j)) continue;
    range = Hull(range, {shapes_.jobs[j].lower, shapes_.jobs[j].upper});
  }
  return range;
}

// Undoes steps until one that had a part in the conflict has another option, and takes that. False:
// everything was tried.
bool ValleySearch::Backtrack() {
  while (!steps_.empty()) {
    const Step step = steps_.back();
    steps_.pop_back();
    switch (step.kind) {
      case Step::Kind::kJob: {
        const uint32_t j = by_start_[step.choice];
        Remove(j, step.floor);
        if (shapes_.jobs[j].upper <= conflict_.lower || conflict_.upper <= shapes_.jobs[j].lower) {
          break;
        }
        if (TryFrom(step.lower, step.upper, step.choice + 1, step.floor,
                    Hull(conflict_, step.blame))) {
          return true;
        }
        break;
      }
      case Step::Kind::kClose:
        closed_[step.lower] = 0;
        if (step.lower < conflict_.lower || conflict_.upper <= step.lower) break;
        conflict_ = Hull(conflict_, step.blame);
        break;
      case Step::Kind::kRaise: {
        const int64_t waste = skyline_[step.lower] - step.floor;
        for (uint32_t s = step.lower; s < step.upper; ++s) {
          slack_[s] += waste;
          closed_[s] = 1;
        }
        skyline_.Set(step.lower, step.upper, step.floor);
        if (step.upper <= conflict_.lower || conflict_.upper <= step.lower) break;
        conflict_ = Hull(conflict_, step.blame);
        break;
      }
    }
  }
  return false;
}

ValleySearch::Outcome ValleySearch::Run(int64_t capacity, Random& random, int64_t nodes,
                                        const std::function<bool()>& stop) {
  Start(capacity, random);
  for (int64_t node = 0; left_ > 0; ++node) {
    if (node >= nodes || ((node & 1023) == 0 && stop())) return Outcome::kGaveUp;
    if (!Advance() && !Backtrack()) {
      return shapes_.flat ? Outcome::kImpossible : Outcome::kGaveUp;
    }
  }
  return Outcome::kFound;
}

}  // namespace reprise::planner
