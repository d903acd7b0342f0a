#include "planner/core/check_periodic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reprise::planner {
namespace {

// A buffer with one slot meets others in the same iteration and in the next.
constexpr int64_t kPeriodsSwept = 2;

// What a buffer occupies during a part of its lifetime, at one of its slots.
struct SlotExtent {
  uint32_t slot;
  uint32_t buffer;
  int64_t turn;   // iterations i with i mod turns == turn use it
  int64_t turns;  // slots of the buffer
  int64_t birth;  // in iteration 0
  int64_t death;
  int64_t address;
  int64_t end;
};

class PeriodicChecker {
 public:
  PeriodicChecker(const Instance& instance, int64_t period, const std::vector<int64_t>& offsets,
                  int most)
      : instance_(instance), period_(period), offsets_(offsets), most_(most) {
    uint32_t slot = 0;
    for (const Buffer& buffer : instance.buffers) {
      first_.push_back(slot);
      slot += static_cast<uint32_t>(Copies(buffer));
    }
    first_.push_back(slot);
  }

  CheckResult Run() {
    result_.valid = true;
    const bool addresses = CheckAddresses();
    if (addresses) {
      SweepPeriods();
      CompareSlots();
    }
    result_.max_load = SteadyLoad();
    return std::move(result_);
  }

 private:
  // How many of them are live at one time: iteration 0 is live when iteration n - 1 begins.
  int64_t Copies(const Buffer& buffer) const {
    int64_t copies = (buffer.upper - buffer.lower) / period_;
    if (buffer.lower + copies * period_ < buffer.upper) ++copies;
    return copies;
  }

  int64_t SizeOf(uint32_t buffer) const {
    return RoundUp(instance_.buffers[buffer].size, instance_.alignment);
  }

  void Report(Violation::Kind kind, uint32_t first, uint32_t second) {
    result_.valid = false;
    if (static_cast<int>(result_.violations.size()) >= most_) return;
    result_.violations.push_back({kind, std::min(first, second), std::max(first, second)});
  }

  // False: some offset is none, so that nothing can be said of overlaps.
  bool CheckAddresses() {
    // Alignments, given offsets and the end are as in an ordinary instance.
    Instance apart;
    apart.alignment = instance_.alignment;
    apart.start_address = instance_.start_address;
    for (uint32_t b = 0; b < instance_.buffers.size(); ++b) {
      for (uint32_t slot = first_[b]; slot < first_[b + 1]; ++slot) {
        apart.buffers.push_back({0, 1, instance_.buffers[b].size});
        if (!instance_.alignments.empty()) apart.alignments.push_back(instance_.alignments[b]);
        if (!instance_.fixed_offsets.empty()) {
          apart.fixed_offsets.push_back(instance_.fixed_offsets[b]);
        }
      }
    }
    CheckResult single = CheckAlone(apart, offsets_, most_);
    result_.valid = single.valid;
    result_.makespan = single.makespan;
    result_.violations = std::move(single.violations);
    return std::all_of(result_.violations.begin(), result_.violations.end(),
                       [](const auto& it) {
                         return it.kind != Violation::Kind::kNegativeOffset &&
                                it.kind != Violation::Kind::kOverflow;
                       }) &&
           (result_.valid || static_cast<int>(result_.violations.size()) < most_);
  }

