// A node that has run by the end of a step stays so: one binary per node and step says it, from the
// first step at which its ancestors can have run to the last that leaves room for its descendants;
// elsewhere it is a constant. A storage is open at a step unless all of its ends have run before it
// or none of its starts by then. That is the paper's program with creation and preservation summed
// over time. Ancestors and descendants are those of all orders no worse than the start (LowOrders).
#include "planner/graph/olla_ilp.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/baselines/integer_program.h"
#include "planner/graph/low_orders.h"
#include "planner/graph/memory_model.h"

namespace reprise::planner::graph {
namespace {

using Row = IntegerProgram::Row;
using Term = IntegerProgram::Term;
using Clock = std::chrono::steady_clock;

// Larger programs are not even written down: gigabytes, and no relaxation is solved in a minute.
constexpr size_t kMostBinaries = 100'000;

// Nor joint programs with more steps of storages than this, or more rows that keep them apart.
constexpr size_t kMostApart = 20'000;

// Graphs of more nodes are not looked at for precedences.
constexpr uint32_t kMostForCuts = 1 << 10;

bool IsConstant(const Term& term, double value) { return term.column < 0 && term.value == value; }

std::function<bool()> StopAt(const Options& options, double share) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(options.budget_seconds * share));
  return [&options, end] {
    return (options.cancel != nullptr && options.cancel->load()) || Clock::now() >= end;
  };
}

// What sums of sizes can be is a multiple of this.
int64_t OffsetStep(const PreparedGraph& flow) {
  int64_t step = 0;
  for (const Storage& storage : flow.storages) step = std::gcd(step, storage.bytes);
  return std::max<int64_t>(step, 1);
}

// The orders of a flow.
class Orders {
 public:
  // Those whose peak is below `mark`; `start` is one of them. `stop` is for finding out what they
  // have in common.
  Orders(const PreparedGraph& flow, std::vector<uint32_t> start, int64_t mark,
         const std::function<bool()>& stop)
      : flow_(flow), start_(std::move(start)), place_(Places(start_)) {
    Lists successors = flow.successors;
    if (flow.nodes <= kMostForCuts) {
      LowOrders low(flow);
      // `start` is left, so this is never in vain.
      low.Tighten(mark, stop);
      successors = low.Successors();
    }
    const MemoryModel model = MakeMemoryModel(flow, false, successors);
    predecessors_ = model.predecessors;
    FindWindows(model);
  }

  size_t binaries() const {
    size_t sum = 0;
    for (uint32_t v = 0; v < flow_.nodes; ++v) sum += latest_[v] - earliest_[v];
    return sum;
  }

