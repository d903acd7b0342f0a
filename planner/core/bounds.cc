#include "planner/core/bounds.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace reprise::planner {
namespace {

// Steps in which a clique may grow no further.
constexpr int64_t kPatience = 100;

// Sums are counted one by one in holes of so many units.
constexpr int64_t kMostSums = 1 << 16;

// A set of jobs that overlap each other in pairs, while all of themselves is in use.
class Clique {
 public:
  Clique(const Problem& problem, int64_t most)
      : problem_(problem),
        most_(most),
        missed_(problem.size()),
        inside_(problem.size()),
        meets_(problem.size()),
        barred_until_(problem.size()) {
    for (uint32_t j = 0; j < problem.size(); ++j) {
      for (uint32_t p = problem.first_piece[j]; p < problem.first_piece[j + 1]; ++p) {
        const Piece& piece = problem.pieces[p];
        const bool whole = piece.window_upper - piece.window_lower == problem.jobs[j].size;
        if (whole) spans_.push_back({j, piece.lower, piece.upper});
      }
    }
    first_span_.resize(problem.size() + 1);
    for (const Span& span : spans_) ++first_span_[span.job + 1];
    for (uint32_t j = 0; j < problem.size(); ++j) first_span_[j + 1] += first_span_[j];
  }

  // All that are whole in a section.
  void Start(uint32_t section) {
    for (const Span& span : spans_) {
      if (work_ >= most_) return;
      if (span.lower <= section && section < span.upper) Add(span.job);
    }
  }

  // Puts in the job that gains most, though that may be less than nothing; what it does not overlap
  // goes, and stays away for a while. False: there is none to put in.
  bool Step(int64_t step) {
    constexpr int64_t kBarred = 10;  // steps
    uint32_t best = problem_.size();
    for (uint32_t j = 0; j < problem_.size(); ++j) {
      if (inside_[j] || first_span_[j] == first_span_[j + 1] || barred_until_[j] > step) continue;
      if (best == problem_.size() || Gain(j) > Gain(best)) best = j;
    }
    work_ += problem_.size();
    if (best == problem_.size()) return false;
    Mark(best);
    std::vector<uint32_t> out;
    for (uint32_t j = 0; j < problem_.size(); ++j) {
      if (inside_[j] && !meets_[j]) out.push_back(j);
    }
    for (const uint32_t j : out) {
      Change(j, false);
      barred_until_[j] = step + kBarred;
    }
    Add(best);
    return true;
  }

  int64_t total() const { return total_; }
  int64_t work() const { return work_; }

 private:
  struct Span {
    uint32_t job;
    uint32_t lower;
    uint32_t upper;
  };

  int64_t Gain(uint32_t job) const { return problem_.jobs[job].size - missed_[job]; }
  void Add(uint32_t job) { Change(job, true); }

  // Sets meets_ for those that `job` overlaps, itself included.
  void Mark(uint32_t job) {
    std::fill(meets_.begin(), meets_.end(), 0);
    // Its own spans are ascending and disjoint: the first one that ends behind the beginning of
    // another span meets it, or none does.
    const auto begin = spans_.begin() + first_span_[job];
    const auto end = spans_.begin() + first_span_[job + 1];
    for (const Span& span : spans_) {
      const auto own =
          std::partition_point(begin, end, [&](const Span& it) { return it.upper <= span.lower; });
      if (own != end && own->lower < span.upper) meets_[span.job] = 1;
    }
    work_ +=
        static_cast<int64_t>(spans_.size()) * std::bit_width(static_cast<uint64_t>(end - begin));
  }

  void Change(uint32_t job, bool in) {
    Mark(job);
    const int64_t size = in ? problem_.jobs[job].size : -problem_.jobs[job].size;
    for (uint32_t j = 0; j < problem_.size(); ++j) missed_[j] += meets_[j] ? 0 : size;
    inside_[job] = in;
    total_ += size;
  }

