#include "planner/core/occupancy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace reprise::planner {
template <typename Coordinate>
struct Interval {
  Coordinate lower;
  Coordinate upper;
};

// A sorted set of disjoint address intervals; those that touch are merged.
template <typename Coordinate>
struct IntervalList {
  Interval<Coordinate>* data = nullptr;
  uint32_t size = 0;
  uint32_t capacity_log2 = 0;  // meaningful when data is set
};

// Addresses that are taken, [first, second), in one word where they fit. Negative ones count as 0.
template <typename Coordinate>
class Taken {
 public:
  Taken() = default;
  Taken(int64_t first, int64_t second)
      : first_(std::max<int64_t>(first, 0)), second_(std::max<int64_t>(second, 0)) {}
  int64_t first() const { return first_; }
  int64_t second() const { return second_; }
  bool operator<(const Taken& other) const { return first_ < other.first_; }

 private:
  int64_t first_ = 0, second_ = 0;
};
template <>
class Taken<uint32_t> {
 public:
  Taken() = default;
  Taken(int64_t first, int64_t second)
      : word_(static_cast<uint64_t>(std::max<int64_t>(first, 0)) << 32 |
              static_cast<uint64_t>(std::max<int64_t>(second, 0))) {}
  int64_t first() const { return static_cast<int64_t>(word_ >> 32); }
  int64_t second() const { return static_cast<uint32_t>(word_); }
  bool operator<(const Taken& other) const { return word_ < other.word_; }

 private:
  uint64_t word_ = 0;
};

template <typename Coordinate>
class BasicOccupancy {
 public:
  BasicOccupancy(const Problem& problem, std::vector<uint32_t> cuts);
  void Clear();
  int64_t FirstFit(uint32_t job, int64_t from, int64_t limit);
  bool Look(uint32_t job);
  int64_t FirstFitAgain(uint32_t job, int64_t from, int64_t limit);
  int64_t BestFit(uint32_t job, int64_t limit);
  int64_t BestFitWithin(uint32_t job, int64_t from, int64_t end);
  int64_t BestFitOfFew(uint32_t job, int64_t limit);
  void Place(uint32_t job, int64_t address);

 private:
  // One list seen by a job's window [lower, upper), with the place reached in it.
  struct Cursor {
    const IntervalList<Coordinate>* list;
    int64_t lower;
    int64_t upper;
    uint32_t at;
  };

  static void MergeInto(std::vector<Taken<Coordinate>>& taken, const Cursor& cursor);
  uint32_t Stretch(uint32_t section) const;
  void Collect(uint32_t lower, uint32_t upper, int64_t window_lower, int64_t window_upper);
  void CollectAll(uint32_t job);
  int64_t Advance(uint32_t job, int64_t address, int64_t limit);
  int64_t Slack(int64_t address);
  void Take(uint32_t lower, uint32_t upper, int64_t from, int64_t to);
  bool Add(uint32_t& node, int64_t lower, int64_t upper);
  Interval<Coordinate>* Allocate(uint32_t capacity_log2);

  const Problem& problem_;
  const std::vector<uint32_t> cuts_;  // empty: every section by itself
  uint32_t leaves_ = 1;
  // Per node an index into lists_; 0, the empty list, until something is stored there.
  std::vector<uint32_t> cover_;
  std::vector<uint32_t> touch_;
  std::vector<IntervalList<Coordinate>> lists_;
  std::vector<Cursor> cursors_;
  std::vector<Taken<Coordinate>> taken_;

  // Interval arrays of 2^k, handed out from slabs and kept in free lists by k.
  std::vector<std::unique_ptr<Interval<Coordinate>[]>> slabs_;
  size_t slab_used_ = 0;
  size_t slab_size_ = 0;
  std::vector<std::vector<Interval<Coordinate>*>> free_;
};

