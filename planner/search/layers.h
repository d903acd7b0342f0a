// Few jobs first, as a problem of their own, and of those fewer still.
#ifndef REPRISE_PLANNER_SEARCH_LAYERS_H_
#define REPRISE_PLANNER_SEARCH_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/core/search.h"
#include "planner/search/portfolio.h"
#include "planner/search/sub_search.h"

namespace reprise::planner {

// Where few jobs decide, a search of the whole is slow because of the many, and fails because of
// the few: so those are packed as a problem of their own, which goes by layers itself, and all
// others are swept around them (PeakSweep). The few are those that live while the load is near its
// maximum, or the largest where they make up most of the load, as in programs that keep matrices.
// Both are tried. Our own.
class Layers {
 public:
  // Both must outlive it. `kinds` are the attempts at the whole.
  Layers(Search& search, Portfolio& portfolio, std::vector<Portfolio::Kind> kinds);

  // Whether few jobs decide a plain problem that searches find too large.
  bool Applicable() const { return !layers_.empty(); }

  // Improves the incumbent, layers (where they are of use) and whole in turns, until it reaches the
  // target, time is up or options.iterations attempts at the whole were made.
  void Improve();

 private:
  // Which jobs go first.
  enum class By { kLoad, kSize };
  struct Layer {
    By by = By::kLoad;
    std::vector<uint32_t> jobs;
    int64_t rest = 0;       // the load of all others where that of the whole is greatest
    uint64_t packings = 0;  // that were begun
    std::unique_ptr<SubSearch> packing;
    std::unique_ptr<Layers> within;  // the packing
    int64_t swept = INT64_MAX;       // its makespan when the others were last swept around it
  };

  Layers(Search& search, Portfolio& portfolio, std::vector<Portfolio::Kind> kinds, By by,
         size_t most);

  std::vector<uint32_t> JobsAtLoad(int64_t high, size_t most) const;
  std::vector<uint32_t> FindByLoad(size_t most) const;
  std::vector<uint32_t> FindLargest(size_t most) const;
  void Add(By by, size_t most);
  void ImproveLayer(Layer& layer);
  void Turn(int64_t attempts);

  Search& search_;
  Portfolio& portfolio_;
  std::vector<Portfolio::Kind> kinds_;
  std::vector<Layer> layers_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_SEARCH_LAYERS_H_
