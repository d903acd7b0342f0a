#include "planner/core/check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::planner {
namespace {

// What a buffer occupies during a part of its lifetime: all of it, or a gap's window.
struct Extent {
  uint32_t buffer;
  int64_t birth;
  int64_t death;
  int64_t address;
  int64_t end;
};

// A set of small integers with neighbours in near constant time: a bitmap, a bitmap of its words
// that are not zero, and so on.
class RankSet {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  explicit RankSet(size_t ranks) {
    do {
      ranks = (ranks + 63) / 64;
      levels_.emplace_back(ranks, 0);
    } while (ranks > 1);
  }

  void Insert(uint32_t rank) {
    for (auto& level : levels_) {
      level[rank / 64] |= uint64_t{1} << (rank % 64);
      rank /= 64;
    }
  }

  void Erase(uint32_t rank) {
    for (auto& level : levels_) {
      level[rank / 64] &= ~(uint64_t{1} << (rank % 64));
      if (level[rank / 64] != 0) return;
      rank /= 64;
    }
  }

  bool Contains(uint32_t rank) const { return (levels_[0][rank / 64] >> (rank % 64)) & 1; }

  // The largest member below `rank`, or kNone.
  uint32_t Before(uint32_t rank) const {
    for (size_t depth = 0; depth < levels_.size(); ++depth, rank /= 64) {
      const uint64_t below = levels_[depth][rank / 64] & ((uint64_t{1} << (rank % 64)) - 1);
      if (below == 0) continue;
      uint32_t found = rank / 64 * 64 + (63 - std::countl_zero(below));
      while (depth-- > 0) found = found * 64 + (63 - std::countl_zero(levels_[depth][found]));
      return found;
    }
    return kNone;
  }

  // The smallest member above `rank`, or kNone.
  uint32_t After(uint32_t rank) const {
    for (size_t depth = 0; depth < levels_.size(); ++depth, rank /= 64) {
      if (rank % 64 == 63) continue;
      const uint64_t above = levels_[depth][rank / 64] >> (rank % 64 + 1);
      if (above == 0) continue;
      uint32_t found = rank + 1 + std::countr_zero(above);
      while (depth-- > 0) found = found * 64 + std::countr_zero(levels_[depth][found]);
      return found;
    }
    return kNone;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;
};

// Sorts (key, index) pairs by key, eleven bits at a time; keys are below 2^bits.
template <typename Word>
std::vector<uint32_t> RadixOrder(uint32_t n, int bits, const auto& key) {
  constexpr int kDigit = 11;
  struct Item {
    Word key;
    uint32_t index;
  };
  std::vector<Item> from(n);
  for (uint32_t i = 0; i < n; ++i) from[i] = {static_cast<Word>(key(i)), i};
  std::vector<Item> to(n);
  for (int shift = 0; shift < bits; shift += kDigit) {
    const auto digit = [&](const Item& item) { return item.key >> shift & ((1 << kDigit) - 1); };
    std::array<uint32_t, (1 << kDigit) + 1> start{};
    for (const Item& item : from) ++start[digit(item) + 1];
    for (int d = 0; d < 1 << kDigit; ++d) start[d + 1] += start[d];
    for (const Item& item : from) to[start[digit(item)]++] = item;
    from.swap(to);
  }
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = from[i].index;
  return order;
}

// The indices 0..n-1 by `key`; equal keys by index.
std::vector<uint32_t> OrderBy(uint32_t n, const auto& key) {
  const auto first = static_cast<uint64_t>(key(0));
  int64_t least = key(0);
  int64_t most = least;
  uint64_t differs = 0;
  bool sorted = true;
  for (uint32_t i = 1; i < n; ++i) {
    sorted = sorted && key(i - 1) <= key(i);
    least = std::min(least, key(i));
    most = std::max(most, key(i));
    differs |= static_cast<uint64_t>(key(i)) - first;
  }
  std::vector<uint32_t> order(n);
  if (sorted || n < 4096) {
    for (uint32_t i = 0; i < n; ++i) order[i] = i;
    if (sorted) return order;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    return order;
  }
  // Keys are multiples of something, and perhaps dense.
  const int shift = std::countr_zero(differs);
  const auto above = [&](uint32_t i) {
    return (static_cast<uint64_t>(key(i)) - static_cast<uint64_t>(least)) >> shift;
  };
  const uint64_t range = (static_cast<uint64_t>(most) - static_cast<uint64_t>(least)) >> shift;
  if (range < 4 * uint64_t{n}) {
    std::vector<uint32_t> place(range + 1);
    for (uint32_t i = 0; i < n; ++i) ++place[above(i)];
    uint32_t before = 0;
    for (uint32_t& p : place) before += std::exchange(p, before);
    for (uint32_t i = 0; i < n; ++i) order[place[above(i)]++] = i;
    return order;
  }
  std::vector<uint32_t>().swap(order);
  const int bits = std::bit_width(range);
  return bits <= 32 ? RadixOrder<uint32_t>(n, bits, above) : RadixOrder<uint64_t>(n, bits, above);
}

std::vector<Extent> Extents(const Instance& instance, const std::vector<int64_t>& offsets) {
  std::vector<Extent> extents;
  extents.reserve(instance.buffers.size() + 2 * instance.gaps.size());
  size_t gap = 0;
  for (uint32_t i = 0; i < instance.buffers.size(); ++i) {
    const Buffer& buffer = instance.buffers[i];
    const int64_t size = RoundUp(buffer.size, instance.alignment);
    int64_t from = buffer.lower;
    for (; gap < instance.gaps.size() && instance.gaps[gap].buffer == i; ++gap) {
      const Gap& g = instance.gaps[gap];
      if (g.lower > from) extents.push_back({i, from, g.lower, offsets[i], offsets[i] + size});
      if (g.window_lower < g.window_upper) {
        extents.push_back(
            {i, g.lower, g.upper, offsets[i] + g.window_lower, offsets[i] + g.window_upper});
      }
      from = g.upper;
    }
    if (from < buffer.upper) {
      extents.push_back({i, from, buffer.upper, offsets[i], offsets[i] + size});
    }
  }
  return extents;
}

// Those that die are met in an order that is not that of memory, but known ahead.
constexpr uint32_t kAhead = 16;
void Prefetch(const std::vector<Extent>& extents, uint32_t i) { __builtin_prefetch(&extents[i]); }

// The extents of an instance without gaps: its buffers, not copied.
class Buffers {
 public:
  Buffers(const Instance& instance, const std::vector<int64_t>& offsets)
      : instance_(instance), offsets_(offsets) {}

