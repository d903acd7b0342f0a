#include "replay/plan/loops.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/repeats.h"

namespace reprise::replay {
namespace {

using trace::Allocation;
using trace::Recording;

// Steps that a repeat must have: one sixteenth of those among which it is looked for, within these
// limits. In a long recording the loop may be only a small part, behind a long start.
constexpr size_t kLeastRepeat = 64;
constexpr size_t kEnoughRepeat = 4096;
constexpr size_t kRepeatShare = 16;
constexpr uint32_t kLeastBody = 256;  // steps, where the recording has as many
constexpr size_t kMostTried = 32;     // repeats
constexpr uint32_t kMostUnrolled = 4096;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t hash = (a ^ b * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  return hash ^ hash >> 32;
}

// A block that lives over a boundary: how many allocations before it was born, what it is, and at
// which step behind the boundary it dies, or from the last boundary on was born.
struct Crossing {
  uint64_t distance = 0;
  uint64_t kind = 0;
  uint32_t step = 0;
  uint32_t allocation = 0;
};

// Per allocation of the recording.
struct Lives {
  explicit Lives(size_t allocations) : born(allocations), dies(allocations), ordinal(allocations) {}
  std::vector<uint32_t> born;     // the step
  std::vector<uint32_t> dies;     // the same; kNone: never
  std::vector<uint32_t> ordinal;  // which of the lane's allocations it is
};

class LaneSearch {
 public:
  LaneSearch(const Recording& recording, const BlockBytes& block_bytes, LaneLoops& lane,
             Lives& lives, bool by_thread)
      : recording_(recording),
        by_thread_(by_thread),
        block_bytes_(block_bytes),
        lane_(lane),
        least_refused_(lane.steps.size() / 4),
        born_(lives.born),
        dies_(lives.dies),
        ordinal_(lives.ordinal) {}

  void Run(LoopMode mode) {
    if (lane_.steps.size() >= kStepFrees) return;
    symbols_ = Symbols();
    TryAll(mode, symbols_);
    if (std::vector<uint64_t> symbols = symbols_; SortFrees(symbols)) {
      // What repeats exactly is preferred, unless it is a small part of what repeats like that.
      Found exact = Take();
      frees_in_any_order_ = true;
      TryAll(mode, symbols);
      if (Longest(lane_.loops) < 2 * uint64_t{Longest(exact.loops)} || lane_.loops.empty()) {
        Restore(std::move(exact));
      }
      for (const Loop& loop : lane_.loops) {
        if (frees_in_any_order_) Align(loop);
      }
    }
    std::sort(lane_.loops.begin(), lane_.loops.end(),
              [](const Loop& a, const Loop& b) { return a.begin < b.begin; });
    if (!lane_.loops.empty()) lane_.refused.clear();
  }

 private:
  struct Found {
    std::vector<Loop> loops;
    std::vector<std::pair<uint32_t, uint32_t>> same_offset;
    std::string refused;
  };
  Found Take() {
    return {std::exchange(lane_.loops, {}), std::exchange(lane_.same_offset, {}),
            std::exchange(lane_.refused, {})};
  }
  void Restore(Found found) {
    lane_.loops = std::move(found.loops);
    lane_.same_offset = std::move(found.same_offset);
    lane_.refused = std::move(found.refused);
    frees_in_any_order_ = false;
  }
  static uint32_t Longest(const std::vector<Loop>& loops) {
    uint32_t longest = 0;
    for (const Loop& loop : loops) longest = std::max(longest, loop.end() - loop.begin);
    return longest;
  }

  void TryAll(LoopMode mode, const std::vector<uint64_t>& symbols) {
    for (const Repeat& repeat : mode == LoopMode::kMarks ? FromMarks(symbols) : Any(symbols)) {
      if (lane_.loops.size() < kMostLaneLoops) Try(repeat);
    }
  }

