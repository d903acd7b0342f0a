// The order of least peak as an integer program (Steiner et al., OLLA, section 3), solved by
// COIN-OR CBC. A node that has run by the end of a step stays so: one binary per node and step says
// it, from the first step at which its ancestors can have run to the last that leaves room for its
// descendants; elsewhere it is a constant. A storage is open at a step unless all of its ends have
// run before it or none of its starts by then. That is the paper's program with creation and
// preservation summed over time.
#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <coin/CoinFinite.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/graph/memory_model.h"
#include "planner/graph/reorder.h"

namespace reprise::planner::graph {
namespace {

// Programs with more binaries are out of CBC's reach: it does not solve the relaxation in a minute.
constexpr size_t kMostBinaries = 2'500;

// CBC looks at the time between nodes of its search, not within: it was seen to take three times as
// long as it was given.
constexpr double kShare = 1.0 / 3;

// A constant, or a column.
struct Term {
  int column = -1;
  double value = 0;
};

class Program {
 public:
  Program(const Flow& flow, const Ordering& start) : flow_(flow), start_(start) {}

  Ordering Run(double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    Ordering result = start_;
    FindWindows();
    size_t binaries = 0;
    for (uint32_t v = 0; v < flow_.nodes; ++v) binaries += latest_[v] - earliest_[v];
    if (binaries == 0 || binaries > kMostBinaries) return result;
    model_ = Cbc_newModel();
    Cbc_setLogLevel(model_, 0);
    Build();
    WarmStart();
    const double built =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double left = std::max(0.1, seconds - built);
    Cbc_setMaximumSeconds(model_, left);
    Cbc_setParameter(model_, "seconds", absl::StrCat(left).c_str());
    Cbc_solve(model_);
    TakeOrder(result);
    TakeBound(result);
    Cbc_deleteModel(model_);
    return result;
  }

 private:
  // First and last step of every node, from what must run before and after it.
  void FindWindows() {
    const uint32_t n = flow_.nodes;
    const size_t words = (size_t{n} + 63) / 64;
    const auto count = [&](const Lists& next, bool forwards) {
      std::vector<uint64_t> bits(words * n, 0);
      std::vector<uint32_t> sizes(n, 0);
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t node = flow_.sequence[forwards ? i : n - 1 - i];
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
    earliest_ = count(flow_.predecessors, true);
    latest_ = count(flow_.successors, false);
    for (uint32_t& steps : latest_) steps = n - 1 - steps;
  }

  // Whether `node` has run by the end of `step`.
  Term Ran(uint32_t node, int64_t step) const {
    if (step < earliest_[node]) return {-1, 0};
    if (step >= latest_[node]) return {-1, 1};
    return {columns_[node] + static_cast<int>(step - earliest_[node]), 0};
  }

  // sum of factor * term <= right
  struct Row {
    std::vector<int> columns;
    std::vector<double> factors;
    double right = 0;

    void Add(const Term& term, double factor) {
      if (term.column < 0) {
        right -= factor * term.value;
      } else {
        columns.push_back(term.column);
        factors.push_back(factor);
      }
    }
  };

  void AddRow(Row row, char sense) {
    if (row.columns.empty()) return;
    rows_.emplace_back(std::move(row), sense);
  }

  // The whole program at once, by columns: row by row CBC takes quadratic time.
  void Load() {
    std::vector<CoinBigIndex> starts(count_ + 1, 0);
    for (const auto& [row, sense] : rows_) {
      for (const int column : row.columns) ++starts[column + 1];
    }
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    std::vector<int> index(starts.back());
    std::vector<double> value(starts.back());
    std::vector<CoinBigIndex> at(starts.begin(), starts.end() - 1);
    std::vector<double> low, high;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto& [row, sense] = rows_[r];
      for (size_t k = 0; k < row.columns.size(); ++k) {
        const CoinBigIndex place = at[row.columns[k]]++;
        index[place] = static_cast<int>(r);
        value[place] = row.factors[k];
      }
      low.push_back(sense == 'E' ? row.right : -COIN_DBL_MAX);
      high.push_back(row.right);
    }
    Cbc_loadProblem(model_, count_, static_cast<int>(rows_.size()), starts.data(), index.data(),
                    value.data(), lower_.data(), upper_.data(), cost_.data(), low.data(),
                    high.data());
    for (int column = 0; column < count_; ++column) {
      if (binary_[column]) Cbc_setInteger(model_, column);
    }
    rows_ = {};
  }

