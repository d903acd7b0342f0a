#include "planner/placement/boxing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <queue>

#include "planner/core/parallel.h"

namespace reprise::planner {
namespace {

// Rows of items that do not overlap, as few as the load allows: optimal interval graph colouring.
std::vector<std::vector<uint32_t>> ColourRows(const std::vector<BoxItem>& items,
                                              std::vector<uint32_t> ids) {
  std::sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) {
    return items[a].lower != items[b].lower ? items[a].lower < items[b].lower : a < b;
  });
  using Busy = std::pair<uint32_t, uint32_t>;  // until when, row
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::vector<std::vector<uint32_t>> rows;
  for (const uint32_t id : ids) {
    uint32_t row = static_cast<uint32_t>(rows.size());
    if (!busy.empty() && busy.top().first <= items[id].lower) {
      row = busy.top().second;
      busy.pop();
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(id);
    busy.emplace(items[id].upper, row);
  }
  return rows;
}

// What boxing one class yields: the contents of its boxes, one after the other, and where in
// `contents` each ends.
struct Boxes {
  std::vector<uint32_t> contents;
  std::vector<size_t> ends;

  void Close(std::vector<uint32_t>& box) {
    if (box.empty()) return;
    contents.insert(contents.end(), box.begin(), box.end());
    ends.push_back(contents.size());
    box.clear();
  }
  void Append(const Boxes& other) {
    const size_t before = contents.size();
    contents.insert(contents.end(), other.contents.begin(), other.contents.end());
    for (const size_t end : other.ends) ends.push_back(before + end);
  }
};

// Boxes unit-height items, `per_box` rows into each box (Theorem 2 and Lemma 1). The sub-problems
// between critical points are independent: they run in parallel where there is enough to do, and
// what they yield is put together in their order.
class UnitBoxer {
 public:
  UnitBoxer(const std::vector<BoxItem>& items, int64_t per_box, double error, int threads,
            const Boxer::Stop& stop)
      : items_(items), per_box_(per_box), error_(error), threads_(threads), stop_(stop) {}

  static constexpr size_t kLeastWork = 20'000;  // items; fewer are done before a thread has started

  // `point`: the first critical section.
  Boxes Run(std::vector<uint32_t> ids, uint32_t point) const {
    std::vector<Division> done;
    std::vector<Task> tasks;
    tasks.push_back({std::move(ids), {point}});
    while (!tasks.empty() && !(stop_ && stop_())) {
      size_t work = 0;
      for (const Task& task : tasks) work += task.ids.size();
      std::vector<Division> divisions(tasks.size());
      ParallelFor(work < kLeastWork ? 1 : threads_, static_cast<int64_t>(tasks.size()),
                  [&](int64_t i, int) {
                    divisions[i] = Divide(std::move(tasks[i]));
                    return !(stop_ && stop_());
                  });
      tasks.clear();
      for (Division& division : divisions) {
        division.first_child = done.size() + divisions.size() + tasks.size();
        std::move(division.rest.begin(), division.rest.end(), std::back_inserter(tasks));
        division.children = division.rest.size();
        division.rest = {};
      }
      std::move(divisions.begin(), divisions.end(), std::back_inserter(done));
    }
    // A problem's boxes, then those of its sub-problems, the latest first.
    Boxes all;
    for (std::vector<size_t> next(1, 0); !next.empty();) {
      const size_t i = next.back();
      next.pop_back();
      if (i >= done.size()) continue;  // stopped before
      all.Append(done[i].boxes);
      for (size_t c = 0; c < done[i].children; ++c) next.push_back(done[i].first_child + c);
    }
    return all;
  }

 private:
  struct Task {
    std::vector<uint32_t> ids;
    std::vector<uint32_t> points;  // critical sections, ascending
  };
  struct Division {
    Boxes boxes;
    std::vector<Task> rest;  // its sub-problems; once they are queued:
    size_t first_child = 0;
    size_t children = 0;
  };