  // Those of the whole lane, and shorter ones among its last allocations: the loop of a program
  // that begins with a lot of other work, and ends with a lot of frees.
  std::vector<Repeat> Any(const std::vector<uint64_t>& symbols) {
    constexpr size_t kFewest = 2048;  // of the last allocations
    std::vector<Repeat> repeats = From(0, symbols, symbols.size());
    const size_t enough = std::min(kinds_.size(), kEnoughRepeat * kRepeatShare / 2);
    for (size_t latest = kFewest; latest < enough; latest *= 4) {
      const auto first = std::lower_bound(before_.begin(), before_.end(), kinds_.size() - latest);
      const std::vector<Repeat> more = From(first - before_.begin(), symbols, 2 * latest);
      repeats.insert(repeats.end(), more.begin(), more.end());
    }
    return repeats;
  }

  // The repeats behind so many steps, of which about `steps` are of interest.
  static std::vector<Repeat> From(ptrdiff_t begin, std::span<const uint64_t> symbols,
                                  size_t steps) {
    std::vector<Repeat> repeats =
        FindRepeats(symbols.subspan(static_cast<size_t>(begin)),
                    std::clamp(steps / kRepeatShare, kLeastRepeat, kEnoughRepeat));
    if (repeats.size() > kMostTried) repeats.resize(kMostTried);
    for (Repeat& repeat : repeats) {
      repeat.begin += static_cast<size_t>(begin);
      repeat.end += static_cast<size_t>(begin);
    }
    return repeats;
  }

  std::vector<Repeat> FromMarks(const std::vector<uint64_t>& symbols) {
    if (lane_.marks.empty()) return {};
    std::vector<Repeat> repeats = FindRepeatsFrom(symbols, lane_.marks);
    if (repeats.size() > kMostTried) repeats.resize(kMostTried);
    if (repeats.empty())
      lane_.refused = lane_.marks.size() == 1
                          ? "there is one mark only"
                          : absl::StrCat("no iterations between the ", lane_.marks.size(),
                                         " marks follow each other and are the same");
    // What is wrong with one of these is said, however short it is.
    least_refused_ = 0;
    return repeats;
  }

  static bool Frees(uint32_t step) { return (step & kStepFrees) != 0; }
  uint32_t Size() const { return static_cast<uint32_t>(lane_.steps.size()); }
  uint64_t Kind(uint32_t allocation) const { return kinds_[ordinal_[allocation]]; }

  // A hash per step, as loops.h says what is alike. Notes when each allocation is born and dies.
  std::vector<uint64_t> Symbols() {
    std::vector<uint64_t> symbols;
    symbols.reserve(lane_.steps.size());
    uint32_t allocations = 0;
    before_.reserve(lane_.steps.size() + 1);
    for (uint32_t i = 0; i < Size(); ++i) {
      before_.push_back(allocations);
      const uint32_t allocation = lane_.steps[i] & ~kStepFrees;
      const Allocation& it = recording_.allocations[allocation];
      if (Frees(lane_.steps[i])) {
        dies_[allocation] = i;
        const bool own = !by_thread_ || it.free_thread == it.thread;
        symbols.push_back(Mix(Kind(allocation), allocations - ordinal_[allocation]) * 2 +
                          (own ? 1 : 0));
        continue;
      }
      born_[allocation] = i;
      dies_[allocation] = trace::kNone;
      ordinal_[allocation] = allocations++;
      kinds_.push_back(HashOf(allocation));
      symbols.push_back(Mix(kinds_.back(), it.previous == trace::kNone ? 1 : 2));
    }
    before_.push_back(allocations);
    return symbols;
  }

  // Brings frees that follow each other, with no mark in between, into one order. False: none do.
  bool SortFrees(std::vector<uint64_t>& symbols) const {
    bool sorted = false;
    auto mark = lane_.marks.begin();
    for (uint32_t first = 0, end; first < Size(); first = end) {
      while (mark != lane_.marks.end() && *mark <= first) ++mark;
      const uint32_t next_mark = mark != lane_.marks.end() ? *mark : Size();
      end = first + 1;
      if (!Frees(lane_.steps[first])) continue;
      while (end < next_mark && Frees(lane_.steps[end])) ++end;
      sorted |= end - first > 1;
      std::sort(symbols.begin() + first, symbols.begin() + end);
    }
    return sorted;
  }