  // Buffers with one slot, in iterations one after the other.
  void SweepPeriods() {
    Instance unrolled;
    unrolled.alignment = instance_.alignment;
    unrolled.start_address = instance_.start_address;
    std::vector<int64_t> offsets;
    std::vector<uint32_t> slots;  // of the unrolled buffers
    int64_t last_death = 0;  // of iteration 0: what is born later in iteration 1 meets none of it
    for (int64_t i = 0; i < kPeriodsSwept; ++i) {
      size_t gap = 0;
      for (uint32_t b = 0; b < instance_.buffers.size(); ++b) {
        if (first_[b + 1] - first_[b] > 1) continue;
        const Buffer& buffer = instance_.buffers[b];
        if (i == 0) last_death = std::max(last_death, buffer.upper);
        if (buffer.lower + i * period_ >= last_death) continue;
        const auto copy = static_cast<uint32_t>(unrolled.buffers.size());
        unrolled.buffers.push_back(
            {buffer.lower + i * period_, buffer.upper + i * period_, buffer.size});
        offsets.push_back(offsets_[first_[b]]);
        slots.push_back(first_[b]);
        while (gap < instance_.gaps.size() && instance_.gaps[gap].buffer < b) ++gap;
        for (; gap < instance_.gaps.size() && instance_.gaps[gap].buffer == b; ++gap) {
          Gap again = instance_.gaps[gap];
          again.buffer = copy;
          again.lower += i * period_;
          again.upper += i * period_;
          unrolled.gaps.push_back(again);
        }
      }
    }
    const CheckResult swept = Check(unrolled, offsets, most_);
    for (const Violation& violation : swept.violations) {
      if (violation.kind != Violation::Kind::kOverlap) continue;
      ReportOverlap(slots[violation.first], slots[violation.second]);
    }
  }

  // Each pair once.
  void ReportOverlap(uint32_t a, uint32_t b) {
    for (const Violation& known : result_.violations) {
      const bool same = known.first == std::min(a, b) && known.second == std::max(a, b);
      if (known.kind == Violation::Kind::kOverlap && same) return;
    }
    Report(Violation::Kind::kOverlap, a, b);
  }

  std::vector<SlotExtent> Extents() const {
    std::vector<SlotExtent> extents;
    size_t gap = 0;
    for (uint32_t b = 0; b < instance_.buffers.size(); ++b) {
      const Buffer& buffer = instance_.buffers[b];
      const int64_t turns = first_[b + 1] - first_[b];
      for (uint32_t slot = first_[b]; slot < first_[b + 1]; ++slot) {
        const int64_t at = offsets_[slot];
        SlotExtent extent = {slot,         b,  slot - first_[b], turns, buffer.lower,
                             buffer.upper, at, at + SizeOf(b)};
        for (; gap < instance_.gaps.size() && instance_.gaps[gap].buffer == b; ++gap) {
          const Gap& g = instance_.gaps[gap];
          SlotExtent before = extent;
          before.death = g.lower;
          if (before.birth < before.death) extents.push_back(before);
          before.birth = g.lower;
          before.death = g.upper;
          before.address = at + g.window_lower;
          before.end = at + g.window_upper;
          if (before.address < before.end) extents.push_back(before);
          extent.birth = g.upper;
        }
        if (extent.birth < extent.death) extents.push_back(extent);
      }
    }
    return extents;
  }

  // What has several slots, with all that shares an address with it.
  void CompareSlots() {
    if (first_.back() == instance_.buffers.size()) return;
    std::vector<SlotExtent> extents = Extents();
    std::sort(extents.begin(), extents.end(), [](const SlotExtent& a, const SlotExtent& b) {
      return a.address != b.address ? a.address < b.address : a.slot < b.slot;
    });
    int64_t several_end = INT64_MIN;  // of those before that have several slots
    int64_t end = INT64_MIN;          // of all before
    for (size_t e = 0; e < extents.size(); ++e) {
      const SlotExtent& extent = extents[e];
      const bool several = extent.turns > 1;
      if (extent.address < (several ? end : several_end)) CompareWithEarlier(extents, e);
      if (static_cast<int>(result_.violations.size()) >= most_) return;
      end = std::max(end, extent.end);
      if (several) several_end = std::max(several_end, extent.end);
    }
  }

  void CompareWithEarlier(const std::vector<SlotExtent>& extents, size_t e) {
    const SlotExtent& extent = extents[e];
    for (size_t o = 0; o < e; ++o) {
      const SlotExtent& other = extents[o];
      if (other.end <= extent.address || (other.turns == 1 && extent.turns == 1)) continue;
      if (static_cast<int>(result_.violations.size()) >= most_) return;
      if (Meet(extent, other)) ReportOverlap(extent.slot, other.slot);
    }
  }