  const BoxItem& item(uint32_t id) const { return items_[id]; }
  bool LiveAt(uint32_t id, uint32_t point) const {
    return item(id).lower <= point && point < item(id).upper;
  }

  Division Divide(Task task) const {
    Division division;
    std::vector<uint32_t>& points = task.points;
    std::vector<std::vector<uint32_t>> at(points.size());
    std::vector<std::vector<uint32_t>> between(points.size() + 1);
    const auto assign = [&] {
      for (const uint32_t id : task.ids) {
        // The middle point claims a job first, then the middle of the half it lies in.
        size_t low = 0;
        size_t high = points.size();
        bool claimed = false;
        while (low < high && !claimed) {
          const size_t middle = (low + high) / 2;
          if (LiveAt(id, points[middle])) {
            at[middle].push_back(id);
            claimed = true;
          } else if (item(id).upper <= points[middle]) {
            high = middle;
          } else {
            low = middle + 1;
          }
        }
        if (!claimed) between[low].push_back(id);
      }
    };
    assign();
    if (std::all_of(at.begin(), at.end(), [](const auto& jobs) { return jobs.empty(); })) {
      // Critical point injection (idealloc, section 3.3).
      points = {item(task.ids[task.ids.size() / 2]).lower};
      at.assign(1, {});
      between.assign(2, {});
      assign();
    }
    std::vector<uint32_t> unresolved;
    for (std::vector<uint32_t>& jobs : at) BoxClique(jobs, unresolved, division.boxes);
    const auto rows = ColourRows(items_, std::move(unresolved));
    std::vector<uint32_t> box;
    for (size_t row = 0; row < rows.size(); ++row) {
      box.insert(box.end(), rows[row].begin(), rows[row].end());
      if ((row + 1) % per_box_ == 0 || row + 1 == rows.size()) division.boxes.Close(box);
    }
    // Where a row of a box becomes free or taken is critical to those in between.
    std::vector<uint32_t> ends;
    for (const auto& row : rows) {
      for (const uint32_t id : row) {
        ends.push_back(item(id).lower);
        ends.push_back(item(id).upper);
      }
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (size_t i = 0; i < between.size(); ++i) {
      if (between[i].empty()) continue;
      auto from = ends.begin();
      auto to = ends.end();
      if (i > 0) from = std::upper_bound(ends.begin(), ends.end(), points[i - 1]);
      if (i < points.size()) to = std::lower_bound(ends.begin(), ends.end(), points[i]);
      Task next{std::move(between[i]), {}};
      if (from < to) next.points.assign(from, to);
      if (next.points.empty()) next.points.push_back(item(next.ids[next.ids.size() / 2]).lower);
      division.rest.push_back(std::move(next));
    }
    return division;
  }

  // Lemma 1: the jobs are all live at one point. The outermost stay unresolved.
  void BoxClique(const std::vector<uint32_t>& jobs, std::vector<uint32_t>& unresolved,
                 Boxes& boxes) const {
    const double outer = std::ceil(1 / (error_ * error_)) * static_cast<double>(per_box_);
    if (static_cast<double>(jobs.size()) <= 2 * outer) {
      unresolved.insert(unresolved.end(), jobs.begin(), jobs.end());
      return;
    }
    // Both are positions in `jobs`.
    std::vector<uint32_t> by_birth(jobs.size());
    std::iota(by_birth.begin(), by_birth.end(), 0);
    std::vector<uint32_t> by_death = by_birth;
    const auto born_first = [&](uint32_t a, uint32_t b) {
      return item(a).lower != item(b).lower ? item(a).lower < item(b).lower : a < b;
    };
    const auto dead_last = [&](uint32_t a, uint32_t b) {
      return item(a).upper != item(b).upper ? item(a).upper > item(b).upper : a < b;
    };
    std::sort(by_birth.begin(), by_birth.end(),
              [&](uint32_t a, uint32_t b) { return born_first(jobs[a], jobs[b]); });
    std::sort(by_death.begin(), by_death.end(),
              [&](uint32_t a, uint32_t b) { return dead_last(jobs[a], jobs[b]); });
    std::vector<uint8_t> taken(jobs.size());
    size_t birth = 0;
    size_t death = 0;
    const auto strip = [&](const std::vector<uint32_t>& order, size_t& next, double most) {
      std::vector<uint32_t> result;
      for (; next < order.size() && static_cast<double>(result.size()) < most; ++next) {
        if (taken[order[next]]) continue;
        taken[order[next]] = 1;
        result.push_back(jobs[order[next]]);
      }
      return result;
    };
    for (const uint32_t id : strip(by_birth, birth, outer)) unresolved.push_back(id);
    for (const uint32_t id : strip(by_death, death, outer)) unresolved.push_back(id);
    const double inner = std::ceil(1 / error_) * static_cast<double>(per_box_);
    while (true) {
      std::vector<uint32_t> vertical = strip(by_birth, birth, inner);
      std::vector<uint32_t> horizontal = strip(by_death, death, inner);
      if (vertical.empty() && horizontal.empty()) break;
      std::sort(vertical.begin(), vertical.end(), dead_last);
      std::sort(horizontal.begin(), horizontal.end(), born_first);
      for (const auto* jobs_of_strip : {&vertical, &horizontal}) {
        std::vector<uint32_t> box;
        for (const uint32_t id : *jobs_of_strip) {
          box.push_back(id);
          if (static_cast<int64_t>(box.size()) == per_box_) boxes.Close(box);
        }
        boxes.Close(box);
      }
    }
  }

  const std::vector<BoxItem>& items_;
  int64_t per_box_;
  double error_;
  int threads_;
  const Boxer::Stop& stop_;
};

// The boxes that `boxes` describes, as items. Returns their ids.
void AddBoxes(const Boxes& boxes, double height, Boxing& boxing, std::vector<uint32_t>& ids) {
  size_t begin = 0;
  for (const size_t end : boxes.ends) {
    BoxItem made;
    made.lower = UINT32_MAX;
    made.height = height;
    made.first_content = static_cast<uint32_t>(boxing.contents.size());
    for (; begin < end; ++begin) {
      const uint32_t id = boxes.contents[begin];
      made.lower = std::min(made.lower, boxing.items[id].lower);
      made.upper = std::max(made.upper, boxing.items[id].upper);
      boxing.contents.push_back(id);
    }
    made.last_content = static_cast<uint32_t>(boxing.contents.size());
    ids.push_back(static_cast<uint32_t>(boxing.items.size()));
    boxing.items.push_back(made);
  }
}

// Corollary 15: boxes of one height for items of many, class by class. The classes are independent.
std::vector<uint32_t> BoxByClass(Boxing& boxing, const std::vector<uint32_t>& ids,
                                 double box_height, double error, Random& random, int threads,
                                 const Boxer::Stop& stop) {
  std::vector<std::pair<int64_t, uint32_t>> classed;
  classed.reserve(ids.size());
  for (const uint32_t id : ids) {
    const double exponent = std::log(boxing.items[id].height) / std::log1p(error);
    classed.emplace_back(static_cast<int64_t>(std::ceil(exponent - 1e-9)), id);
  }
  std::sort(classed.begin(), classed.end());
  struct Class {
    std::vector<uint32_t> members;
    int64_t per_box;
    uint32_t point;
    Boxes boxes;
  };
  std::vector<Class> classes;
  for (size_t begin = 0; begin < classed.size();) {
    Class& one = classes.emplace_back();
    double highest = 0;
    size_t end = begin;
    for (; end < classed.size() && classed[end].first == classed[begin].first; ++end) {
      one.members.push_back(classed[end].second);
      highest = std::max(highest, boxing.items[classed[end].second].height);
    }
    const double rounded =
        std::max(std::pow(1 + error, static_cast<double>(classed[begin].first)), highest);
    one.per_box = std::max<int64_t>(static_cast<int64_t>(box_height / rounded), 1);
    // Drawn here, so that it does not matter which class is boxed first.
    one.point = boxing.items[one.members[random.Below(one.members.size())]].lower;
    begin = end;
  }
  // Those that are worth a thread have threads of their own, one such class after the other; the
  // small ones are shared out.
  std::vector<size_t> small;
  const auto box = [&](Class& one, int inner) {
    one.boxes = UnitBoxer(boxing.items, one.per_box, error, inner, stop)
                    .Run(std::move(one.members), one.point);
  };
  size_t small_work = 0;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].members.size() >= ids.size() / 2 || threads == 1) {
      box(classes[c], threads);
    } else {
      small.push_back(c);
      small_work += classes[c].members.size();
    }
  }
  ParallelFor(small_work < UnitBoxer::kLeastWork ? 1 : threads, static_cast<int64_t>(small.size()),
              [&](int64_t i, int) {
                box(classes[small[i]], 1);
                return !(stop && stop());
              });
  std::vector<uint32_t> boxes;
  for (const Class& one : classes) AddBoxes(one.boxes, box_height, boxing, boxes);
  return boxes;
}