  uint64_t HashOf(uint32_t allocation) const {
    const Allocation& it = recording_.allocations[allocation];
    return Mix(Mix(Shape(it.size, it.log2_alignment), block_bytes_[allocation]), SiteHash(it));
  }
  uint64_t SiteHash(const Allocation& allocation) const {
    if (allocation.site == trace::kNone) return 1;
    const trace::Site& site = recording_.sites[allocation.site];
    return Mix(site.offset, uint64_t{site.module} << kDepthBits | site.depth % kDepths);
  }

  // Makes a loop of the part of a repeat that no other loop has.
  void Try(Repeat repeat) {
    for (const Loop& loop : lane_.loops) {
      if (repeat.begin >= loop.begin && repeat.begin < loop.end()) repeat.begin = loop.end();
      if (repeat.end > loop.begin && repeat.end <= loop.end()) repeat.end = loop.begin;
      if (repeat.begin < loop.begin && repeat.end > loop.end()) return;
    }
    // No iteration begins among frees that another one does in another order.
    const auto allocates_at = [&](size_t step) {
      return step == Size() || !Frees(lane_.steps[step]) ||
             std::binary_search(lane_.marks.begin(), lane_.marks.end(), step);
    };
    while (frees_in_any_order_ && repeat.end >= repeat.begin + repeat.period &&
           !(allocates_at(repeat.end) && allocates_at(repeat.end - repeat.period))) {
      --repeat.end;
    }
    if (repeat.begin >= repeat.end || repeat.end - repeat.begin < 2 * repeat.period) return;
    Loop loop;
    loop.iteration = static_cast<uint32_t>(repeat.period);
    const auto length = static_cast<uint32_t>(repeat.end - repeat.begin);
    const auto end = static_cast<uint32_t>(repeat.end);
    const uint32_t lifetime = LongestLifetime(end - loop.iteration, end);
    loop.unrolled = std::max(1u, (lifetime + loop.iteration - 1) / loop.iteration);
    if (loop.unrolled > kMostUnrolled || loop.unrolled > length / loop.iteration) {
      return Refuse(repeat,
                    absl::StrCat("blocks live for ", base::Counted(loop.unrolled, "iteration")));
    }
    const uint32_t copies = (kLeastBody + loop.period() - 1) / loop.period();
    loop.copies = std::min(copies, length / loop.period());
    loop.passes = length / loop.body();
    loop.begin = end - loop.passes * loop.body();
    Close(repeat, loop);
  }

  uint32_t LongestLifetime(uint32_t begin, uint32_t end) const {
    uint32_t longest = 0;
    for (uint32_t i = begin; i < end; ++i) {
      if (Frees(lane_.steps[i]))
        longest = std::max(longest, i - born_[lane_.steps[i] & ~kStepFrees]);
    }
    return longest;
  }

  // What replay sees of the next event that the thread itself makes; 0: the end.
  uint64_t NextOwn(uint32_t step) const {
    for (const uint32_t from = step; step < Size(); ++step) {
      const uint32_t allocation = lane_.steps[step] & ~kStepFrees;
      const Allocation& it = recording_.allocations[allocation];
      if (!Frees(lane_.steps[step])) return Mix(SiteHash(it), Shape(it.size, it.log2_alignment));
      if (by_thread_ && it.free_thread != it.thread) continue;
      return before_[from] - ordinal_[allocation];
    }
    return 0;
  }