  const Problem& problem_;
  int64_t most_;             // work
  std::vector<Span> spans_;  // in the order of the jobs
  std::vector<uint32_t> first_span_;
  std::vector<int64_t> missed_;  // per job: the total of those inside that it does not overlap
  std::vector<uint8_t> inside_;
  std::vector<uint8_t> meets_;
  std::vector<int64_t> barred_until_;
  int64_t total_ = 0;
  int64_t work_ = 0;
};

// The largest sum of some of `sizes` that is not above `limit`, or something above that.
int64_t LargestSum(const std::vector<int64_t>& sizes, int64_t limit) {
  int64_t all = 0;
  for (const int64_t size : sizes) all += size <= limit ? size : 0;
  if (all <= limit) return all;
  if (limit > kMostSums) return limit;
  std::vector<uint8_t> sums(limit + 1);
  sums[0] = 1;
  for (const int64_t size : sizes) {
    for (int64_t sum = limit; sum >= size; --sum) sums[sum] |= sums[sum - size];
    if (sums[limit]) return limit;
  }
  while (!sums[limit]) --limit;
  return limit;
}

// What is live at one instant is a stack in some order, with what alignment wastes between. The
// least end of all orders, found set by set: the lower a set ends, the lower whatever lies above.
int64_t LeastStack(const Problem& problem, const std::vector<uint32_t>& jobs) {
  struct Item {
    int64_t alignment, size;
  };
  std::vector<Item> items;
  for (uint32_t job : jobs) items.push_back({problem.alignment(job), problem.jobs[job].size});
  const size_t all = (size_t{1} << jobs.size()) - 1;
  const int64_t origin = problem.origin();
  std::vector<int64_t> ends(all + 1, INT64_MAX);
  int64_t* const end = ends.data();
  end[0] = 0;
  for (size_t set = 0; set < all; ++set) {
    for (size_t left = all & ~set; left != 0; left &= left - 1) {
      const Item& item = items[static_cast<size_t>(__builtin_ctzll(left))];
      const int64_t at = origin + end[set] + item.alignment - 1;
      const int64_t top = at - at % item.alignment - origin + item.size;
      int64_t& with = end[set | (left & (0 - left))];
      if (top < with) with = top;
    }
  }
  return end[all];
}

// The least that many need is what a few of them need by themselves: the others may all lie where
// those leave something. Most is left by those that are aligned most strictly.
void KeepStrictest(const Problem& problem, size_t most, std::vector<uint32_t>& jobs) {
  std::erase_if(jobs, [&](uint32_t j) { return problem.alignment(j) == 1; });
  std::stable_sort(jobs.begin(), jobs.end(), [&](uint32_t a, uint32_t b) {
    return problem.alignment(a) > problem.alignment(b);
  });
  if (jobs.size() > most) jobs.resize(most);
}

// One section's given addresses and sizes to place, in the order of visits.
struct SectionContent {
  std::vector<std::pair<int64_t, int64_t>> given;
  std::vector<int64_t> sizes;
};

int64_t EndOf(SectionContent& content) {
  std::sort(content.given.begin(), content.given.end());
  int64_t left = 0;
  for (const int64_t size : content.sizes) left += size;
  int64_t top = 0;
  for (const auto& [lower, upper] : content.given) {
    left -= LargestSum(content.sizes, lower - top);
    top = upper;
  }
  return top + std::max<int64_t>(left, 0);
}

}  // namespace

int64_t CliqueBound(const Problem& problem, const std::function<bool()>& stop, int64_t work) {
  if (problem.pieces.empty() || stop()) return 0;
  Clique clique(problem, work);
  const auto peak = std::max_element(problem.load.begin(), problem.load.end());
  clique.Start(static_cast<uint32_t>(peak - problem.load.begin()));
  int64_t best = clique.total();
  int64_t found = 0;
  for (int64_t step = 0; step - found < kPatience && clique.work() < work; ++step) {
    if (stop() || !clique.Step(step)) break;
    if (clique.total() <= best) continue;
    best = clique.total();
    found = step;
  }
  return best;
}

