#include "planner/valley_search.h"

#include <algorithm>
#include <cmath>

#include "planner/sweep.h"

namespace reprise::planner {
ValleySearch::ValleySearch(const Problem& problem)
    : sections_(problem.sections),
      count_(problem.size()),
      problem_(problem),
      height_(problem.sections + 2),
      slack_(problem.sections),
      closed_(problem.sections),
      placed_(problem.size()),
      addresses_(problem.size()) {
  if (problem.fixed.empty()) return;
  given_.assign(count_, -1);
  for (const uint32_t j : problem.fixed) given_[j] = problem.fixed_address(j);
}

void ValleySearch::Start(int64_t capacity, Random& random) {
  // Half of the searches run backwards in time.
  const bool mirror = random.Below(2) == 1;
  jobs_ = problem_.jobs;
  for (uint32_t s = 0; s < sections_; ++s) {
    slack_[s] = capacity - problem_.load[mirror ? sections_ - 1 - s : s];
  }
  if (mirror) {
    for (Job& job : jobs_) {
      const uint32_t lower = job.lower;
      job.lower = sections_ - job.upper;
      job.upper = sections_ - lower;
    }
  }
  const double by_size = random.Unit() * 2;
  const double by_span = random.Unit() * 2 - 0.5;
  const double jitter = random.Unit() * random.Unit() * 2;
  std::vector<double> score(count_);
  for (uint32_t j = 0; j < count_; ++j) {
    score[j] = by_size * std::log(static_cast<double>(jobs_[j].size)) +
               by_span * std::log(static_cast<double>(jobs_[j].upper - jobs_[j].lower)) +
               jitter * random.Unit();
  }
  Groups groups = GroupBy(count_, sections_, [&](uint32_t j) { return jobs_[j].lower; });
  for (uint32_t s = 0; s < sections_; ++s) {
    std::sort(
        groups.ids.begin() + groups.first[s], groups.ids.begin() + groups.first[s + 1],
        [&](uint32_t a, uint32_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; });
  }
  first_start_ = std::move(groups.first);
  by_start_ = std::move(groups.ids);

  std::fill(height_.begin(), height_.end(), 0);
  height_.front() = height_.back() = kSky;
  std::fill(closed_.begin(), closed_.end(), 0);
  std::fill(placed_.begin(), placed_.end(), 0);
  left_ = count_;
  steps_.clear();
  if (given_.empty()) return;
  given_in_.assign(sections_, {});
  given_placed_.assign(sections_, 0);
  for (const uint32_t j : problem_.fixed) {
    for (uint32_t s = jobs_[j].lower; s < jobs_[j].upper; ++s) given_in_[s].push_back(given_[j]);
  }
  for (std::vector<int64_t>& given : given_in_) std::sort(given.begin(), given.end());
}

void ValleySearch::SetHeight(uint32_t lower, uint32_t upper, int64_t height) {
  std::fill(height_.begin() + lower + 1, height_.begin() + upper + 1, height);
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

bool ValleySearch::Fits(uint32_t job, int64_t floor) const {
  if (given_.empty()) return true;
  if (given_[job] >= 0) return given_[job] == floor;
  return floor + jobs_[job].size <= Ceiling(jobs_[job].lower, jobs_[job].upper);
}

void ValleySearch::Place(uint32_t job, int64_t address) {
  placed_[job] = 1;
  addresses_[job] = address;
  --left_;
  SetHeight(jobs_[job].lower, jobs_[job].upper, address + jobs_[job].size);
  if (given_.empty() || given_[job] < 0) return;
  for (uint32_t s = jobs_[job].lower; s < jobs_[job].upper; ++s) ++given_placed_[s];
}

void ValleySearch::Remove(uint32_t job, int64_t floor) {
  placed_[job] = 0;
  ++left_;
  SetHeight(jobs_[job].lower, jobs_[job].upper, floor);
  if (given_.empty() || given_[job] < 0) return;
  for (uint32_t s = jobs_[job].lower; s < jobs_[job].upper; ++s) --given_placed_[s];
}

// Takes the next option at `section`: a job from `choice` on, or none. False: there is no option.
bool ValleySearch::TryFrom(uint32_t section, uint32_t upper, uint32_t choice, int64_t floor,
                           Range blame) {
  for (; choice < first_start_[section + 1]; ++choice) {
    const uint32_t j = by_start_[choice];
    if (placed_[j] || jobs_[j].upper > upper || !Fits(j, floor)) continue;
    // A twin was tried in this place already.
    bool twin = false;
    for (uint32_t c = first_start_[section]; c < choice && !twin; ++c) {
      const uint32_t other = by_start_[c];
      twin = !placed_[other] && jobs_[other].upper == jobs_[j].upper &&
             jobs_[other].size == jobs_[j].size &&
             (given_.empty() || (given_[other] < 0 && given_[j] < 0));
    }
    if (twin) continue;
    Place(j, floor);
    steps_.push_back({Step::Kind::kJob, section, upper, choice, floor, blame});
    return true;
  }
  if (slack_[section] == 0 || Ceiling(section, section + 1) == floor) {
    conflict_ = blame;
    return false;
  }
  closed_[section] = 1;
  steps_.push_back({Step::Kind::kClose, section, upper, choice, floor, blame});
  return true;
}

// One step further. False: a dead end.
bool ValleySearch::Advance() {
  const Valley valley = LowestValley(height_.data(), sections_);
  uint32_t section = valley.lower;
  while (section < valley.upper && closed_[section]) ++section;
  if (section < valley.upper) {
    return TryFrom(section, valley.upper, first_start_[section], valley.floor,
                   Around(valley.lower, valley.upper));
  }
  // Nothing more rests on this floor: what is left of it is wasted, up to the rim or to what has to
  // be somewhere above it.
  const int64_t level = std::min(valley.rim(), Ceiling(valley.lower, valley.upper));
  const int64_t waste = level - valley.floor;
  for (uint32_t s = valley.lower; s < valley.upper; ++s) {
    if (slack_[s] >= waste) continue;
    conflict_ = Around(valley.lower, valley.upper);
    return false;
  }
  for (uint32_t s = valley.lower; s < valley.upper; ++s) {
    slack_[s] -= waste;
    closed_[s] = 0;
  }
  SetHeight(valley.lower, valley.upper, level);
  steps_.push_back({Step::Kind::kRaise, valley.lower, valley.upper, 0, valley.floor, {}});
  return true;
}

// What is decided in a valley depends on its sections and on its two neighbours.
ValleySearch::Range ValleySearch::Around(uint32_t lower, uint32_t upper) const {
  return {lower == 0 ? 0 : lower - 1, std::min(upper + 1, sections_)};
}

// Undoes steps until one that had a part in the conflict has another option, and takes that. False:
// everything was tried.
bool ValleySearch::Backtrack() {
  const auto hull = [](Range a, Range b) {
    return Range{std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
  };
  while (!steps_.empty()) {
    const Step step = steps_.back();
    steps_.pop_back();
    switch (step.kind) {
      case Step::Kind::kJob: {
        const uint32_t j = by_start_[step.choice];
        Remove(j, step.floor);
        if (jobs_[j].upper <= conflict_.lower || conflict_.upper <= step.lower) break;
        if (TryFrom(step.lower, step.upper, step.choice + 1, step.floor,
                    hull(conflict_, step.blame))) {
          return true;
        }
        break;
      }
      case Step::Kind::kClose:
        closed_[step.lower] = 0;
        if (step.lower < conflict_.lower || conflict_.upper <= step.lower) break;
        conflict_ = hull(conflict_, step.blame);
        break;
      case Step::Kind::kRaise: {
        const int64_t waste = height_[step.lower + 1] - step.floor;
        for (uint32_t s = step.lower; s < step.upper; ++s) {
          slack_[s] += waste;
          closed_[s] = 1;
        }
        SetHeight(step.lower, step.upper, step.floor);
        if (step.upper <= conflict_.lower || conflict_.upper <= step.lower) break;
        conflict_ = hull(conflict_, Around(step.lower, step.upper));
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
    if (!Advance() && !Backtrack()) return Outcome::kImpossible;
  }
  return Outcome::kFound;
}

}  // namespace reprise::planner