  // Adds the loop if what lives at the end of a period is what lives at its beginning.
  void Close(const Repeat& repeat, Loop& loop) {
    const uint32_t begin = loop.begin, end = loop.begin + loop.period();
    // At the end one event must tell whether the program goes on with the body or behind the loop.
    // Frees by other threads do not: they may come at any time. Where frees come in any order, a
    // last iteration may be cut short instead.
    if (!frees_in_any_order_ && NextOwn(begin) == NextOwn(loop.end())) {
      return Refuse(repeat, "it goes on as it begins");
    }
    std::vector<Crossing> entering, leaving;
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t allocation = lane_.steps[i] & ~kStepFrees;
      if (Frees(lane_.steps[i])) {
        if (born_[allocation] >= begin) continue;
        entering.push_back(
            {before_[begin] - ordinal_[allocation], Kind(allocation), i, allocation});
      } else if (dies_[allocation] >= end) {
        leaving.push_back({before_[end] - ordinal_[allocation], Kind(allocation), i, allocation});
      }
    }
    const auto later = [](const Crossing& a, const Crossing& b) { return a.distance > b.distance; };
    std::sort(entering.begin(), entering.end(), later);
    std::sort(leaving.begin(), leaving.end(), later);
    if (leaving.size() > entering.size()) {
      const size_t kept = leaving.size() - entering.size();
      return Refuse(repeat, absl::StrCat(base::Counted(kept, "block"), " of each iteration ",
                                         kept == 1 ? "outlives" : "outlive", " the loop"));
    }
    for (size_t k = 0; k < entering.size(); ++k) {
      if (k >= leaving.size() || entering[k].distance != leaving[k].distance ||
          entering[k].kind != leaving[k].kind || entering[k].step > leaving[k].step) {
        return Refuse(repeat, "what is live differs from iteration to iteration");
      }
    }
    for (size_t k = 0; k < entering.size(); ++k) {
      lane_.same_offset.emplace_back(entering[k].allocation, leaving[k].allocation);
      ++loop.carried;
      loop.carried_bytes += block_bytes_[leaving[k].allocation];
    }
    for (uint32_t i = begin; i < begin + loop.iteration; ++i) {
      if (Frees(lane_.steps[i])) continue;
      ++loop.allocations;
      loop.bytes += block_bytes_[lane_.steps[i]];
    }
    lane_.loops.push_back(loop);
  }

  // Brings the frees of the later periods that the plan file has into the order of the first one.
  void Align(const Loop& loop) {
    const auto by_symbol = [this](uint32_t a, uint32_t b) { return symbols_[a] < symbols_[b]; };
    const uint32_t first_end = loop.begin + loop.period();
    std::vector<uint32_t> order, other, steps;  // steps of a run of frees, by symbol
    for (uint32_t first = loop.begin, end; first < first_end; first = end) {
      end = first + 1;
      if (!Frees(lane_.steps[first])) continue;
      while (end < first_end && Frees(lane_.steps[end])) ++end;
      order.resize(end - first);
      std::iota(order.begin(), order.end(), first);
      std::sort(order.begin(), order.end(), by_symbol);
      for (uint32_t ahead = loop.period(); ahead < loop.body(); ahead += loop.period()) {
        other.resize(order.size());
        std::iota(other.begin(), other.end(), first + ahead);
        std::sort(other.begin(), other.end(), by_symbol);
        steps.clear();
        for (const uint32_t step : other) steps.push_back(lane_.steps[step]);
        for (size_t i = 0; i < order.size(); ++i) {
          lane_.steps[order[i] + ahead] = steps[i];
          dies_[steps[i] & ~kStepFrees] = order[i] + ahead;
        }
      }
    }
  }

  void Refuse(const Repeat& repeat, const std::string& why) {
    if (!lane_.refused.empty() || repeat.end - repeat.begin < least_refused_) return;
    lane_.refused = absl::StrCat((repeat.end - repeat.begin) / repeat.period, " repeats of ",
                                 base::Counted(repeat.period, "event"), ": ", why);
  }

