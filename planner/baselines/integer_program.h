// A mixed integer program, solved by COIN-OR CBC until a deadline.
#ifndef REPRISE_PLANNER_BASELINES_INTEGER_PROGRAM_H_
#define REPRISE_PLANNER_BASELINES_INTEGER_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace reprise::planner {

// To be minimized: the sum of cost * value over all columns.
class IntegerProgram {
 public:
  // A column, or a constant that stands where columns may.
  struct Term {
    int column = -1;  // -1: the constant `value`
    double value = 0;
  };
  static Term Constant(double value) { return {-1, value}; }

  // sum of factor * term <= right
  class Row {
   public:
    explicit Row(double right = 0) : right_(right) {}
    Row& Add(Term term, double factor);

   private:
    friend class IntegerProgram;
    std::vector<int> columns_;
    std::vector<double> factors_;
    double right_;
  };

  // `start` is its value in the solution that the search begins with. All of these together must
  // keep all rows.
  Term AddColumn(double lower, double upper, double cost, bool integer, double start);
  // Rows of constants only are left out; they must hold.
  void AddRow(Row row) { AddRow(std::move(row), false); }
  void AddEquation(Row row) { AddRow(std::move(row), true); }

  double StartOf(Term term) const { return term.column < 0 ? term.value : start_[term.column]; }

  struct Outcome {
    std::vector<double> values;  // per column; empty: nothing better than the start was found
    double bound = 0;            // no solution costs less; -infinity: nothing is known
    bool optimal = false;        // the best solution was found, or the start is it
    double ValueOf(Term term) const { return term.column < 0 ? term.value : values[term.column]; }
  };

  // Until `stop`, which is asked many times a second, within linear programs, too, or until
  // `nodes` of the search were visited. Calls share nothing.
  Outcome Solve(const std::function<bool()>& stop, int64_t nodes = INT64_MAX) const;

 private:
  void AddRow(Row row, bool equation);

  std::vector<double> lower_;  // of every column
  std::vector<double> upper_;
  std::vector<double> cost_;
  std::vector<bool> integer_;
  std::vector<double> start_;
  std::vector<Row> rows_;
  std::vector<bool> equation_;  // per row
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_BASELINES_INTEGER_PROGRAM_H_