  // The columns and rows that make an order.
  void Build(IntegerProgram& program) {
    columns_.resize(flow_.nodes);
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      for (uint32_t t = earliest_[v]; t < latest_[v]; ++t) {
        columns_[v].push_back(program.AddColumn(0, 1, 0, true, place_[v] <= t ? 1 : 0));
      }
      for (size_t i = 1; i < columns_[v].size(); ++i) {
        program.AddRow(Row().Add(columns_[v][i - 1], 1).Add(columns_[v][i], -1));
      }
    }
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      for (const uint32_t u : predecessors_[v]) {
        for (int64_t t = earliest_[v]; t <= latest_[v]; ++t) {
          const Term before = Ran(u, t - 1);
          if (!IsConstant(before, 1)) program.AddRow(Row().Add(Ran(v, t), 1).Add(before, -1));
        }
      }
    }
    for (uint32_t t = 0; t + 1 < flow_.nodes; ++t) {
      Row row(t + 1);
      for (uint32_t v = 0; v < flow_.nodes; ++v) row.Add(Ran(v, t), 1);
      program.AddEquation(std::move(row));
    }
  }

  // Whether storage `s` is open at step `t`, at least.
  Term Open(IntegerProgram& program, uint32_t s, uint32_t t) const {
    if (flow_.storages[s].persistent) return IntegerProgram::Constant(1);
    std::vector<Term> started, ended;
    for (const uint32_t node : flow_.starts[s]) started.push_back(Ran(node, t));
    if (started.empty()) started.push_back(IntegerProgram::Constant(1));
    if (flow_.storages[s].output) {
      ended.push_back(IntegerProgram::Constant(0));
    } else {
      for (const uint32_t node : flow_.ends[s]) ended.push_back(Ran(node, int64_t{t} - 1));
    }
    // Terms that can never be what keeps it open.
    std::erase_if(started, [](const Term& term) { return IsConstant(term, 0); });
    std::erase_if(ended, [](const Term& term) { return IsConstant(term, 1); });
    if (started.empty() || ended.empty()) return IntegerProgram::Constant(0);
    const auto is = [](double value) {
      return [value](const Term& term) { return IsConstant(term, value); };
    };
    if (std::any_of(started.begin(), started.end(), is(1)) &&
        std::any_of(ended.begin(), ended.end(), is(0))) {
      return IntegerProgram::Constant(1);
    }
    double value = 0;
    for (const Term& start : started) {
      for (const Term& end : ended) {
        value = std::max(value, program.StartOf(start) - program.StartOf(end));
      }
    }
    const Term open = program.AddColumn(0, 1, 0, false, value);
    for (const Term& start : started) {
      for (const Term& end : ended) {
        program.AddRow(Row().Add(start, 1).Add(end, -1).Add(open, -1));
      }
    }
    return open;
  }

  // That of a solution. Steps that rounding made equal are put in the order of the start; empty
  // where it does not keep the dependencies.
  std::vector<uint32_t> Take(const IntegerProgram::Outcome& outcome) const {
    std::vector<uint32_t> step = latest_;
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      for (size_t i = columns_[v].size(); i-- > 0;) {
        if (outcome.ValueOf(columns_[v][i]) > 0.5)
          step[v] = earliest_[v] + static_cast<uint32_t>(i);
      }
    }
    std::vector<uint32_t> order = start_;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return step[a] < step[b]; });
    const std::vector<uint32_t> place = Places(order);
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      for (const uint32_t u : flow_.predecessors[v]) {
        if (place[u] > place[v]) return {};
      }
    }
    return order;
  }

 private:
  // First and last step of every node, from how many must run before and after it.
  void FindWindows(const MemoryModel& model) {
    const uint32_t n = flow_.nodes;
    const size_t words = (size_t{n} + 63) / 64;
    const auto count = [&](const Lists& next, bool forwards) {
      std::vector<uint64_t> bits(words * n, 0);
      std::vector<uint32_t> sizes(n, 0);
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t node = start_[forwards ? i : n - 1 - i];
        uint64_t* const mine = bits.data() + words * node;
        for (const uint32_t other : next[node]) {
          mine[other / 64] |= uint64_t{1} << (other % 64);
          for (size_t w = 0; w < words; ++w) mine[w] |= bits[words * other + w];
        }
        for (size_t w = 0; w < words; ++w) {
          sizes[node] += static_cast<uint32_t>(std::popcount(mine[w]));
        }
      }
      return sizes;
    };
    earliest_ = count(model.predecessors, true);
    latest_ = count(model.successors, false);
    for (uint32_t& steps : latest_) steps = n - 1 - steps;
  }

  // Whether `node` has run by the end of `step`.
  Term Ran(uint32_t node, int64_t step) const {
    if (step < earliest_[node]) return IntegerProgram::Constant(0);
    if (step >= latest_[node]) return IntegerProgram::Constant(1);
    return columns_[node][step - earliest_[node]];
  }

  const PreparedGraph& flow_;
  std::vector<uint32_t> start_;
  std::vector<uint32_t> place_;
  Lists predecessors_;
  std::vector<uint32_t> earliest_;
  std::vector<uint32_t> latest_;
  std::vector<std::vector<Term>> columns_;
};

// Bytes in units that keep `most` near a million.
double Unit(int64_t most) { return std::max(1.0, static_cast<double>(most) / 1e6); }