  friend void Prefetch(const Buffers& buffers, uint32_t i) {
    __builtin_prefetch(&buffers.instance_.buffers[i]);
    __builtin_prefetch(&buffers.offsets_[i]);
  }

  size_t size() const { return offsets_.size(); }
  Extent operator[](uint32_t i) const {
    const Buffer& buffer = instance_.buffers[i];
    return {i, buffer.lower, buffer.upper, offsets_[i],
            offsets_[i] + RoundUp(buffer.size, instance_.alignment)};
  }

 private:
  const Instance& instance_;
  const std::vector<int64_t>& offsets_;
};

// The addresses at which extents begin, numbered in rising order.
class Begins {
 public:
  explicit Begins(const auto& extents) {
    const auto n = static_cast<uint32_t>(extents.size());
    least_ = extents[0].address;
    int64_t most = least_;
    uint64_t differs = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const int64_t address = extents[i].address;
      differs |= static_cast<uint64_t>(address) ^ static_cast<uint64_t>(extents[0].address);
      least_ = std::min(least_, address);
      most = std::max(most, address);
    }
    shift_ = differs == 0 ? 0 : std::countr_zero(differs);
    const uint64_t steps = (static_cast<uint64_t>(most) - static_cast<uint64_t>(least_)) >> shift_;
    if (steps < 2 * uint64_t{n}) {  // no need to sort: every step has a number
      count_ = static_cast<uint32_t>(steps) + 1;
      return;
    }
    const auto order = OrderBy(n, [&](uint32_t i) { return extents[i].address; });
    number_.resize(n);
    for (const uint32_t i : order) {
      const int64_t address = extents[i].address;
      if (addresses_.empty() || addresses_.back() != address) addresses_.push_back(address);
      number_[i] = static_cast<uint32_t>(addresses_.size()) - 1;
    }
    count_ = static_cast<uint32_t>(addresses_.size());
  }

  uint32_t count() const { return count_; }

  uint32_t NumberOf(uint32_t i, int64_t address) const {
    return number_.empty() ? static_cast<uint32_t>((address - least_) >> shift_) : number_[i];
  }

  int64_t AddressOf(uint32_t number) const {
    return number_.empty() ? least_ + (int64_t{number} << shift_) : addresses_[number];
  }

