// Memory reuse as a minimum cost flow (Lee et al. 2019; MemoMalloc): a unit of flow through a chain
// of buffers is one object in memory that they use in turn. A buffer that starts an object costs
// its size; one that takes over an object from a smaller buffer costs the difference.
#include <algorithm>
#include <numeric>
#include <queue>

#include "planner/core/runs.h"
#include "planner/core/sort.h"
#include "planner/placement/fit.h"

namespace reprise::planner {
namespace {

// A buffer considers the objects of this many buffers that died last before its birth.
constexpr uint32_t kDonors = 64;
// Above this the flow is approximated: each buffer in birth order takes the cheapest object left.
constexpr uint32_t kMostExact = 2000;
constexpr uint32_t kNone = ~uint32_t{0};

// Assigns to each buffer the one whose object it takes over, or kNone, at least total cost, by
// successive shortest paths: buffers enter one after the other.
class Flow {
 public:
  explicit Flow(const Problem& problem)
      : problem_(problem), n_(problem.size()), receiver_(2 * n_, kNone), donor_(n_, kNone) {
    by_death_ = OrderByTime(n_, [&](uint32_t j) { return int64_t{problem.jobs[j].upper}; });
    by_birth_ = OrderByTime(n_, [&](uint32_t j) { return int64_t{problem.jobs[j].lower}; });
    first_donor_.resize(n_);
    uint32_t dead = 0;
    for (const uint32_t j : by_birth_) {
      while (dead < n_ && problem.jobs[by_death_[dead]].upper <= problem.jobs[j].lower) ++dead;
      first_donor_[j] = dead;
    }
  }

  template <typename Stop>
  bool Solve(Stop stop) {
    receiver_price_.assign(n_, 0);
    donor_price_.assign(2 * size_t{n_}, 0);
    for (const uint32_t j : by_birth_) {
      if (stop()) return false;
      if (n_ <= kMostExact) {
        Augment(j);
      } else {
        TakeCheapest(j);
      }
    }
    return true;
  }

  uint32_t donor(uint32_t j) const { return donor_[j] >= n_ ? kNone : donor_[j]; }
  const std::vector<uint32_t>& by_birth() const { return by_birth_; }

 private:
  // Donor n + j is a new object for j.
  template <typename Visit>
  void ForEachDonor(uint32_t j, Visit visit) const {
    const int64_t size = problem_.jobs[j].size;
    visit(n_ + j, size);
    const uint32_t last = first_donor_[j];
    for (uint32_t i = last - std::min(last, kDonors); i < last; ++i) {
      const uint32_t donor = by_death_[i];
      // Only buffers whose gaps leave nothing of them are not born before they die.
      if (problem_.jobs[donor].lower >= problem_.jobs[j].lower) continue;
      visit(donor, std::max<int64_t>(size - problem_.jobs[donor].size, 0));
    }
  }

  void TakeCheapest(uint32_t j) {
    int64_t best = INT64_MAX;
    ForEachDonor(j, [&](uint32_t donor, int64_t cost) {
      if (receiver_[donor] != kNone || cost >= best) return;
      best = cost;
      donor_[j] = donor;
    });
    receiver_[donor_[j]] = j;
  }

  // The shortest alternating path from `root` to a donor that is free (Dijkstra with prices).
  void Augment(uint32_t root) {
    using Entry = std::pair<int64_t, uint32_t>;  // distance, donor
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<int64_t> distance(2 * size_t{n_}, INT64_MAX);
    std::vector<uint32_t> via(2 * size_t{n_}, kNone);
    std::vector<uint32_t> settled;
    std::vector<uint8_t> done(2 * size_t{n_});
    const auto relax = [&](uint32_t receiver, int64_t base) {
      ForEachDonor(receiver, [&](uint32_t donor, int64_t cost) {
        const int64_t d = base + cost - receiver_price_[receiver] - donor_price_[donor];
        if (d >= distance[donor]) return;
        distance[donor] = d;
        via[donor] = receiver;
        queue.emplace(d, donor);
      });
    };
    relax(root, 0);
    uint32_t end = kNone;
    int64_t length = 0;
    while (end == kNone) {
      const auto [d, donor] = queue.top();
      queue.pop();
      if (done[donor]) continue;
      done[donor] = 1;
      length = d;
      if (receiver_[donor] == kNone) {
        end = donor;
      } else {
        settled.push_back(donor);
        relax(receiver_[donor], d);
      }
    }
    receiver_price_[root] += length;
    for (const uint32_t donor : settled) {
      receiver_price_[receiver_[donor]] += length - distance[donor];
      donor_price_[donor] -= length - distance[donor];
    }
    while (true) {
      const uint32_t receiver = via[end];
      const uint32_t before = donor_[receiver];
      donor_[receiver] = end;
      receiver_[end] = receiver;
      if (receiver == root) return;
      end = before;
    }
  }

  const Problem& problem_;
  uint32_t n_;
  std::vector<uint32_t> by_death_;
  std::vector<uint32_t> by_birth_;
  std::vector<uint32_t> first_donor_;  // donors of j are by_death_ below this
  std::vector<uint32_t> receiver_;     // of each donor
  std::vector<uint32_t> donor_;        // of each receiver
  std::vector<int64_t> receiver_price_;
  std::vector<int64_t> donor_price_;
};

}  // namespace

// The objects are stacked, the largest lowest; first fit in that order closes the gaps between
// them.
void RunMincostFlow(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  const uint32_t n = problem.size();
  Flow flow(problem);
  if (!flow.Solve([&] { return search.TooLate(); })) return;
  std::vector<uint32_t> object(n);
  std::vector<int64_t> size;
  for (const uint32_t j : flow.by_birth()) {
    if (flow.donor(j) == kNone) {
      object[j] = static_cast<uint32_t>(size.size());
      size.push_back(0);
    } else {
      object[j] = object[flow.donor(j)];
    }
    size[object[j]] = std::max(size[object[j]], problem.jobs[j].size);
  }
  std::vector<uint32_t> order = flow.by_birth();
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int64_t size_a = size[object[a]];
    const int64_t size_b = size[object[b]];
    return size_a != size_b ? size_a > size_b : object[a] < object[b];
  });
  Occupancy occupancy(problem);
  Addresses addresses = PlaceInOrder(problem, occupancy, order, Fit::kFirst, INT64_MAX,
                                     [&] { return search.TooLate(); });
  if (addresses.empty() && n > 0) return;
  const int64_t makespan = Makespan(problem, addresses);
  search.incumbent.Offer(std::move(addresses), makespan, name, 0);
}

}  // namespace reprise::planner