double SquaredLog(double ratio) {
  const double log = std::log2(ratio);
  return log * log;
}

}  // namespace

EpsilonRange LegalEpsilon(double least, double most) {
  const double ratio = most / least;
  const double l = SquaredLog(ratio);
  return {std::pow(std::pow(l, 7) / ratio, 1.0 / 6), 0.6180339887498949 * l};
}

Boxer::Boxer(const Problem& problem) : problem_(problem) {
  least_ = static_cast<double>(problem.jobs[0].size);
  for (const Job& job : problem.jobs) {
    least_ = std::min(least_, static_cast<double>(job.size));
    most_ = std::max(most_, static_cast<double>(job.size));
  }
  if (most_ / least_ <= kLeastRatio) {
    dummy_height_ = std::ceil((kLeastRatio + 0.01) * least_);
    most_ = std::max(most_, dummy_height_);
  }
  legal_ = LegalEpsilon(least_, most_);
}

struct Boxer::Progress {
  std::vector<uint32_t> items;  // what is still to be boxed
  double ratio = 0;             // of their heights
  double mu = 0;
};

Boxer::Progress Boxer::Raise(double epsilon, Random& random, Boxing& boxing, int threads,
                             const Stop& stop) const {
  boxing.jobs = problem_.size();
  for (const Job& job : problem_.jobs) {
    boxing.items.push_back({job.lower, job.upper, static_cast<double>(job.size), 0, 0});
  }
  if (dummy_height_ > 0) {
    boxing.dummy = true;
    boxing.items.push_back({0, problem_.sections, dummy_height_, 0, 0});
  }
  Progress progress;
  progress.items.resize(boxing.items.size());
  std::iota(progress.items.begin(), progress.items.end(), 0);
  while (!progress.items.empty() && !(stop && stop())) {
    double least = boxing.items[progress.items[0]].height;
    double most = least;
    for (const uint32_t id : progress.items) {
      least = std::min(least, boxing.items[id].height);
      most = std::max(most, boxing.items[id].height);
    }
    progress.ratio = most / least;
    const double l = SquaredLog(progress.ratio);
    if (l <= 0) break;
    progress.mu = epsilon / l;
    const double height = std::ceil(std::pow(progress.mu, 5) * most / l);
    const double small = std::floor(progress.mu * height);
    if (progress.mu >= kPhi || small < least) break;
    std::vector<uint32_t> low;
    std::vector<uint32_t> high;
    for (const uint32_t id : progress.items) {
      (boxing.items[id].height <= small ? low : high).push_back(id);
    }
    const std::vector<uint32_t> boxes =
        BoxByClass(boxing, low, height, progress.mu, random, threads, stop);
    high.insert(high.end(), boxes.begin(), boxes.end());
    progress.items = std::move(high);
  }
  return progress;
}