// Less CBC's tolerance, then up to what sums of sizes can be.
int64_t BoundOf(const IntegerProgram::Outcome& outcome, double unit, int64_t step, int64_t most) {
  const double bytes = outcome.bound * unit * (1 - 2e-6);
  if (!(bytes > 0)) return 0;
  if (bytes >= static_cast<double>(most)) return most;
  const auto steps = static_cast<int64_t>(std::ceil(bytes / static_cast<double>(step)));
  return std::min(steps * step, most);
}

// The offsets of storages in the order of their addresses, each as low as it goes.
std::vector<int64_t> Settle(const PreparedGraph& flow, const std::vector<Span>& spans,
                            const std::vector<double>& addresses) {
  std::vector<uint32_t> by_address(addresses.size());
  std::iota(by_address.begin(), by_address.end(), 0);
  std::stable_sort(by_address.begin(), by_address.end(),
                   [&](uint32_t a, uint32_t b) { return addresses[a] < addresses[b]; });
  std::vector<int64_t> offsets(addresses.size(), 0);
  for (size_t i = 0; i < by_address.size(); ++i) {
    const uint32_t s = by_address[i];
    if (flow.storages[s].bytes == 0) continue;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; ++j) {
        const uint32_t other = by_address[j];
        const int64_t end = offsets[other] + flow.storages[other].bytes;
        if (spans[s].lower >= spans[other].upper || spans[other].lower >= spans[s].upper) continue;
        if (offsets[s] >= end || offsets[other] >= offsets[s] + flow.storages[s].bytes) continue;
        offsets[s] = end;
        moved = true;
      }
    }
  }
  return offsets;
}

// Order and offsets in one program (OLLA, section 3.3).
class JointProgram {
 public:
  JointProgram(const PreparedGraph& flow, const OrderedPlan& start, Orders& orders)
      : flow_(flow), start_(start), orders_(orders), unit_(Unit(start.makespan)) {}

  // False: it is too large.
  bool Build() {
    orders_.Build(program_);
    const double most = static_cast<double>(start_.makespan) / unit_;
    makespan_ = program_.AddColumn(static_cast<double>(start_.bound) / unit_, most, 1, false, most);
    const uint32_t count = static_cast<uint32_t>(flow_.storages.size());
    open_.resize(count);
    for (uint32_t s = 0; s < count; ++s) {
      const double offset = static_cast<double>(start_.offsets[s]) / unit_;
      addresses_.push_back(program_.AddColumn(0, most, 0, false, offset));
      if (flow_.storages[s].bytes == 0) continue;
      program_.AddRow(Row(-Size(s)).Add(addresses_[s], 1).Add(makespan_, -1));
      for (uint32_t t = 0; t < flow_.nodes; ++t) {
        open_[s].push_back(orders_.Open(program_, s, t));
      }
    }
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = a + 1; b < count && rows_ <= kMostApart; ++b) KeepApart(a, b);
    }
    return rows_ <= kMostApart;
  }

  OrderedPlan Solve(const std::function<bool()>& stop) const {
    OrderedPlan result = start_;
    const IntegerProgram::Outcome outcome = program_.Solve(stop);
    result.bound =
        std::max(result.bound, BoundOf(outcome, unit_, OffsetStep(flow_), start_.makespan));
    if (outcome.values.empty()) return result;
    std::vector<uint32_t> order = orders_.Take(outcome);
    if (order.empty()) return result;
    std::vector<double> addresses;
    for (const Term& address : addresses_) addresses.push_back(outcome.ValueOf(address));
    std::vector<int64_t> offsets = Settle(flow_, Lifetimes(flow_, order), addresses);
    int64_t makespan = 0;
    for (uint32_t s = 0; s < offsets.size(); ++s) {
      makespan = std::max(makespan, offsets[s] + flow_.storages[s].bytes);
    }
    if (makespan >= start_.makespan) return result;
    return {std::move(order), std::move(offsets), makespan, std::min(result.bound, makespan)};
  }

 private:
  double Size(uint32_t s) const { return static_cast<double>(flow_.storages[s].bytes) / unit_; }

  // While both are open the one lies below the other.
  void KeepApart(uint32_t a, uint32_t b) {
    std::vector<std::pair<Term, Term>> steps;
    for (uint32_t t = 0; t < open_[a].size() && t < open_[b].size(); ++t) {
      const Term x = open_[a][t], y = open_[b][t];
      if (!IsConstant(x, 0) && !IsConstant(y, 0)) steps.push_back({x, y});
    }
    if (steps.empty()) return;
    const Term a_below = MakeBelow(a, b), b_below = MakeBelow(b, a);
    for (const auto& [x, y] : steps) {
      program_.AddRow(Row(1).Add(x, 1).Add(y, 1).Add(a_below, -1).Add(b_below, -1));
    }
    rows_ += steps.size() + 2;
  }

  // 1: `a` ends below where `b` starts.
  Term MakeBelow(uint32_t a, uint32_t b) {
    const bool is_below = start_.offsets[a] + flow_.storages[a].bytes <= start_.offsets[b];
    const Term below = program_.AddColumn(0, 1, 0, true, is_below ? 1 : 0);
    const double most = static_cast<double>(start_.makespan) / unit_;
    program_.AddRow(
        Row(most - Size(a)).Add(addresses_[a], 1).Add(addresses_[b], -1).Add(below, most));
    return below;
  }

  const PreparedGraph& flow_;
  const OrderedPlan& start_;
  Orders& orders_;
  double unit_;
  IntegerProgram program_;
  Term makespan_;
  std::vector<Term> addresses_;          // per storage
  std::vector<std::vector<Term>> open_;  // per storage and step; none: 0 bytes
  size_t rows_ = 0;                      // that keep storages apart
};

}  // namespace