  int AddColumn(double lower, double upper, double cost, bool binary) {
    lower_.push_back(lower);
    upper_.push_back(upper);
    cost_.push_back(cost);
    binary_.push_back(binary);
    return count_++;
  }

  void Build() {
    const uint32_t n = flow_.nodes;
    // Sizes in units that keep the peak near a million.
    unit_ = std::max(1.0, static_cast<double>(start_.peak) / 1e6);
    peak_ = AddColumn(static_cast<double>(start_.bound) / unit_,
                      static_cast<double>(start_.peak) / unit_, 1, false);
    columns_.resize(n);
    for (uint32_t v = 0; v < n; ++v) {
      columns_[v] = count_;
      for (uint32_t t = earliest_[v]; t < latest_[v]; ++t) AddColumn(0, 1, 0, true);
    }
    for (uint32_t v = 0; v < n; ++v) {
      for (int64_t t = earliest_[v]; t + 1 < latest_[v]; ++t) {
        Row row;
        row.Add(Ran(v, t), 1);
        row.Add(Ran(v, t + 1), -1);
        AddRow(std::move(row), 'L');
      }
      for (const uint32_t u : flow_.predecessors[v]) {
        for (int64_t t = earliest_[v]; t < latest_[v]; ++t) {
          const Term before = Ran(u, t - 1);
          if (before.column < 0 && before.value == 1) continue;
          Row row;
          row.Add(Ran(v, t), 1);
          row.Add(before, -1);
          AddRow(std::move(row), 'L');
        }
        // Where v's window ends u must have run.
        Row row;
        row.Add(Ran(v, latest_[v]), 1);
        row.Add(Ran(u, static_cast<int64_t>(latest_[v]) - 1), -1);
        AddRow(std::move(row), 'L');
      }
    }
    for (uint32_t t = 0; t + 1 < n; ++t) {
      Row row;
      row.right = t + 1;
      for (uint32_t v = 0; v < n; ++v) row.Add(Ran(v, t), 1);
      AddRow(std::move(row), 'E');
    }
    AddLoads();
    Load();
  }

  void AddLoads() {
    const uint32_t n = flow_.nodes;
    std::vector<Row> loads(n);
    for (Row& row : loads) row.Add({peak_, 0}, -1);
    for (uint32_t s = 0; s < flow_.storages.size(); ++s) {
      const double bytes = static_cast<double>(flow_.storages[s].bytes) / unit_;
      if (bytes == 0) continue;
      if (flow_.storages[s].persistent) {
        for (Row& row : loads) row.right -= bytes;
        continue;
      }
      for (uint32_t t = 0; t < n; ++t) AddOpen(s, t, bytes, loads[t]);
    }
    for (Row& row : loads) AddRow(std::move(row), 'L');
  }