double Boxer::Calibrate(Random& random, int threads, const Stop& stop) const {
  double best = legal_.lower;
  double best_ratio = INFINITY;
  int failures = 0;
  for (double epsilon = legal_.lower; failures < 3 && epsilon < legal_.upper;
       epsilon += 0.01 * (legal_.upper - epsilon)) {
    Boxing boxing;
    const double ratio = Raise(epsilon, random, boxing, threads, stop).ratio;
    if (stop && stop()) break;
    if (ratio < best_ratio) {
      best_ratio = ratio;
      best = epsilon;
      failures = 0;
    } else {
      ++failures;
    }
  }
  return best;
}

Boxing Boxer::Run(double epsilon, Random& random, int threads, const Stop& stop) const {
  Boxing boxing;
  const Progress progress = Raise(epsilon, random, boxing, threads, stop);
  const double mu = progress.mu > 0 ? std::min(progress.mu, 0.99 * kPhi) : 0.99 * kPhi;
  double most = most_;
  for (const uint32_t id : progress.items) most = std::max(most, boxing.items[id].height);
  boxing.top = BoxByClass(boxing, progress.items, most / mu, mu, random, threads, stop);
  return boxing;
}

std::vector<uint32_t> Boxer::Unbox(const Boxing& boxing, Random& random) {
  // The largest job within each item; contents come before their boxes.
  std::vector<double> largest(boxing.items.size());
  for (size_t id = 0; id < boxing.items.size(); ++id) {
    const BoxItem& item = boxing.items[id];
    if (id < boxing.jobs) largest[id] = item.height;
    for (uint32_t c = item.first_content; c < item.last_content; ++c) {
      largest[id] = std::max(largest[id], largest[boxing.contents[c]]);
    }
  }
  const uint64_t stacking = random.Below(4);
  struct Row {
    double key;
    std::vector<uint32_t> ids;
  };
  struct Part {
    std::vector<uint32_t> ids;
    double address;
  };
  struct Placed {
    double address;
    double height;
    uint32_t id;
  };
  std::vector<Placed> placed;
  std::vector<Part> parts;
  parts.push_back({boxing.top, 0});
  while (!parts.empty()) {
    const Part part = std::move(parts.back());
    parts.pop_back();
    // What is in one box is of one height class, and so are the outermost boxes: a row for each
    // colour, each as high as its highest item.
    std::vector<Row> rows;
    for (std::vector<uint32_t>& ids : ColourRows(boxing.items, part.ids)) {
      double key = 0;
      if (stacking == 1) key = random.Unit();
      if (stacking >= 2) {
        for (const uint32_t id : ids) key = std::min(key, -largest[id]);
      }
      rows.push_back({key, std::move(ids)});
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.key < b.key; });
    double address = part.address;
    for (const Row& row : rows) {
      double highest = 0;
      for (const uint32_t id : row.ids) {
        const BoxItem& item = boxing.items[id];
        highest = std::max(highest, item.height);
        if (item.first_content < item.last_content) {
          parts.push_back({{boxing.contents.begin() + item.first_content,
                            boxing.contents.begin() + item.last_content},
                           address});
        } else if (id < boxing.jobs) {
          placed.push_back({address, item.height, id});
        }
      }
      address += highest;
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    if (a.address != b.address) return a.address < b.address;
    return a.height != b.height ? a.height > b.height : a.id < b.id;
  });
  std::vector<uint32_t> order;
  order.reserve(placed.size());
  for (const Placed& p : placed) order.push_back(p.id);
  return order;
}

}  // namespace reprise::planner
