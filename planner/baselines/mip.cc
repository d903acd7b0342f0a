// The integer program of MemoMalloc (formulation 2.1, after Sekiyama et al. 2018), solved by
// COIN-OR CBC: an offset per buffer, a binary per pair that overlaps in time to say which one is
// below.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "planner/baselines/integer_program.h"
#include "planner/core/order.h"
#include "planner/core/runs.h"
#include "planner/placement/fit.h"

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

struct Model {
  IntegerProgram program;
  std::vector<IntegerProgram::Term> addresses;
  IntegerProgram::Term makespan;
};

// Starts from a packing.
Model BuildModel(const Problem& problem, const std::vector<Pair>& pairs, const Addresses& start) {
  Model model;
  const int64_t end = Makespan(problem, start);
  const auto most = static_cast<double>(end);
  const auto size = [&](uint32_t j) { return static_cast<double>(problem.jobs[j].size); };
  const auto at = [&](uint32_t j) { return static_cast<double>(start[j]); };
  IntegerProgram& program = model.program;
  for (uint32_t j = 0; j < problem.size(); ++j) {
    model.addresses.push_back(program.AddColumn(0, most - size(j), 0, false, at(j)));
  }
  model.makespan =
      program.AddColumn(static_cast<double>(problem.lower_bound), most, 1, false, most);
  for (uint32_t j = 0; j < problem.size(); ++j) {
    program.AddRow(
        IntegerProgram::Row(-size(j)).Add(model.addresses[j], 1).Add(model.makespan, -1));
  }
  for (const auto& [a, b] : pairs) {
    const bool above = start[a] > start[b];
    const IntegerProgram::Term a_above_b = program.AddColumn(0, 1, 0, true, above ? 1 : 0);
    program.AddRow(IntegerProgram::Row(-size(a))
                       .Add(model.addresses[a], 1)
                       .Add(model.addresses[b], -1)
                       .Add(a_above_b, -most));
    program.AddRow(IntegerProgram::Row(most - size(b))
                       .Add(model.addresses[b], 1)
                       .Add(model.addresses[a], -1)
                       .Add(a_above_b, most));
  }
  return model;
}

}  // namespace

void RunMip(Search& search, const std::string& name) {
  const Problem& problem = search.problem;
  // A packing to start from, and the answer when the program is too large.
  RunFirstFitInOrder(search, "first_fit_by_size");
  if (search.incumbent.makespan() == INT64_MAX || search.Done()) return;
  const std::vector<Pair> pairs = OverlappingPairs(problem);
  if (pairs.empty() || search.OutOfTime()) return;

  const Model model = BuildModel(problem, pairs, search.incumbent.addresses());
  // Nodes are its iterations: time ends it now here, now there, their number always at the same.
  const int64_t nodes = search.options.iterations > 0 ? search.options.iterations : INT64_MAX;
  const IntegerProgram::Outcome outcome =
      model.program.Solve([&] { return search.OutOfTime(); }, nodes);
  if (outcome.values.empty()) {
    if (outcome.optimal) search.RaiseBound(search.incumbent.makespan());
    return;
  }
  // Only the order is taken over, so that rounding can do no harm.
  std::vector<uint32_t> order(problem.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return outcome.ValueOf(model.addresses[a]) < outcome.ValueOf(model.addresses[b]);
  });
  Occupancy occupancy(problem);
  Addresses addresses = PlaceInOrder(problem, occupancy, order, Fit::kFirst, INT64_MAX,
                                     [&] { return search.Cancelled(); });
  if (addresses.empty()) return;
  const int64_t makespan = Makespan(problem, addresses);
  const bool optimal = outcome.optimal && makespan == std::llround(outcome.ValueOf(model.makespan));
  search.incumbent.Offer(std::move(addresses), makespan, name, 1);
  if (optimal) search.RaiseBound(makespan);
}

}  // namespace reprise::planner
