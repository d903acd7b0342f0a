#include "planner/check.h"

#include <algorithm>
#include <array>
#include <bit>

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

// The order of `extents` by `key`: byte by byte from the last to the first that differs anywhere.
template <typename Key>
std::vector<uint32_t> OrderBy(const std::vector<Extent>& extents, Key key) {
  std::vector<uint32_t> order(extents.size());
  bool sorted = true;
  uint64_t differs = 0;
  const auto bits = [&](uint32_t i) {
    return static_cast<uint64_t>(key(extents[i])) ^ (uint64_t{1} << 63);
  };
  for (uint32_t i = 0; i < extents.size(); ++i) {
    order[i] = i;
    sorted = sorted && (i == 0 || bits(i - 1) <= bits(i));
    differs |= bits(i) ^ bits(0);
  }
  if (sorted) return order;
  if (extents.size() < 4096) {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return bits(a) != bits(b) ? bits(a) < bits(b) : a < b;
    });
    return order;
  }
  std::vector<std::pair<uint64_t, uint32_t>> from(extents.size());
  std::vector<std::pair<uint64_t, uint32_t>> to(extents.size());
  for (uint32_t i = 0; i < extents.size(); ++i) from[i] = {bits(i), i};
  for (int shift = 0; shift < 64; shift += 8) {
    if (((differs >> shift) & 255) == 0) continue;
    std::array<uint32_t, 257> start{};
    for (const auto& item : from) ++start[((item.first >> shift) & 255) + 1];
    for (int byte = 0; byte < 256; ++byte) start[byte + 1] += start[byte];
    for (const auto& item : from) to[start[(item.first >> shift) & 255]++] = item;
    from.swap(to);
  }
  for (size_t i = 0; i < from.size(); ++i) order[i] = from[i].second;
  return order;
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

// Sweeps over time; the live extents are kept by address, so that a newcomer that overlaps anything
// overlaps one of its two neighbours.
void Sweep(const std::vector<Extent>& extents, int most, CheckResult& result) {
  if (extents.empty()) return;
  const auto births = OrderBy(extents, [](const Extent& e) { return e.birth; });
  const auto deaths = OrderBy(extents, [](const Extent& e) { return e.death; });
  const auto by_address = OrderBy(extents, [](const Extent& e) { return e.address; });
  std::vector<uint32_t> rank(extents.size());
  for (uint32_t r = 0; r < by_address.size(); ++r) rank[by_address[r]] = r;

  RankSet live(extents.size());
  int64_t load = 0;
  size_t dead = 0;
  for (const uint32_t e : births) {
    const Extent& extent = extents[e];
    while (extents[deaths[dead]].death <= extent.birth) {
      const Extent& gone = extents[deaths[dead]];
      load -= gone.end - gone.address;
      live.Erase(rank[deaths[dead++]]);
    }
    load += extent.end - extent.address;
    result.max_load = std::max(result.max_load, load);
    bool clashes = false;
    const auto compare = [&](uint32_t r) {
      if (r == RankSet::kNone) return;
      const Extent& other = extents[by_address[r]];
      if (other.address >= extent.end || extent.address >= other.end) return;
      clashes = true;
      if (static_cast<int>(result.violations.size()) < most) {
        result.violations.push_back({Violation::Kind::kOverlap,
                                     std::min(extent.buffer, other.buffer),
                                     std::max(extent.buffer, other.buffer)});
      }
    };
    compare(live.Before(rank[e]));
    compare(live.After(rank[e]));
    result.valid = result.valid && !clashes;
    // The live set stays free of overlaps, or the neighbours would not tell the truth.
    if (!clashes) live.Insert(rank[e]);
  }
}

}  // namespace

CheckResult Check(const Instance& instance, const std::vector<int64_t>& offsets, int most) {
  CheckResult result;
  result.valid = true;
  const auto report = [&](Violation::Kind kind, uint32_t buffer) {
    result.valid = false;
    if (static_cast<int>(result.violations.size()) < most) {
      result.violations.push_back({kind, buffer, buffer});
    }
  };
  const int64_t low_bits = instance.alignment - 1;
  const int64_t start_bits = instance.start_address & low_bits;
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
    int64_t bits = low_bits;
    int64_t start = start_bits;
    if (!instance.alignments.empty() && instance.alignments[i] > instance.alignment) {
      bits = instance.alignments[i] - 1;
      start = instance.start_address & bits;
    }
    if (((start + (offsets[i] & bits)) & bits) != 0) report(Violation::Kind::kMisaligned, i);
    if (!instance.fixed_offsets.empty() && instance.fixed_offsets[i] != Instance::kFree &&
        instance.fixed_offsets[i] != offsets[i]) {
      report(Violation::Kind::kMoved, i);
    }
  }
  if (sweepable) Sweep(Extents(instance, offsets), most, result);
  return result;
}

std::string Describe(const Violation& violation, const Instance& instance,
                     const std::vector<int64_t>& offsets) {
  const auto one = [&](uint32_t i) {
    const Buffer& buffer = instance.buffers[i];
    return absl::StrCat("buffer ", i, " (live [", buffer.lower, ", ", buffer.upper, "), offset ",
                        offsets[i], ", size ", buffer.size, ")");
  };
  switch (violation.kind) {
    case Violation::Kind::kOverlap:
      return absl::StrCat(one(violation.first), " and ", one(violation.second),
                          " share memory while both are live");
    case Violation::Kind::kNegativeOffset:
      return absl::StrCat(one(violation.first), ": the offset is negative");
    case Violation::Kind::kMisaligned:
      return absl::StrCat(one(violation.first), ": the address is not aligned");
    case Violation::Kind::kMoved:
      return absl::StrCat(one(violation.first), ": its offset is fixed at ",
                          instance.fixed_offsets[violation.first]);
    case Violation::Kind::kOverflow:
      return absl::StrCat(one(violation.first), ": the address overflows");
  }
  return "";
}

}  // namespace reprise::planner
