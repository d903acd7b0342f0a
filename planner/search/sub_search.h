// A problem within a problem, with an incumbent and attempts of its own.
#ifndef REPRISE_PLANNER_SEARCH_SUB_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_SUB_SEARCH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "planner/core/search.h"
#include "planner/search/kernel.h"
#include "planner/search/portfolio.h"

namespace reprise::planner {

// Counts in its own units; what it is told and asked is in those of the whole, which must outlive
// it. Runs on as many threads as the whole and out of the same budget.
class SubSearch {
 public:
  // `slice`: attempts that one call to Improve makes.
  SubSearch(const Search& whole, Kernel kernel, int slice, uint64_t seed);
  SubSearch(const SubSearch&) = delete;
  SubSearch& operator=(const SubSearch&) = delete;

  // To end below `bound` is of no use.
  void SetKnownBound(int64_t bound);

  void StartFrom(const Incumbent& whole_record, const Addresses& whole);

  void Improve() { portfolio_->Improve(Portfolio::KindsFor(kernel_.problem)); }

  int64_t makespan() const {
    return record_.makespan() == INT64_MAX ? INT64_MAX : record_.makespan() * kernel_.scale;
  }
  bool done() const { return search_.Done(); }
  const std::string& finder() const { return record_.finder(); }
  Search& search() { return search_; }
  Portfolio& portfolio() { return *portfolio_; }

  // What was shown that no packing goes below.
  int64_t Bound() const { return search_.lower_bound * kernel_.scale; }
  // Of that, what is news to the whole.
  int64_t NewBound() const { return search_.lower_bound > known_bound_ ? Bound() : 0; }

  // Where its jobs lie in its incumbent.
  Addresses Places();
  void CopyTo(Addresses& addresses);

 private:
  static Options OptionsFor(const Search& whole, int slice, uint64_t seed);

  Kernel kernel_;
  Options options_;
  Incumbent record_;
  Search search_;
  std::unique_ptr<Portfolio> portfolio_;
  int64_t known_bound_ = 0;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_SUB_SEARCH_H_