namespace {

// So many are merged sooner than they are sought through in their lists.
constexpr size_t kFewIntervals = 512;

// The first interval of [from, size) that ends above `address`. Gallops: cursors move a little.
template <typename Coordinate>
uint32_t Seek(const IntervalList<Coordinate>& list, uint32_t from, int64_t address) {
  if (from >= list.size || list.data[from].upper > address) return from;
  uint32_t step = 1;
  while (from + step < list.size && list.data[from + step].upper <= address) {
    from += step;
    step *= 2;
  }
  // data[from] ends at or below; the answer is in (from, from + step].
  uint32_t low = from + 1;
  uint32_t high = std::min(from + step, list.size);
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (list.data[middle].upper > address) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

template <typename Coordinate>
BasicOccupancy<Coordinate>::BasicOccupancy(const Problem& problem, std::vector<uint32_t> cuts)
    : problem_(problem),
      cuts_(std::move(cuts)),
      leaves_(std::bit_ceil(cuts_.empty() ? std::max(problem.sections, 1u)
                                          : static_cast<uint32_t>(cuts_.size()) + 1)),
      cover_(2 * size_t{leaves_}),
      touch_(leaves_),
      lists_(1),
      free_(33) {}

// The leaf that a section belongs to.
template <typename Coordinate>
uint32_t BasicOccupancy<Coordinate>::Stretch(uint32_t section) const {
  if (cuts_.empty()) return section;
  return static_cast<uint32_t>(std::upper_bound(cuts_.begin(), cuts_.end(), section) -
                               cuts_.begin());
}

template <typename Coordinate>
void BasicOccupancy<Coordinate>::Clear() {
  for (IntervalList<Coordinate>& list : lists_) list.size = 0;
}

template <typename Coordinate>
Interval<Coordinate>* BasicOccupancy<Coordinate>::Allocate(uint32_t capacity_log2) {
  auto& free = free_[capacity_log2];
  if (!free.empty()) {
    Interval<Coordinate>* data = free.back();
    free.pop_back();
    return data;
  }
  const size_t count = size_t{1} << capacity_log2;
  if (slab_used_ + count > slab_size_) {
    slab_size_ = std::max<size_t>(count, size_t{1} << 12);
    slab_used_ = 0;
    slabs_.push_back(std::make_unique_for_overwrite<Interval<Coordinate>[]>(slab_size_));
  }
  Interval<Coordinate>* data = slabs_.back().get() + slab_used_;
  slab_used_ += count;
  return data;
}

// False: all of it was there.
template <typename Coordinate>
bool BasicOccupancy<Coordinate>::Add(uint32_t& node, int64_t lower, int64_t upper) {
  if (node == 0) {
    node = static_cast<uint32_t>(lists_.size());
    lists_.emplace_back();
  }
  IntervalList<Coordinate>& list = lists_[node];
  // [first, last) are the intervals that the new one touches or overlaps.
  uint32_t first = 0;
  if (list.size != 0) first = Seek(list, 0, lower - 1);
  uint32_t last = first;
  while (last < list.size && list.data[last].lower <= upper) ++last;
  if (first < last) {
    Interval<Coordinate>& merged = list.data[first];
    if (merged.lower <= lower && upper <= merged.upper) return false;
    merged.lower = std::min(merged.lower, static_cast<Coordinate>(lower));
    merged.upper = std::max(list.data[last - 1].upper, static_cast<Coordinate>(upper));
    std::memmove(list.data + first + 1, list.data + last,
                 (list.size - last) * sizeof(Interval<Coordinate>));
    list.size -= last - first - 1;
    return true;
  }
  if (list.data == nullptr) {
    list.capacity_log2 = 0;
    list.data = Allocate(0);
  } else if (list.size == uint32_t{1} << list.capacity_log2) {
    Interval<Coordinate>* bigger = Allocate(list.capacity_log2 + 1);
    std::memcpy(bigger, list.data, list.size * sizeof(Interval<Coordinate>));
    free_[list.capacity_log2].push_back(list.data);
    list.data = bigger;
    ++list.capacity_log2;
  }
  std::memmove(list.data + first + 1, list.data + first,
               (list.size - first) * sizeof(Interval<Coordinate>));
  list.data[first] = {static_cast<Coordinate>(lower), static_cast<Coordinate>(upper)};
  ++list.size;
  return true;
}

template <typename Coordinate>
void BasicOccupancy<Coordinate>::Take(uint32_t lower, uint32_t upper, int64_t from, int64_t to) {
  if (from == to) return;
  uint32_t l = Stretch(lower) + leaves_;
  uint32_t r = Stretch(upper - 1) + 1 + leaves_;
  // Nodes whose subtree was stored into, on the left and on the right border, climb along, until
  // one has all of it already: then those above have it, too.
  uint32_t left = 0;
  uint32_t right = 0;
  const auto climb = [&] {
    if (right == left) right = 0;
    if (left != 0 && !Add(touch_[left], from, to)) left = 0;
    if (right != 0 && !Add(touch_[right], from, to)) right = 0;
  };
  for (; l < r; l /= 2, r /= 2) {
    climb();
    if (l % 2 == 1) {
      Add(cover_[l], from, to);
      if (l < leaves_) Add(touch_[l], from, to);
      left = l++;
    }
    if (r % 2 == 1) {
      Add(cover_[--r], from, to);
      if (r < leaves_) Add(touch_[r], from, to);
      if (right == 0 || right != r) right = r;
    }
    left /= 2;
    right /= 2;
  }
  for (; left != 0 || right != 0; left /= 2, right /= 2) climb();
}

template <typename Coordinate>
void BasicOccupancy<Coordinate>::Place(uint32_t job, int64_t address) {
  if (problem_.first_piece.empty()) {
    const Job& j = problem_.jobs[job];
    Take(j.lower, j.upper, address, address + j.size);
    return;
  }
  for (uint32_t p = problem_.first_piece[job]; p < problem_.first_piece[job + 1]; ++p) {
    const Piece& piece = problem_.pieces[p];
    Take(piece.lower, piece.upper, address + piece.window_lower, address + piece.window_upper);
  }
}

template <typename Coordinate>
void BasicOccupancy<Coordinate>::Collect(uint32_t lower, uint32_t upper, int64_t window_lower,
                                         int64_t window_upper) {
  const auto see = [&](uint32_t node) {
    const IntervalList<Coordinate>& list = lists_[node];
    if (list.size != 0) cursors_.push_back({&list, window_lower, window_upper, 0});
  };
  uint32_t l = Stretch(lower) + leaves_;
  uint32_t r = Stretch(upper - 1) + 1 + leaves_;
  uint32_t left = 0;
  uint32_t right = 0;
  const auto climb = [&] {
    if (left != 0) see(cover_[left]);
    if (right != 0 && right != left) see(cover_[right]);
  };
  for (; l < r; l /= 2, r /= 2) {
    climb();
    if (l % 2 == 1) {
      see(l < leaves_ ? touch_[l] : cover_[l]);
      left = l++;
    }
    if (r % 2 == 1) {
      --r;
      see(r < leaves_ ? touch_[r] : cover_[r]);
      right = r;
    }
    left /= 2;
    right /= 2;
  }
  for (; left != 0 || right != 0; left /= 2, right /= 2) climb();
}

template <typename Coordinate>
void BasicOccupancy<Coordinate>::CollectAll(uint32_t job) {
  cursors_.clear();
  if (problem_.first_piece.empty()) {
    const Job& j = problem_.jobs[job];
    Collect(j.lower, j.upper, 0, j.size);
    return;
  }
  for (uint32_t p = problem_.first_piece[job]; p < problem_.first_piece[job + 1]; ++p) {
    const Piece& piece = problem_.pieces[p];
    Collect(piece.lower, piece.upper, piece.window_lower, piece.window_upper);
  }
}

template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::Advance(uint32_t job, int64_t address, int64_t limit) {
  address = problem_.AlignUp(job, address);
  // Round and round until every list agrees.
  size_t agreed = 0;
  for (size_t c = 0; agreed < cursors_.size(); c = c + 1 == cursors_.size() ? 0 : c + 1) {
    Cursor& cursor = cursors_[c];
    const IntervalList<Coordinate>& list = *cursor.list;
    cursor.at = Seek(list, cursor.at, address + cursor.lower);
    if (cursor.at == list.size || list.data[cursor.at].lower >= address + cursor.upper) {
      ++agreed;
      continue;
    }
    do {
      address = problem_.AlignUp(job, list.data[cursor.at].upper - cursor.lower);
      cursor.at = Seek(list, cursor.at, address + cursor.lower);
    } while (cursor.at < list.size && list.data[cursor.at].lower < address + cursor.upper);
    if (address > limit) return address;
    agreed = 1;
  }
  return address;
}

template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::FirstFit(uint32_t job, int64_t from, int64_t limit) {
  CollectAll(job);
  return Advance(job, from, limit);
}

template <typename Coordinate>
bool BasicOccupancy<Coordinate>::Look(uint32_t job) {
  CollectAll(job);
  return !cursors_.empty();
}

template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::FirstFitAgain(uint32_t job, int64_t from, int64_t limit) {
  for (Cursor& cursor : cursors_) cursor.at = 0;
  return Advance(job, from, limit);
}

// By how much the job at `address`, where Advance() stopped, could move up.
template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::Slack(int64_t address) {
  int64_t slack = INT64_MAX;
  for (const Cursor& cursor : cursors_) {
    if (cursor.at == cursor.list->size) continue;
    slack = std::min<int64_t>(slack, cursor.list->data[cursor.at].lower - (address + cursor.upper));
  }
  return slack;
}

// Adds what the job of the cursor cannot begin in; all of it is in order.
template <typename Coordinate>
void BasicOccupancy<Coordinate>::MergeInto(std::vector<Taken<Coordinate>>& taken,
                                           const Cursor& cursor) {
  const IntervalList<Coordinate>& list = *cursor.list;
  const size_t before = taken.size();
  taken.resize(before + list.size);
  Taken<Coordinate>* const begin = taken.data();
  const Taken<Coordinate>* from = begin + before;  // from the last one down
  Taken<Coordinate>* to = begin + taken.size();
  for (uint32_t i = list.size; i-- > 0;) {
    const Interval<Coordinate>& it = list.data[i];
    const Taken<Coordinate> one(static_cast<int64_t>(it.lower) - cursor.upper + 1,
                                static_cast<int64_t>(it.upper) - cursor.lower);
    while (from != begin && one < from[-1]) *--to = *--from;
    *--to = one;
  }
}

// BestFit where the lists hold few intervals: those are merged, so that a gap costs nothing but the
// next one.
template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::BestFitOfFew(uint32_t job, int64_t limit) {
  taken_.clear();
  for (const Cursor& cursor : cursors_) MergeInto(taken_, cursor);
  const bool any_address = problem_.alignment(job) == 1;
  const auto align = [&](int64_t at) { return any_address ? at : problem_.AlignUp(job, at); };
  int64_t best = -1;
  int64_t best_slack = INT64_MAX;
  int64_t address = align(0);
  for (auto next = taken_.begin();;) {
    for (; next != taken_.end() && next->first() <= address; ++next) {
      if (next->second() > address) address = align(next->second());
    }
    if (address > limit) return best >= 0 ? best : address;
    const int64_t slack = next == taken_.end() ? INT64_MAX : next->first() - 1 - address;
    if (best < 0 || slack < best_slack) {
      best = address;
      best_slack = slack;
    }
    if (slack == 0 || slack == INT64_MAX) return best;
    address = align(next->first());
  }
}

template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::BestFit(uint32_t job, int64_t limit) {
  CollectAll(job);
  size_t intervals = 0;
  for (const Cursor& cursor : cursors_) intervals += cursor.list->size;
  if (intervals <= kFewIntervals) return BestFitOfFew(job, limit);
  int64_t best = -1;
  int64_t best_slack = INT64_MAX;
  for (int64_t address = 0;;) {
    address = Advance(job, address, limit);
    if (address > limit) return best >= 0 ? best : address;
    const int64_t slack = Slack(address);
    if (best < 0 || slack < best_slack) {
      best = address;
      best_slack = slack;
    }
    if (slack == 0 || slack == INT64_MAX) return best;
    address += slack + 1;
  }
}

template <typename Coordinate>
int64_t BasicOccupancy<Coordinate>::BestFitWithin(uint32_t job, int64_t from, int64_t end) {
  for (Cursor& cursor : cursors_) cursor.at = 0;
  const int64_t last = end - problem_.jobs[job].size;
  int64_t best = from;
  int64_t best_slack = INT64_MAX;
  for (int64_t address = from;;) {
    address = Advance(job, address, last);
    if (address > last) return best;
    const int64_t slack = std::min(Slack(address), last - address);
    if (slack < best_slack) {
      best = address;
      best_slack = slack;
    }
    if (slack == 0) return best;
    address += slack + 1;
  }
}

Occupancy::Occupancy(const Problem& problem) : Occupancy(problem, {}) {}

Occupancy::Occupancy(const Problem& problem, std::vector<uint32_t> cuts) {
  if (problem.end_bound < int64_t{1} << 32) {
    narrow_ = std::make_unique<BasicOccupancy<uint32_t>>(problem, std::move(cuts));
  } else {
    wide_ = std::make_unique<BasicOccupancy<int64_t>>(problem, std::move(cuts));
  }
}

Occupancy::~Occupancy() = default;

void Occupancy::Clear() { narrow_ ? narrow_->Clear() : wide_->Clear(); }

int64_t Occupancy::FirstFit(uint32_t job, int64_t from, int64_t limit) {
  return narrow_ ? narrow_->FirstFit(job, from, limit) : wide_->FirstFit(job, from, limit);
}

bool Occupancy::Look(uint32_t job) { return narrow_ ? narrow_->Look(job) : wide_->Look(job); }

int64_t Occupancy::FirstFitAgain(uint32_t job, int64_t from, int64_t limit) {
  return narrow_ ? narrow_->FirstFitAgain(job, from, limit)
                 : wide_->FirstFitAgain(job, from, limit);
}

int64_t Occupancy::BestFit(uint32_t job, int64_t limit) {
  return narrow_ ? narrow_->BestFit(job, limit) : wide_->BestFit(job, limit);
}

int64_t Occupancy::BestFitWithin(uint32_t job, int64_t from, int64_t end) {
  return narrow_ ? narrow_->BestFitWithin(job, from, end) : wide_->BestFitWithin(job, from, end);
}

void Occupancy::Place(uint32_t job, int64_t address) {
  narrow_ ? narrow_->Place(job, address) : wide_->Place(job, address);
}

}  // namespace reprise::planner
