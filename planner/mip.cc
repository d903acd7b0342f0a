// The integer program of MemoMalloc (formulation 2.1, after Sekiyama et al. 2018), solved by
// COIN-OR CBC: an offset per buffer, a binary per pair that overlaps in time to say which one is
// below.
#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/fit.h"
#include "planner/order.h"
#include "planner/strategy.h"

namespace reprise::planner {
namespace {

// More pairs than this are out of CBC's reach.
constexpr size_t kMostPairs = 20'000;

struct Pair {
  uint32_t a;
  uint32_t b;
};

std::vector<Pair> OverlappingPairs(const Problem& problem) {
  std::vector<Pair> pairs;
  for (uint32_t a = 0; a < problem.size(); ++a) {
    for (uint32_t b = a + 1; b < problem.size(); ++b) {
      const Job& x = problem.jobs[a];
      const Job& y = problem.jobs[b];
      if (x.lower >= y.upper || y.lower >= x.upper) continue;
      if (pairs.size() == kMostPairs) return {};
      pairs.push_back({a, b});
    }
  }
  return pairs;
}

// Columns: the addresses, the makespan, then a binary per pair, 1 when b is below a.
Cbc_Model* BuildModel(const Problem& problem, const std::vector<Pair>& pairs, double most) {
  Cbc_Model* model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  const int n = static_cast<int>(problem.size());
  for (int j = 0; j < n; ++j) {
    const double top = most - static_cast<double>(problem.jobs[j].size);
    Cbc_addCol(model, "", 0, top, 0, 0, 0, nullptr, nullptr);
  }
  Cbc_addCol(model, "", static_cast<double>(problem.lower_bound), most, 1, 0, 0, nullptr, nullptr);
  for (size_t p = 0; p < pairs.size(); ++p) Cbc_addCol(model, "", 0, 1, 0, 1, 0, nullptr, nullptr);
  for (int j = 0; j < n; ++j) {
    const int columns[] = {j, n};
    const double factors[] = {1, -1};
    Cbc_addRow(model, "", 2, columns, factors, 'L', -static_cast<double>(problem.jobs[j].size));
  }
  for (size_t p = 0; p < pairs.size(); ++p) {
    const int a = static_cast<int>(pairs[p].a);
    const int b = static_cast<int>(pairs[p].b);
    const int columns[] = {a, b, n + 1 + static_cast<int>(p)};
    const double a_below[] = {1, -1, -most};
    Cbc_addRow(model, "", 3, columns, a_below, 'L', -static_cast<double>(problem.jobs[a].size));
    const double b_below[] = {-1, 1, most};
    Cbc_addRow(model, "", 3, columns, b_below, 'L',
               most - static_cast<double>(problem.jobs[b].size));
  }
  return model;
}

}  // namespace

void RunMip(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  // A packing to start from, and the answer when the program is too large.
  RunFirstFitInOrder(search, "big_rocks_first");
  if (search.record.makespan() == INT64_MAX || search.Done()) return;
  const std::vector<Pair> pairs = OverlappingPairs(problem);
  const double left = search.options.budget_seconds - search.seconds();
  if (pairs.empty() || left <= 0) return;

  Cbc_Model* model = BuildModel(problem, pairs, static_cast<double>(search.record.makespan()));
  Cbc_setParameter(model, "timeMode", "elapsed");
  Cbc_setMaximumSeconds(model, left);
  // Nodes are its iterations: time ends it now here, now there, their number always at the same.
  if (search.options.iterations > 0) Cbc_setMaximumNodes(model, search.options.iterations);
  Cbc_solve(model);
  const double* solution = Cbc_bestSolution(model);
  if (solution != nullptr) {
    // Only the order is taken over, so that rounding can do no harm.
    std::vector<uint32_t> order(problem.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return solution[a] < solution[b]; });
    Occupancy occupancy(problem);
    Addresses addresses = PlaceInOrder(problem, occupancy, order, Fit::kFirst, INT64_MAX,
                                       [&] { return search.Cancelled(); });
    if (!addresses.empty()) {
      const int64_t makespan = Makespan(problem, addresses);
      const double objective = solution[problem.size()];
      const bool optimal = Cbc_isProvenOptimal(model) != 0 && makespan == std::llround(objective);
      search.record.Offer(std::move(addresses), makespan, name, 1);
      if (optimal) search.RaiseBound(makespan);
    }
  }
  Cbc_deleteModel(model);
}

}  // namespace reprise::planner