  const Recording& recording_;
  const bool by_thread_;
  const BlockBytes& block_bytes_;
  LaneLoops& lane_;
  size_t least_refused_;  // steps
  bool frees_in_any_order_ = false;
  std::vector<uint32_t>& born_;
  std::vector<uint32_t>& dies_;
  std::vector<uint32_t>& ordinal_;
  std::vector<uint32_t> before_;   // per step: allocations of the lane before it
  std::vector<uint64_t> kinds_;    // per allocation of the lane
  std::vector<uint64_t> symbols_;  // per step
};

// The steps of every lane.
std::vector<LaneLoops> SplitSteps(const Recording& recording, bool by_thread) {
  std::vector<uint32_t> at(recording.events, trace::kNone);
  for (uint32_t i = 0; i < recording.allocations.size(); ++i) {
    const Allocation& allocation = recording.allocations[i];
    at[allocation.birth] = i;
    if (allocation.death != trace::kNever) at[allocation.death] = i | kStepFrees;
  }
  std::vector<LaneLoops> lanes(by_thread ? recording.threads.size() : 1);
  auto mark = recording.marks.begin();
  for (uint64_t event = 0; event <= at.size(); ++event) {
    for (; mark != recording.marks.end() && mark->event <= event; ++mark) {
      LaneLoops& lane = lanes[by_thread ? mark->thread : 0];
      lane.marks.push_back(static_cast<uint32_t>(lane.steps.size()));
    }
    const uint32_t step = event < at.size() ? at[event] : trace::kNone;
    if (step == trace::kNone) continue;  // a free of something never seen allocated
    lanes[by_thread ? recording.allocations[step & ~kStepFrees].thread : 0].steps.push_back(step);
  }
  return lanes;
}

}  // namespace

std::vector<LaneLoops> FindLoops(const Recording& recording, const BlockBytes& block_bytes,
                                 bool by_thread, LoopMode mode) {
  if (recording.allocations.size() >= kStepFrees) return {};
  std::vector<LaneLoops> lanes = SplitSteps(recording, by_thread);
  Lives lives(recording.allocations.size());
  for (LaneLoops& lane : lanes)
    LaneSearch(recording, block_bytes, lane, lives, by_thread).Run(mode);
  if (mode == LoopMode::kMarks && recording.marks.empty() && !lanes.empty()) {
    lanes[0].refused = "the recording has no marks";
  }
  return lanes;
}

void FoundLoops::Add(const Recording& recording, size_t thread, const LaneLoops& lane) {
  if (!lane.refused.empty()) refused.push_back({thread, lane.refused});
  const auto event = [&](uint32_t step) -> uint64_t {
    const Allocation& allocation = recording.allocations[lane.steps[step] & ~kStepFrees];
    return lane.steps[step] >= kStepFrees ? allocation.death : uint64_t{allocation.birth};
  };
  for (const Loop& loop : lane.loops) {
    loops.push_back({thread, event(loop.begin), event(loop.end() - 1) + 1, loop});
  }
}

void FoundLoops::Sort() {
  std::stable_sort(loops.begin(), loops.end(), [](const Found& a, const Found& b) {
    return a.loop.end() - a.loop.begin > b.loop.end() - b.loop.begin;
  });
}

ShortLane Shorten(const LaneLoops& lane, bool with_copies, std::vector<uint32_t>& stands_for) {
  ShortLane result;
  uint32_t at = 0;
  const auto keep = [&](uint32_t until) {
    for (; at < until; ++at) {
      const uint32_t allocation = lane.steps[at] & ~kStepFrees;
      if (lane.steps[at] == allocation) stands_for[allocation] = allocation;
      result.steps.push_back(stands_for[allocation] | (lane.steps[at] & kStepFrees));
    }
  };
  for (const Loop& loop : lane.loops) {
    keep(loop.begin);
    const uint32_t body = with_copies ? loop.body() : loop.period();
    const auto begin = static_cast<uint32_t>(result.steps.size());
    keep(loop.begin + body);
    result.bodies.push_back({begin, begin + body, loop});
    for (; at < loop.end(); ++at) {
      if (lane.steps[at] >= kStepFrees) continue;
      stands_for[lane.steps[at]] = stands_for[lane.steps[at - body]];
    }
  }
  keep(static_cast<uint32_t>(lane.steps.size()));
  return result;
}

}  // namespace reprise::replay
