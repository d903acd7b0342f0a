#include "planner/core/periodic.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/core/sort.h"

namespace reprise::planner {
namespace {

// Sizes of all slots stay below this.
constexpr int64_t kMostBytes = int64_t{1} << 61;

int64_t RoundedSize(const Instance& instance, uint32_t buffer) {
  return RoundUp(instance.buffers[buffer].size, instance.alignment);
}

// A change of the load at a phase, an instant of the period.
struct Change {
  int64_t phase;
  int64_t bytes;
};

std::vector<Change> ByPhase(std::vector<Change> changes) {
  const auto n = static_cast<uint32_t>(changes.size());
  const std::vector<uint32_t> order = OrderByTime(n, [&](uint32_t i) { return changes[i].phase; });
  std::vector<Change> sorted;
  sorted.reserve(n);
  for (const uint32_t i : order) sorted.push_back(changes[i]);
  return sorted;
}

// The phase that the fewest bytes are live across. Buffers that are live at all times do not
// matter, nor do gaps: what is live across the cut lives throughout.
int64_t CutOf(const Instance& instance, int64_t period) {
  std::vector<Change> births, deaths;
  int64_t load = 0;  // across phase 0
  for (uint32_t b = 0; b < instance.buffers.size(); ++b) {
    const Buffer& buffer = instance.buffers[b];
    if (buffer.upper - buffer.lower >= period) continue;
    const int64_t size = RoundedSize(instance, b);
    if (buffer.upper > period) load += size;
    births.push_back({buffer.lower, size});
    deaths.push_back({buffer.upper % period, size});
  }
  if (load == 0) return 0;
  births = ByPhase(std::move(births));
  deaths = ByPhase(std::move(deaths));
  int64_t cut = 0;
  int64_t least = load;
  auto born = births.begin();
  // The load is lowest after deaths and before the births of the same instant. What dies at phase 0
  // is not live across it.
  for (auto dead = deaths.begin(); dead != deaths.end(); ++dead) {
    if (dead->phase == 0) continue;
    for (; born != births.end() && born->phase < dead->phase; ++born) load += born->bytes;
    load -= dead->bytes;
    if (load >= least) continue;
    least = load;
    cut = dead->phase;
  }
  return cut;
}

// Times of a buffer with one slot since a cut of the circle.
class Unwound {
 public:
  Unwound(const Buffer& buffer, int64_t period, int64_t cut)
      : period_(period),
        birth_(buffer.lower - cut + (buffer.lower < cut ? period : 0)),
        lifetime_(buffer.upper - buffer.lower) {}

  // Whether it is live across the cut, and at some instant not.
  bool Crosses() const { return birth_ > period_ - lifetime_ && lifetime_ < period_; }
  bool Throughout() const { return lifetime_ >= period_; }

  Buffer Lifetime(int64_t size) const {
    if (Crosses() || Throughout()) return {0, period_, size};
    return {birth_, birth_ + lifetime_, size};
  }

  // The gap from `lower` to `upper`, instants since the birth, in one or two parts.
  void AddGap(Gap gap, int64_t lower, int64_t upper, std::vector<Gap>& gaps) const {
    const int64_t wrap = period_ - birth_;  // the cut, since the birth
    for (const bool before : {true, false}) {
      const int64_t from = before ? lower : std::max(lower, wrap);
      const int64_t to = before ? std::min(upper, wrap) : upper;
      if (from >= to) continue;
      gap.lower = before ? birth_ + from : from - wrap;
      gap.upper = before ? birth_ + to : to - wrap;
      gaps.push_back(gap);
    }
  }

  // The time in which a buffer that lives across the cut does not live.
  void AddAbsence(uint32_t buffer, std::vector<Gap>& gaps) const {
    gaps.push_back({buffer, lifetime_ - (period_ - birth_), birth_, 0, 0});
  }

