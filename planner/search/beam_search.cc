#include "planner/search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/hash.h"

namespace reprise::planner {
namespace {

constexpr uint32_t kNeverEnds = UINT32_MAX;
constexpr size_t kChildren = 12;  // of one state, at most
constexpr uint32_t kValleys = 3;  // where its next job may go

bool Has(const uint64_t* bits, uint32_t job) { return ((bits[job / 64] >> (job % 64)) & 1) != 0; }

// The part of a state's hash that is due to one job.
uint64_t HashOf(uint32_t job, int64_t address) {
  return base::MixBits((uint64_t{job} + 1) * base::kGoldenRatio + static_cast<uint64_t>(address));
}

}  // namespace

BeamSearch::BeamSearch(const Problem& problem)
    : problem_(problem),
      sections_(problem.sections),
      count_(problem.size()),
      words_((problem.size() + 63) / 64),
      weight_(problem.sections),
      ends_(problem.sections + 1),
      addresses_(problem.size()) {
  if (problem.fixed.empty()) return;
  given_.assign(count_, -1);
  for (const uint32_t j : problem.fixed) given_[j] = problem.fixed_address(j);
}

void BeamSearch::Start(int64_t capacity, Random& random) {
  capacity_ = capacity;
  jobs_ = problem_.jobs;
  load_ = problem_.load;
  if (random.Below(2) == 1) {
    std::reverse(load_.begin(), load_.end());
    for (Job& job : jobs_) {
      const uint32_t lower = job.lower;
      job.lower = sections_ - job.upper;
      job.upper = sections_ - lower;
    }
  }
  by_start_ = GroupBy(count_, sections_, [&](uint32_t j) { return jobs_[j].lower; });
  const double power = random.Unit() * 2;
  const double soft = static_cast<double>(capacity) * std::pow(10.0, -4 * random.Unit());
  for (uint32_t s = 0; s < sections_; ++s) {
    weight_[s] = std::pow(static_cast<double>(capacity - load_[s]) + soft, -power);
  }
  exponent_ = 2 * random.Unit();
  noise_ = random.Below(3) == 0 ? 0 : 0.2 * random.Unit();
  beam_ = {};
  beam_.states.resize(1);
  beam_.heights.assign(sections_ + 2, 0);
  beam_.heights.front() = beam_.heights.back() = kSky;
  beam_.slacks.resize(sections_);
  for (uint32_t s = 0; s < sections_; ++s) beam_.slacks[s] = capacity - load_[s];
  beam_.placed.assign(words_, 0);
  history_.assign(1, {0, 0, 0});
  if (given_.empty()) return;
  given_in_.assign(sections_, {});
  for (const uint32_t j : problem_.fixed) {
    for (uint32_t s = jobs_[j].lower; s < jobs_[j].upper; ++s) {
      given_in_[s].push_back({given_[j], j});
    }
  }
  for (std::vector<Given>& given : given_in_) {
    std::sort(given.begin(), given.end(),
              [](const Given& a, const Given& b) { return a.address < b.address; });
  }
}

BeamSearch::Given BeamSearch::Ceiling(uint32_t lower, uint32_t upper, int64_t floor) const {
  Given lowest{kSky, 0};
  if (given_.empty()) return lowest;
  for (uint32_t s = lower; s < upper; ++s) {
    const auto above =
        std::partition_point(given_in_[s].begin(), given_in_[s].end(),
                             [&](const Given& given) { return given.address < floor; });
    if (above != given_in_[s].end() && above->address < lowest.address) lowest = *above;
  }
  return lowest;
}

// How high a valley is filled when nothing more is put there.
int64_t BeamSearch::Level(const Valley& valley) const {
  return std::min(valley.rim(), Ceiling(valley.lower, valley.upper, valley.floor).address);
}

bool BeamSearch::Fill(uint32_t lower, uint32_t upper, int64_t floor, int64_t level, int64_t* height,
                      int64_t* slack, double& waste) const {
  const int64_t amount = level - floor;
  double sum = 0;
  for (uint32_t s = lower; s < upper; ++s) {
    if (slack[s] < amount) return false;
    sum += weight_[s];
  }
  for (uint32_t s = lower; s < upper; ++s) {
    slack[s] -= amount;
    height[s + 1] = level;
  }
  waste += sum * static_cast<double>(amount);
  return true;
}

// For each section of the valley: where the first of the jobs ends that start there or later and
// lie within it.
void BeamSearch::FindEnds(const Valley& valley, const uint64_t* placed) {
  uint32_t end = kNeverEnds;
  ends_[valley.upper] = end;
  for (uint32_t s = valley.upper; s-- > valley.lower;) {
    for (uint32_t i = by_start_.first[s]; i < by_start_.first[s + 1]; ++i) {
      const uint32_t j = by_start_.ids[i];
      if (jobs_[j].upper <= valley.upper && !Has(placed, j)) end = std::min(end, jobs_[j].upper);
    }
    ends_[s] = end;
  }
}

// Every job that could come next, in the lowest valley or in one of those that are the lowest when
// it is given up.
void BeamSearch::Expand(uint32_t parent, Random& random) {
  const State& state = beam_.states[parent];
  const uint64_t* placed = &beam_.placed[size_t{parent} * words_];
  height_.assign(beam_.heights.begin() + size_t{parent} * (sections_ + 2),
                 beam_.heights.begin() + size_t{parent + 1} * (sections_ + 2));
  slack_.assign(beam_.slacks.begin() + size_t{parent} * sections_,
                beam_.slacks.begin() + size_t{parent + 1} * sections_);
  children_.clear();
  double base = state.waste;
  uint32_t choices = 0;
  for (uint32_t raises = 0; choices < kValleys; ++raises) {
    const Valley valley = LowestValley(height_.data(), sections_);
    if (valley.floor >= capacity_) break;
    if (const Given next = Ceiling(valley.lower, valley.upper, valley.floor);
        next.address == valley.floor) {
      const Job& job = jobs_[next.job];
      const double area =
          state.area + static_cast<double>(job.size) * static_cast<double>(job.upper - job.lower);
      children_.push_back({base / std::pow(area, exponent_),
                           state.hash + HashOf(next.job, valley.floor), parent, next.job, raises});
      break;
    }
    FindEnds(valley, placed);
    if (ends_[valley.lower] <= valley.upper) ++choices;
    int64_t least = kSky;  // slack of what is skipped
    double gap = 0;        // its weight
    for (uint32_t s = valley.lower; s < valley.upper && ends_[s] <= valley.upper; ++s) {
      for (uint32_t i = by_start_.first[s]; i < by_start_.first[s + 1]; ++i) {
        const uint32_t j = by_start_.ids[i];
        const Job& job = jobs_[j];
        if (job.upper > valley.upper || Has(placed, j)) continue;
        if (!given_.empty() &&
            (given_[j] >= 0 ||
             valley.floor + job.size > Ceiling(job.lower, job.upper, valley.floor).address)) {
          continue;
        }
        const int64_t left = std::min(valley.left - valley.floor, job.size);
        if (s > valley.lower && left > least) continue;
        double waste = base + gap * static_cast<double>(left);
        bool twin = false;
        for (uint32_t k = by_start_.first[s]; k < i && !twin; ++k) {
          const uint32_t other = by_start_.ids[k];
          twin = jobs_[other].upper == job.upper && jobs_[other].size == job.size &&
                 !Has(placed, other) && (given_.empty() || given_[other] < 0);
        }
        if (twin) continue;
        if (job.upper < valley.upper && ends_[job.upper] > valley.upper) {
          const int64_t ceiling = Ceiling(job.upper, valley.upper, valley.floor).address;
          const int64_t right = std::min(std::min(valley.right, ceiling) - valley.floor, job.size);
          bool fits = true;
          for (uint32_t t = job.upper; t < valley.upper && fits; ++t) {
            fits = slack_[t] >= right;
            waste += weight_[t] * static_cast<double>(right);
          }
          if (!fits) continue;
        }
        const double area =
            state.area + static_cast<double>(job.size) * static_cast<double>(job.upper - job.lower);
        double score = waste / std::pow(area, exponent_);
        if (noise_ > 0) score *= 1 + noise_ * random.Unit();
        children_.push_back({score, state.hash + HashOf(j, valley.floor), parent, j, raises});
      }
      least = std::min(least, slack_[s]);
      gap += weight_[s];
      if (least == 0) break;
    }
    if (!Fill(valley.lower, valley.upper, valley.floor, Level(valley), height_.data(),
              slack_.data(), base)) {
      break;
    }
  }
  const size_t kept = std::min(children_.size(), kChildren);
  std::partial_sort(children_.begin(), children_.begin() + kept, children_.end(), Better);
  candidates_.insert(candidates_.end(), children_.begin(), children_.begin() + kept);
}

void BeamSearch::Apply(const Candidate& candidate) {
  const State& parent = beam_.states[candidate.parent];
  const size_t index = next_.states.size();
  next_.heights.insert(next_.heights.end(),
                       beam_.heights.begin() + size_t{candidate.parent} * (sections_ + 2),
                       beam_.heights.begin() + size_t{candidate.parent + 1} * (sections_ + 2));
  next_.slacks.insert(next_.slacks.end(),
                      beam_.slacks.begin() + size_t{candidate.parent} * sections_,
                      beam_.slacks.begin() + size_t{candidate.parent + 1} * sections_);
  next_.placed.insert(next_.placed.end(), beam_.placed.begin() + size_t{candidate.parent} * words_,
                      beam_.placed.begin() + size_t{candidate.parent + 1} * words_);
  int64_t* height = &next_.heights[index * (sections_ + 2)];
  int64_t* slack = &next_.slacks[index * sections_];
  uint64_t* placed = &next_.placed[index * words_];
  State state = parent;
  Valley valley = LowestValley(height, sections_);
  for (uint32_t i = 0; i < candidate.raises; ++i) {
    Fill(valley.lower, valley.upper, valley.floor, Level(valley), height, slack, state.waste);
    valley = LowestValley(height, sections_);
  }
  const Job& job = jobs_[candidate.job];
  const int64_t top = valley.floor + job.size;
  const bool given = !given_.empty() && given_[candidate.job] >= 0;
  std::fill(height + job.lower + 1, height + job.upper + 1, top);
  placed[candidate.job / 64] |= uint64_t{1} << (candidate.job % 64);
  if (job.lower > valley.lower && !given) {
    const int64_t ceiling = Ceiling(valley.lower, job.lower, valley.floor).address;
    Fill(valley.lower, job.lower, valley.floor, std::min({valley.left, top, ceiling}), height,
         slack, state.waste);
  }
  state.hash = candidate.hash;
  state.area += static_cast<double>(job.size) * static_cast<double>(job.upper - job.lower);
  history_.push_back({parent.history, candidate.job, valley.floor});
  state.history = static_cast<uint32_t>(history_.size() - 1);
  next_.states.push_back(state);
}

bool BeamSearch::Run(int64_t capacity, Random& random, int64_t width,
                     const std::function<bool()>& stop) {
  Start(capacity, random);
  std::unordered_set<uint64_t> seen;
  for (uint32_t level = 0; level < count_; ++level) {
    candidates_.clear();
    for (uint32_t s = 0; s < beam_.states.size(); ++s) {
      if ((s & 15) == 0 && stop()) return false;
      Expand(s, random);
    }
    std::sort(candidates_.begin(), candidates_.end(), Better);
    next_.states.clear();
    next_.heights.clear();
    next_.slacks.clear();
    next_.placed.clear();
    seen.clear();
    for (const Candidate& candidate : candidates_) {
      if (static_cast<int64_t>(next_.states.size()) == width) break;
      if (seen.insert(candidate.hash).second) Apply(candidate);
    }
    std::swap(beam_, next_);
    if (beam_.states.empty()) return false;
  }
  for (uint32_t move = beam_.states[0].history; move != 0; move = history_[move].before) {
    addresses_[history_[move].job] = history_[move].address;
  }
  return true;
}

}  // namespace reprise::planner
