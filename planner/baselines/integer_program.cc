#include "planner/baselines/integer_program.h"

#include <algorithm>
#include <coin/CbcEventHandler.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CglProbing.hpp>
#include <coin/ClpEventHandler.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <limits>
#include <numeric>

namespace reprise::planner {
namespace {

// CBC looks at the clock between linear programs, of which one may take minutes; it takes one that
// was stopped for one without a solution, and so all that it says afterwards is void.
struct Watch {
  const std::function<bool()>& stop;
  bool stopped = false;
  double bound = -std::numeric_limits<double>::infinity();  // as known before that

  bool Stopped() {
    stopped = stopped || stop();
    return stopped;
  }
};

class WatchedLinearProgram : public ClpEventHandler {
 public:
  explicit WatchedLinearProgram(Watch& watch) : watch_(&watch) {}
  int event(Event) override {
    constexpr int kGoOn = -1, kStop = 0;
    return watch_->Stopped() ? kStop : kGoOn;
  }
  ClpEventHandler* clone() const override { return new WatchedLinearProgram(*this); }

 private:
  Watch* watch_;
};

class WatchedSearch : public CbcEventHandler {
 public:
  explicit WatchedSearch(Watch& watch) : watch_(&watch) {}
  CbcAction event(CbcEvent event) override {
    if (watch_->Stopped()) return stop;
    if (event == node || event == treeStatus) {
      watch_->bound = std::max(watch_->bound, model_->getBestPossibleObjValue());
    }
    return noAction;
  }
  CbcEventHandler* clone() const override { return new WatchedSearch(*this); }

 private:
  Watch* watch_;
};

}  // namespace

IntegerProgram::Row& IntegerProgram::Row::Add(Term term, double factor) {
  if (term.column < 0) {
    right_ -= factor * term.value;
  } else {
    columns_.push_back(term.column);
    factors_.push_back(factor);
  }
  return *this;
}

IntegerProgram::Term IntegerProgram::AddColumn(double lower, double upper, double cost,
                                               bool integer, double start) {
  lower_.push_back(lower);
  upper_.push_back(upper);
  cost_.push_back(cost);
  integer_.push_back(integer);
  start_.push_back(start);
  return {static_cast<int>(lower_.size() - 1), 0};
}

void IntegerProgram::AddRow(Row row, bool equation) {
  if (row.columns_.empty()) return;
  rows_.push_back(std::move(row));
  equation_.push_back(equation);
}

IntegerProgram::Outcome IntegerProgram::Solve(const std::function<bool()>& stop,
                                              int64_t nodes) const {
  const int columns = static_cast<int>(lower_.size());
  const int rows = static_cast<int>(rows_.size());
  std::vector<int> row_of, column_of;
  std::vector<double> factors, low, high;
  for (int r = 0; r < rows; ++r) {
    const Row& row = rows_[r];
    row_of.insert(row_of.end(), row.columns_.size(), r);
    column_of.insert(column_of.end(), row.columns_.begin(), row.columns_.end());
    factors.insert(factors.end(), row.factors_.begin(), row.factors_.end());
    low.push_back(equation_[r] ? row.right_ : -COIN_DBL_MAX);
    high.push_back(row.right_);
  }
  const CoinPackedMatrix matrix(true, row_of.data(), column_of.data(), factors.data(),
                                static_cast<CoinBigIndex>(factors.size()));
  Watch watch{stop};
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.loadProblem(matrix, lower_.data(), upper_.data(), cost_.data(), low.data(), high.data());
  for (int column = 0; column < columns; ++column) {
    if (integer_[column]) solver.setInteger(column);
  }
  const WatchedLinearProgram watched(watch);
  solver.getModelPtr()->setLogLevel(0);
  solver.getModelPtr()->passInEventHandler(&watched);
  // Presolve looks at no clock.
  solver.setHintParam(OsiDoPresolveInInitial, false);
  solver.initialSolve();

  Outcome outcome;
  outcome.bound = watch.bound;
  if (watch.Stopped()) return outcome;
  outcome.bound = watch.bound = solver.getObjValue();
  CbcModel model(solver);
  model.setLogLevel(0);
  const double cost = std::inner_product(cost_.begin(), cost_.end(), start_.begin(), 0.0);
  model.setBestSolution(start_.data(), columns, cost, false);
  CglProbing probing;
  probing.setLogLevel(0);
  model.addCutGenerator(&probing, -1, "probing");
  constexpr int64_t kMostNodes = INT32_MAX;
  model.setMaximumNodes(static_cast<int>(std::min(nodes, kMostNodes)));
  WatchedSearch search(watch);
  model.passInEventHandler(&search);
  model.branchAndBound();
  outcome.bound = watch.bound;
  outcome.optimal = !watch.Stopped() && model.isProvenOptimal();
  const double* const best = model.bestSolution();
  if (best != nullptr && model.getObjValue() < cost) outcome.values.assign(best, best + columns);
  if (outcome.optimal) outcome.bound = std::min(cost, model.getObjValue());
  return outcome;
}

}  // namespace reprise::planner