 private:
  int64_t period_;
  int64_t birth_;
  int64_t lifetime_;
};

absl::Status BadBuffer(uint32_t buffer, const BufferName& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(NameOf(buffer, name), ": ", what));
}

// What a buffer with several slots cannot have.
absl::Status ValidateSlots(const Instance& instance, uint32_t b, int64_t slots, bool gaps,
                           const BufferName& name) {
  const std::string several =
      absl::StrCat("it is live for more than a period, so it has ", slots, " offsets in turn");
  if (!instance.fixed_offsets.empty() && instance.fixed_offsets[b] != Instance::kFree) {
    return BadBuffer(
        b, name,
        absl::StrCat(several, ": expected no fixed offset, found ", instance.fixed_offsets[b]));
  }
  if (gaps) return BadBuffer(b, name, absl::StrCat(several, ": expected no gaps"));
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePeriodic(const Instance& instance, int64_t period, const BufferName& name) {
  if (absl::Status status = Validate(instance, name); !status.ok()) return status;
  if (period <= 0 || period >= kLongestPeriod) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a period from 1 to 2^59 - 1, found ", period));
  }
  int64_t all = 0;   // slots of buffers that have several
  int64_t need = 0;  // bytes of all slots
  size_t gap = 0;
  for (uint32_t b = 0; b < instance.buffers.size(); ++b) {
    const Buffer& buffer = instance.buffers[b];
    if (buffer.lower < 0 || buffer.lower >= period) {
      return BadBuffer(
          b, name,
          absl::StrCat("expected lower in [0, ", period, "), the period, found ", buffer.lower));
    }
    if (buffer.upper >= kLongestPeriod) {
      return BadBuffer(b, name, absl::StrCat("expected upper below 2^59, found ", buffer.upper));
    }
    while (gap < instance.gaps.size() && instance.gaps[gap].buffer < b) ++gap;
    const int64_t slots = Slots(buffer, period);
    int64_t bytes = 0;
    if (__builtin_mul_overflow(slots, RoundedSize(instance, b), &bytes) ||
        bytes >= kMostBytes - need) {
      return BadBuffer(b, name, "the sum of the sizes of all copies is above 2^61");
    }
    need += bytes;
    if (slots == 1) continue;
    const bool gaps = gap < instance.gaps.size() && instance.gaps[gap].buffer == b;
    if (absl::Status status = ValidateSlots(instance, b, slots, gaps, name); !status.ok()) {
      return status;
    }
    all += slots;
    if (all > kMostSlots) {
      return BadBuffer(b, name,
                       absl::StrCat("expected at most ", kMostSlots,
                                    " copies of buffers that are live for more than a period, "
                                    "found at least ",
                                    all));
    }
  }
  return absl::OkStatus();
}

int64_t Slots(const Buffer& buffer, int64_t period) {
  return (buffer.upper - buffer.lower - 1) / period + 1;
}

std::vector<uint32_t> FirstSlots(const Instance& instance, int64_t period) {
  std::vector<uint32_t> first = {0};
  first.reserve(instance.buffers.size() + 1);
  for (const Buffer& buffer : instance.buffers) {
    first.push_back(first.back() + static_cast<uint32_t>(Slots(buffer, period)));
  }
  return first;
}

PeriodicPeak PeakOf(const Instance& instance, int64_t period) {
  std::vector<Change> changes;
  int64_t load = 0;  // at the end of the period
  // `bytes` more in [lower, upper), of any length.
  const auto add = [&](int64_t lower, int64_t upper, int64_t bytes) {
    load += bytes * (upper / period - lower / period);
    changes.push_back({lower % period, bytes});
    changes.push_back({upper % period, -bytes});
  };
  for (uint32_t b = 0; b < instance.buffers.size(); ++b) {
    add(instance.buffers[b].lower, instance.buffers[b].upper, RoundedSize(instance, b));
  }
  for (const Gap& gap : instance.gaps) {
    add(gap.lower, gap.upper,
        gap.window_upper - gap.window_lower - RoundedSize(instance, gap.buffer));
  }
  changes = ByPhase(std::move(changes));
  PeriodicPeak peak;
  for (auto it = changes.begin(); it != changes.end();) {
    const int64_t phase = it->phase;
    for (; it != changes.end() && it->phase == phase; ++it) load += it->bytes;
    if (load > peak.load) peak = {load, phase};
  }
  return peak;
}

Instance Reduce(const Instance& instance, int64_t period) {
  const int64_t cut = CutOf(instance, period);
  Instance reduced;
  reduced.alignment = instance.alignment;
  reduced.start_address = instance.start_address;
  reduced.capacity = instance.capacity;
  size_t next = 0;  // of the gaps
  for (uint32_t b = 0; b < instance.buffers.size(); ++b) {
    const Buffer& buffer = instance.buffers[b];
    const int64_t slots = Slots(buffer, period);
    for (int64_t slot = 0; slot < slots; ++slot) {
      if (!instance.alignments.empty()) reduced.alignments.push_back(instance.alignments[b]);
      if (!instance.fixed_offsets.empty()) {
        reduced.fixed_offsets.push_back(instance.fixed_offsets[b]);
      }
      if (slots > 1) reduced.buffers.push_back({0, period, buffer.size});
    }
    if (slots > 1) continue;
    const Unwound unwound(buffer, period, cut);
    const auto index = static_cast<uint32_t>(reduced.buffers.size());
    const size_t first = reduced.gaps.size();
    reduced.buffers.push_back(unwound.Lifetime(buffer.size));
    if (unwound.Crosses()) unwound.AddAbsence(index, reduced.gaps);
    for (; next < instance.gaps.size() && instance.gaps[next].buffer == b; ++next) {
      Gap gap = instance.gaps[next];
      gap.buffer = index;
      unwound.AddGap(gap, gap.lower - buffer.lower, gap.upper - buffer.lower, reduced.gaps);
    }
    std::sort(reduced.gaps.begin() + static_cast<std::ptrdiff_t>(first), reduced.gaps.end(),
              [](const Gap& one, const Gap& other) { return one.lower < other.lower; });
  }
  return reduced;
}

}  // namespace reprise::planner