  // Whether two slots are in use at one time in some iterations. A slot of several is free for less
  // than a period, so the second use of it by one meets some use of the other, at most as many
  // iterations away as both have slots.
  bool Meet(const SlotExtent& a, const SlotExtent& b) const {
    const int64_t iterations = 3 * std::max(a.turns, b.turns) + 3;
    for (int64_t i = a.turn; i < iterations; i += a.turns) {
      for (int64_t j = b.turn; j < iterations; j += b.turns) {
        if (a.birth + i * period_ < b.death + j * period_ &&
            b.birth + j * period_ < a.death + i * period_) {
          return true;
        }
      }
    }
    return false;
  }

  // The load of one period long after the first: what began in the periods before is counted by
  // whole periods, the rest by its instants.
  int64_t SteadyLoad() const {
    std::vector<std::pair<int64_t, int64_t>> change;  // instant, bytes
    int64_t always = 0;
    const auto add = [&](int64_t lower, int64_t upper, int64_t bytes) {
      always += (upper - lower) / period_ * bytes;
      const int64_t from = lower % period_;
      const int64_t to = from + (upper - lower) % period_;
      if (from == to) return;
      change.emplace_back(from, bytes);
      if (to != period_) change.emplace_back(to < period_ ? to : to - period_, -bytes);
      if (to > period_) change.emplace_back(0, bytes);
    };
    for (uint32_t b = 0; b < instance_.buffers.size(); ++b) {
      add(instance_.buffers[b].lower, instance_.buffers[b].upper, SizeOf(b));
    }
    for (const Gap& gap : instance_.gaps) {
      const int64_t unused = SizeOf(gap.buffer) - (gap.window_upper - gap.window_lower);
      add(gap.lower, gap.upper, -unused);
    }
    std::sort(change.begin(), change.end());
    int64_t load = 0;
    int64_t most = change.empty() || change[0].first > 0 ? 0 : INT64_MIN;  // at instant 0
    for (size_t i = 0; i < change.size(); ++i) {
      load += change[i].second;
      if (i + 1 == change.size() || change[i + 1].first > change[i].first) {
        most = std::max(most, load);
      }
    }
    return always + most;
  }

  const Instance& instance_;
  int64_t period_;
  const std::vector<int64_t>& offsets_;
  int most_;
  std::vector<uint32_t> first_;  // per buffer and one more: its first slot
  CheckResult result_;
};

}  // namespace

CheckResult CheckPeriodic(const Instance& instance, int64_t period,
                          const std::vector<int64_t>& offsets, int most) {
  return PeriodicChecker(instance, period, offsets, most).Run();
}

std::string DescribePeriodic(const Violation& violation, const Instance& instance, int64_t period,
                             const std::vector<int64_t>& offsets, const BufferName& name) {
  // The slots as the buffers of an instance, each with the lifetime of its buffer in iteration 0.
  Instance slots;
  slots.alignment = instance.alignment;
  slots.start_address = instance.start_address;
  std::vector<std::string> names;
  for (uint32_t b = 0; b < instance.buffers.size(); ++b) {
    const Buffer& buffer = instance.buffers[b];
    const int64_t copies = (buffer.upper - buffer.lower - 1) / period + 1;
    for (int64_t copy = 0; copy < copies; ++copy) {
      const auto slot = static_cast<uint32_t>(slots.buffers.size());
      slots.buffers.push_back(buffer);
      slots.fixed_offsets.push_back(instance.fixed_offsets.empty() ? Instance::kFree
                                                                   : instance.fixed_offsets[b]);
      slots.alignments.push_back(instance.alignments.empty() ? 1 : instance.alignments[b]);
      const bool named = slot == violation.first || slot == violation.second;
      names.push_back(!named ? std::string()
                      : copies == 1
                          ? NameOf(b, name)
                          : absl::StrCat(NameOf(b, name), " in slot ", copy, " of ", copies));
    }
  }
  std::string text =
      Describe(violation, slots, offsets, [&](uint32_t slot) { return names[slot]; });
  if (violation.kind == Violation::Kind::kOverlap) {
    absl::StrAppend(&text, " in some iterations of the period ", period);
  }
  return text;
}

}  // namespace reprise::planner