 private:
  int64_t least_ = 0;
  int shift_ = 0;
  uint32_t count_ = 0;
  // Empty when every step of 2^shift_ has a number.
  std::vector<uint32_t> number_;    // per extent
  std::vector<int64_t> addresses_;  // per number
};

// Sweeps over time. What is live is kept by where it begins, so that a newcomer that overlaps
// anything overlaps what begins there, too, or one of the two neighbours.
void Sweep(const auto& extents, int most, CheckResult& result) {
  const auto n = static_cast<uint32_t>(extents.size());
  if (n == 0) return;
  const auto births = OrderBy(n, [&](uint32_t i) { return extents[i].birth; });
  const auto deaths = OrderBy(n, [&](uint32_t i) { return extents[i].death; });
  const Begins begins(extents);
  RankSet live(begins.count());
  std::vector<int64_t> end_of(begins.count());  // of what is live
  // Those that clash stay outside the live set, or neighbours would not tell the truth.
  std::vector<bool> outside;

  const auto report = [&](uint32_t newcomer) {
    const Extent extent = extents[newcomer];
    for (uint32_t i = 0; i < n; ++i) {
      if (static_cast<int>(result.violations.size()) >= most) return;
      const Extent other = extents[i];
      const bool earlier = other.birth != extent.birth ? other.birth < extent.birth : i < newcomer;
      if (earlier && other.death > extent.birth && other.address < extent.end &&
          extent.address < other.end) {
        result.violations.push_back({Violation::Kind::kOverlap,
                                     std::min(extent.buffer, other.buffer),
                                     std::max(extent.buffer, other.buffer)});
      }
    }
  };

  int64_t load = 0;
  uint32_t dead = 0;
  for (const uint32_t e : births) {
    const Extent extent = extents[e];
    for (; dead < n; ++dead) {
      if (n - dead > kAhead) Prefetch(extents, deaths[dead + kAhead]);
      const Extent gone = extents[deaths[dead]];
      if (gone.death > extent.birth) break;
      load -= gone.end - gone.address;
      if (outside.empty() || !outside[deaths[dead]]) {
        live.Erase(begins.NumberOf(deaths[dead], gone.address));
      }
    }
    load += extent.end - extent.address;
    result.max_load = std::max(result.max_load, load);
    const uint32_t begin = begins.NumberOf(e, extent.address);
    const uint32_t below = live.Contains(begin) ? begin : live.Before(begin);
    const uint32_t above = live.After(begin);
    const bool clash_below = below != RankSet::kNone && end_of[below] > extent.address;
    const bool clash_above = above != RankSet::kNone && begins.AddressOf(above) < extent.end;
    if (clash_below || clash_above) {
      result.valid = false;
      outside.resize(n);
      outside[e] = true;
      report(e);
      continue;
    }
    live.Insert(begin);
    end_of[begin] = extent.end;
  }
}

// Of the buffer's address.
int64_t AlignmentOf(const Instance& instance, uint32_t buffer) {
  return instance.alignments.empty() ? instance.alignment
                                     : std::max(instance.alignment, instance.alignments[buffer]);
}

// Whether time can be swept: no address overflows.
bool CheckEach(const Instance& instance, const std::vector<int64_t>& offsets, int most,
               CheckResult& result) {
  result.valid = true;
  const auto report = [&](Violation::Kind kind, uint32_t buffer) {
    result.valid = false;
    if (static_cast<int>(result.violations.size()) < most) {
      result.violations.push_back({kind, buffer, buffer});
    }
  };
  bool sweepable = true;
  for (uint32_t i = 0; i < instance.buffers.size(); ++i) {
    const int64_t size = RoundUp(instance.buffers[i].size, instance.alignment);
    int64_t end = 0;
    if (offsets[i] < 0) {
      report(Violation::Kind::kNegativeOffset, i);
      sweepable = sweepable && offsets[i] > INT64_MIN / 2;
      continue;
    }
    if (__builtin_add_overflow(offsets[i], size, &end) ||
        end > INT64_MAX - instance.start_address) {
      report(Violation::Kind::kOverflow, i);
      sweepable = false;
      continue;
    }
    result.makespan = std::max(result.makespan, end);
    const int64_t bits = AlignmentOf(instance, i) - 1;
    if ((((instance.start_address & bits) + (offsets[i] & bits)) & bits) != 0) {
      report(Violation::Kind::kMisaligned, i);
    }
    if (!instance.fixed_offsets.empty() && instance.fixed_offsets[i] != Instance::kFree &&
        instance.fixed_offsets[i] != offsets[i]) {
      report(Violation::Kind::kMoved, i);
    }
  }
  return sweepable;
}

}  // namespace

CheckResult Check(const Instance& instance, const std::vector<int64_t>& offsets, int most) {
  CheckResult result;
  if (!CheckEach(instance, offsets, most, result)) return result;
  if (instance.gaps.empty()) {
    Sweep(Buffers(instance, offsets), most, result);
  } else {
    Sweep(Extents(instance, offsets), most, result);
  }
  return result;
}

CheckResult CheckAlone(const Instance& instance, const std::vector<int64_t>& offsets, int most) {
  CheckResult result;
  CheckEach(instance, offsets, most, result);
  return result;
}

std::string Describe(const Violation& violation, const Instance& instance,
                     const std::vector<int64_t>& offsets, const BufferName& name) {
  const auto one = [&](uint32_t i) {
    const Buffer& buffer = instance.buffers[i];
    return absl::StrCat(NameOf(i, name), " (live [", buffer.lower, ", ", buffer.upper, "), offset ",
                        offsets[i], ", size ", buffer.size, ")");
  };
  switch (violation.kind) {
    case Violation::Kind::kOverlap:
      return absl::StrCat(one(violation.first), " and ", one(violation.second),
                          " share memory while both are live");
    case Violation::Kind::kNegativeOffset:
      return absl::StrCat(one(violation.first), ": the offset is negative");
    case Violation::Kind::kMisaligned:
      return absl::StrCat(one(violation.first), ": expected an address that is a multiple of ",
                          AlignmentOf(instance, violation.first), ", found ",
                          instance.start_address + offsets[violation.first]);
    case Violation::Kind::kMoved:
      return absl::StrCat(one(violation.first), ": its offset is fixed at ",
                          instance.fixed_offsets[violation.first]);
    case Violation::Kind::kOverflow:
      return absl::StrCat(one(violation.first), ": the address overflows");
  }
  return "";
}

}  // namespace reprise::planner