  // What storage `s` adds to the load of step `t`.
  void AddOpen(uint32_t s, uint32_t t, double bytes, Row& load) {
    std::vector<Term> started, ended;
    for (const uint32_t node : flow_.starts[s]) started.push_back(Ran(node, t));
    if (started.empty()) started.push_back({-1, 1});
    for (const uint32_t node : flow_.ends[s]) ended.push_back(Ran(node, int64_t{t} - 1));
    const auto is = [](double value) {
      return [value](const Term& term) { return term.column < 0 && term.value == value; };
    };
    // Terms that can never be what keeps it open.
    std::erase_if(started, is(0));
    std::erase_if(ended, is(1));
    if (started.empty() || ended.empty()) return;
    if (std::any_of(started.begin(), started.end(), is(1)) &&
        std::any_of(ended.begin(), ended.end(), is(0))) {
      load.right -= bytes;
      return;
    }
    const int open = AddColumn(0, 1, 0, false);
    load.Add({open, 0}, bytes);
    for (const Term& start : started) {
      for (const Term& end : ended) {
        Row row;
        row.Add(start, 1);
        row.Add(end, -1);
        row.Add({open, 0}, -1);
        AddRow(std::move(row), 'L');
      }
    }
  }

  void WarmStart() {
    const std::vector<uint32_t> place = Places(start_.order);
    std::vector<int> columns;
    std::vector<double> values;
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      for (uint32_t t = earliest_[v]; t < latest_[v]; ++t) {
        columns.push_back(Ran(v, t).column);
        values.push_back(place[v] <= t ? 1 : 0);
      }
    }
    columns.push_back(peak_);
    values.push_back(static_cast<double>(start_.peak) / unit_);
    Cbc_setMIPStartI(model_, static_cast<int>(columns.size()), columns.data(), values.data());
  }

  // Steps that rounding made equal are put in the order of the start, which keeps dependencies.
  void TakeOrder(Ordering& result) const {
    const double* const solution = Cbc_bestSolution(model_);
    if (solution == nullptr) return;
    std::vector<uint32_t> step(flow_.nodes);
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      step[v] = latest_[v];
      for (uint32_t t = latest_[v]; t-- > earliest_[v];) {
        if (solution[Ran(v, t).column] > 0.5) step[v] = t;
      }
    }
    std::vector<uint32_t> order = start_.order;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return step[a] < step[b]; });
    const std::vector<uint32_t> place = Places(order);
    for (uint32_t v = 0; v < flow_.nodes; ++v) {
      for (const uint32_t u : flow_.predecessors[v]) {
        if (place[u] > place[v]) return;
      }
    }
    const int64_t peak = Peak(flow_, order);
    if (peak >= result.peak) return;
    result.order = std::move(order);
    result.peak = peak;
    result.finder = "olla_ilp";
  }

  // Rounded down by more than CBC's tolerance, then up to what sums of sizes can be.
  void TakeBound(Ordering& result) const {
    const bool optimal = Cbc_isProvenOptimal(model_) != 0;
    const double value = optimal ? Cbc_getObjValue(model_) : Cbc_getBestPossibleObjValue(model_);
    if (!(value > 0) || value > 1e12) return;
    int64_t step = 0;
    for (const Storage& storage : flow_.storages) step = std::gcd(step, storage.bytes);
    int64_t bound = static_cast<int64_t>(std::floor(value * unit_ * (1 - 2e-6)));
    if (step > 1) bound = (bound + step - 1) / step * step;
    result.bound = std::max(result.bound, std::min(bound, result.peak));
  }

  const Flow& flow_;
  const Ordering& start_;
  Cbc_Model* model_ = nullptr;
  std::vector<std::pair<Row, char>> rows_;  // with their sense: less or equal, equal
  std::vector<double> lower_;               // of every column
  std::vector<double> upper_;
  std::vector<double> cost_;
  std::vector<bool> binary_;
  std::vector<uint32_t> earliest_;
  std::vector<uint32_t> latest_;
  std::vector<int> columns_;  // the first of every node
  int peak_ = 0;
  int count_ = 0;
  double unit_ = 1;
};

}  // namespace

Ordering OrderByIntegerProgram(const Flow& flow, const Options& options, Ordering start) {
  if (start.peak <= start.bound || flow.nodes < 2) return start;
  return Program(flow, start).Run(options.budget_seconds);
}

}  // namespace reprise::planner::graph