Ordering OrderByIntegerProgram(const PreparedGraph& flow, const Options& options, Ordering start) {
  if (start.peak <= start.bound || flow.nodes < 2) return start;
  const std::function<bool()> stop = StopAt(options, 1);
  Orders orders(flow, start.order, start.peak + 1, StopAt(options, 0.25));
  if (orders.binaries() > kMostBinaries) return start;
  const double unit = Unit(start.peak);
  IntegerProgram program;
  const Term peak = program.AddColumn(static_cast<double>(start.bound) / unit,
                                      static_cast<double>(start.peak) / unit, 1, false,
                                      static_cast<double>(start.peak) / unit);
  orders.Build(program);
  for (uint32_t t = 0; t < flow.nodes && !stop(); ++t) {
    Row load;
    load.Add(peak, -1);
    for (uint32_t s = 0; s < flow.storages.size(); ++s) {
      const double bytes = static_cast<double>(flow.storages[s].bytes) / unit;
      if (bytes > 0) load.Add(orders.Open(program, s, t), bytes);
    }
    program.AddRow(std::move(load));
  }
  if (stop()) return start;
  const IntegerProgram::Outcome outcome = program.Solve(stop);
  start.bound = std::max(start.bound, BoundOf(outcome, unit, OffsetStep(flow), start.peak));
  if (outcome.values.empty()) return start;
  std::vector<uint32_t> order = orders.Take(outcome);
  if (order.empty()) return start;
  const int64_t found = Peak(flow, order);
  if (found >= start.peak) return start;
  return {std::move(order), found, std::min(start.bound, found), "olla_ilp"};
}

OrderedPlan PlanByIntegerProgram(const PreparedGraph& flow, const Options& options,
                                 OrderedPlan start) {
  if (start.makespan <= start.bound || flow.streams > 1 || !flow.groups.empty()) return start;
  if (flow.storages.size() * flow.nodes > kMostApart) return start;
  for (uint32_t s = 0; s < flow.storages.size(); ++s) {
    const Storage& storage = flow.storages[s];
    if (storage.alignment != flow.alignment || storage.offset != kFree) return start;
    // There before the first step only, or never.
    if (flow.ends[s].empty() && !storage.persistent) return start;
  }
  const std::function<bool()> stop = StopAt(options, 1);
  Orders orders(flow, start.order, start.makespan + 1, StopAt(options, 0.25));
  if (orders.binaries() > kMostBinaries) return start;
  JointProgram program(flow, start, orders);
  if (!program.Build() || stop()) return start;
  return program.Solve(stop);
}

}  // namespace reprise::planner::graph