int64_t AlignmentBound(const Problem& problem) {
  constexpr size_t kMostJobs = 18;
  constexpr size_t kMostAmongMany = 12;
  constexpr int64_t kStep = 4;  // what it takes to put one on a stack
  if (problem.solid || !problem.pieces.empty()) return 0;
  std::vector<uint32_t> sections(problem.sections);
  for (uint32_t s = 0; s < problem.sections; ++s) sections[s] = s;
  std::stable_sort(sections.begin(), sections.end(),
                   [&](uint32_t a, uint32_t b) { return problem.load[a] > problem.load[b]; });
  // One below the max load is no news.
  int64_t bound = sections.empty() ? 0 : problem.load[sections.front()];
  int64_t work = 0;
  std::vector<uint32_t> jobs, last;
  for (const uint32_t s : sections) {
    work += problem.size();
    if (work > kBoundWork) break;
    jobs.clear();
    for (uint32_t j = 0; j < problem.size(); ++j) {
      if (problem.jobs[j].lower <= s && s < problem.jobs[j].upper) jobs.push_back(j);
    }
    if (jobs.size() > kMostJobs) KeepStrictest(problem, kMostAmongMany, jobs);
    if (jobs == last) continue;
    last = jobs;
    int64_t most = 0;
    for (const uint32_t j : jobs) most += problem.jobs[j].size + problem.alignment(j) - 1;
    const auto cost = kStep * static_cast<int64_t>(jobs.size() << jobs.size());
    if (most <= bound || work + cost > kBoundWork) continue;
    work += cost;
    bound = std::max(bound, LeastStack(problem, jobs));
  }
  return bound;
}

int64_t HoleBound(const Problem& problem) {
  if (problem.fixed.empty()) return 0;
  std::vector<uint8_t> given(problem.size());
  std::vector<int64_t> top(problem.sections);  // of what is given
  std::vector<int64_t> free = problem.load;
  const auto for_pieces = [&](uint32_t job, const auto& visit) {
    const Job& j = problem.jobs[job];
    if (problem.pieces.empty()) return visit(Piece{j.lower, j.upper, 0, j.size});
    for (uint32_t p = problem.first_piece[job]; p < problem.first_piece[job + 1]; ++p) {
      visit(problem.pieces[p]);
    }
  };
  int64_t work = 0;
  for (const uint32_t j : problem.fixed) work += problem.jobs[j].upper - problem.jobs[j].lower;
  if (work > kBoundWork) return 0;
  for (const uint32_t j : problem.fixed) {
    given[j] = 1;
    for_pieces(j, [&](const Piece& piece) {
      for (uint32_t s = piece.lower; s < piece.upper; ++s) {
        top[s] = std::max(top[s], problem.fixed_address(j) + piece.window_upper);
        free[s] -= piece.window_upper - piece.window_lower;
      }
    });
  }
  // Only where it would be above the bound if nothing went into the holes, that most first.
  std::vector<uint32_t> sections;
  for (uint32_t s = 0; s < problem.sections; ++s) {
    if (top[s] > 0 && top[s] + free[s] > problem.lower_bound) sections.push_back(s);
  }
  std::sort(sections.begin(), sections.end(), [&](uint32_t a, uint32_t b) {
    const int64_t x = top[a] + free[a];
    const int64_t y = top[b] + free[b];
    return x != y ? x > y : a < b;
  });
  int64_t bound = 0;
  for (const uint32_t s : sections) {
    if (work > kBoundWork || top[s] + free[s] <= bound) break;
    SectionContent content;
    for (uint32_t j = 0; j < problem.size(); ++j) {
      for_pieces(j, [&](const Piece& piece) {
        if (s < piece.lower || piece.upper <= s) return;
        if (given[j]) {
          const int64_t at = problem.fixed_address(j);
          content.given.emplace_back(at + piece.window_lower, at + piece.window_upper);
        } else {
          content.sizes.push_back(piece.window_upper - piece.window_lower);
        }
      });
    }
    bound = std::max(bound, EndOf(content));
    work += problem.size() + kMostSums * static_cast<int64_t>(content.given.size());
  }
  return bound;
}

}  // namespace reprise::planner
