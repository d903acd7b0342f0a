#include "replay/plan/plan_verifier.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/range_set.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kMostUsable = uint64_t{1} << 36;
constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
// Steps of the stream.
constexpr uint32_t kFarLength = 3;
constexpr uint32_t kDrainLength = 2;
constexpr uint32_t kIdleLength = 3;
constexpr uint32_t kUsedLength = 2;

struct PlannedBlock {
  uint32_t key;
  uint32_t offset;  // granules
  uint32_t words;
};

// What lives at the beginning of a loop's body, compared with what lives now: where a block begins,
// and how many bytes of it are usable.
class LoopComparison {
 public:
  void Begin() {
    before_.clear();
    differences_ = 0;
  }
  // At an offset a block of `usable` bytes begins to live, or with 0 none lives any more.
  void Set(uint64_t offset, uint64_t usable) {
    uint64_t& now = usable_[offset];
    const auto [before, fresh] = before_.try_emplace(offset, now);
    differences_ -= now != before->second ? 1 : 0;
    now = usable;
    differences_ += now != before->second ? 1 : 0;
  }
  bool IsAsBefore() const { return differences_ == 0; }
  void Clear() {
    usable_.clear();
    Begin();
  }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> usable_;  // now, by offset; 0: no block
  absl::flat_hash_map<uint64_t, uint64_t> before_;  // of offsets that changed since Begin
  uint64_t differences_ = 0;
};

class Verifier {
 public:
  Verifier(const PlanFile& plan, const std::string& path)
      : header_(plan.header()),
        path_(path),
        keys_(Table<PlanKey>(plan, header_.keys)),
        lanes_(Table<PlanLane>(plan, header_.lanes)),
        all_loops_(Table<PlanLoop>(plan, header_.loops)),
        all_words_(Table<uint32_t>(plan, header_.words)) {}

  absl::Status Run() {
    if (header_.arena_bytes > kMostArenaBytes) {
      return Wrong(absl::StrCat("expected an arena of at most 128 GiB, found ", header_.arena_bytes,
                                " bytes"));
    }
    if (absl::Status status = VerifyKeys(); !status.ok()) return status;
    uint64_t most_granules = 0;
    for (const PlanLane& lane : lanes_) {
      most_granules = std::max(most_granules, lane.box_bytes / kGranule);
    }
    if (most_granules > kMostLaneGranules) return Wrong("expected boxes of less than 32 GiB");
    absl::StatusOr<RangeSet> live = RangeSet::Make(most_granules);
    if (!live.ok()) return absl::Status(live.status().code(), Line(live.status().message()));
    uint64_t words = 0, box_end = 0;
    for (lane_ = 0; lane_ < lanes_.size(); ++lane_) {
      const PlanLane& lane = lanes_[lane_];
      if (lane.first_word < words) {
        return Wrong("expected the words of lanes one after the other, found them mixed");
      }
      words = lane.first_word + lane.words;
      if (lane.box_offset < box_end) {
        return Wrong(absl::StrCat("lane ", lane_, ": expected its box behind those before it"));
      }
      box_end = lane.box_offset + lane.box_bytes;
      if (absl::Status status = VerifyLane(lane, *live); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  static std::span<const T> Table(const PlanFile& plan, const PlanTable& table) {
    return {plan.table<T>(table), table.count};
  }

  std::string Line(absl::string_view what) const { return absl::StrCat(path_, ": ", what); }
  absl::Status Wrong(absl::string_view what) const {
    return absl::DataLossError(Line(absl::StrCat("damaged: ", what)));
  }
  absl::Status WrongAt(absl::string_view table, uint64_t index, absl::string_view what) const {
    return Wrong(absl::StrCat("lane ", lane_, ", ", table, " ", index, ": ", what));
  }

  static uint64_t Granules(const PlanKey& key) { return (key.usable + kGranule - 1) / kGranule; }

  // Whether one at such an offset is aligned as its shape says. The arena is aligned to more.
  static bool IsAligned(const PlanLane& lane, const PlanKey& key, uint64_t granule) {
    return ((lane.box_offset / kGranule + granule) & (ShapeStep(key.shape) - 1)) == 0;
  }

  absl::Status VerifyKeys() {
    constexpr unsigned kMostLog2Alignment = 38;
    for (uint64_t index = 0; index < keys_.size(); ++index) {
      const PlanKey& key = keys_[index];
      const bool reserved = index != 0 && (index & (index + 1)) == 0;
      const bool plain = key.shape >> 63 == 0;
      const bool known = key.module == kNoModule || key.module < header_.modules.count;
      bool right = known && key.depth < kDepths;
      if (key.shape == 0) {
        right = right && key.usable == 0;
      } else {
        const uint64_t units = ShapeUnits(key.shape);
        right = right && !reserved && units > 0 && key.usable % 8 == 0 &&
                key.usable <= kMostUsable && units <= key.usable / 8 &&
                (plain ? key.shape >> 56 == 0
                       : ShapeLog2Alignment(key.shape) > 4 &&
                             ShapeLog2Alignment(key.shape) <= kMostLog2Alignment);
      }
      if (!right) {
        return Wrong(absl::StrCat("key ", index,
                                  ": expected a shape, its usable bytes and a "
                                  "module of the plan, found others"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status VerifyLane(const PlanLane& lane, RangeSet& live) {
    words_ = all_words_.subspan(lane.first_word, lane.words);
    if (lane.offset_bits == 0 || lane.offset_bits > 30 || words_.size() >= kNeverDies) {
      return Wrong(absl::StrCat("lane ", lane_, ": expected words of 31 bits, found others"));
    }
    if (lane.box_bytes == 0) return VerifyWithoutBox(lane);
    loops_ = all_loops_.subspan(lane.first_loop, lane.loops);
    next_boundary_ = 0;
    comparison_.Clear();
    return VerifyStream(lane, live);
  }

  // One that is only to be known by its first allocation.
  absl::Status VerifyWithoutBox(const PlanLane& lane) const {
    const std::optional<PlannedBlock> first = AllocationAt(lane, 0);
    if (!first || first->offset != 0 || lane.blocks != 0 || lane.loops != 0 ||
        words_.size() != first->words + 1 || words_.back() != kEnd) {
      return Wrong(absl::StrCat("lane ", lane_,
                                ": expected an allocation and the end, as it has no "
                                "box, found others"));
    }
    return absl::OkStatus();
  }

  bool IsInLoop(uint64_t at) const { return !loops_.empty() && at >= loops_[0].first_word; }

  // Before each step of a lane with loops: periods begin with whole steps, repeat the words of the
  // first one, and leave what lives as it was.
  absl::Status VerifyLoop(uint64_t at) {
    if (!IsInLoop(at)) return absl::OkStatus();
    const PlanLoop& loop = loops_[0];
    const uint64_t end = uint64_t{loop.first_word} + loop.words;
    if (at == loop.first_word) {
      comparison_.Begin();
      loop_blocks_ = 0;
      next_boundary_ = at;
      const std::span<const uint32_t> body = words_.subspan(at, loop.words);
      const uint64_t copied = loop.words - loop.period_words;
      if (!std::equal(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(copied),
                      body.begin() + loop.period_words)) {
        return WrongAt("word", at, "expected a loop whose periods are the same, found others");
      }
    }
    if (at < next_boundary_) return absl::OkStatus();
    if (at != next_boundary_ || !comparison_.IsAsBefore()) {
      return WrongAt("word", at, "expected the same live blocks in each pass of a loop");
    }
    next_boundary_ += loop.period_words;
    const uint64_t periods = loop.words / loop.period_words;
    if (at == end && (loop_blocks_ != loop.blocks || loop.blocks == 0 || loop.iterations == 0 ||
                      loop.iterations % periods != 0)) {
      return WrongAt("word", at,
                     absl::StrCat("expected a loop with ", base::Counted(loop.blocks, "block"),
                                  ", found ", loop_blocks_));
    }
    return absl::OkStatus();
  }

  // A block begins to live or, of 0 bytes, lives no longer.
  void Note(const PlanLane& lane, uint64_t offset, uint64_t usable) {
    if (lane.loops == 0) return;
    comparison_.Set(offset, usable);
    loop_blocks_ += usable != 0 ? 1 : 0;
  }

  // Reads the allocation at a word. Nothing: no lane can have such a one.
  std::optional<PlannedBlock> AllocationAt(const PlanLane& lane, uint64_t index) const {
    const uint32_t* at = words_.data() + index;  // behind the words of a lane there are others
    if ((at[0] & kFreeBit) != 0) return std::nullopt;
    const uint32_t code = at[0] >> lane.offset_bits;
    const uint32_t low = at[0] & ((uint32_t{1} << lane.offset_bits) - 1);
    const bool far = code == (kFreeBit - 1) >> lane.offset_bits;
    const PlannedBlock found =
        far ? PlannedBlock{at[1], at[2], low == kTold ? kToldLength : kFarLength}
            : PlannedBlock{code, low, 1};
    if (found.key >= keys_.size() || (far && low > kTold)) return std::nullopt;
    const PlanKey& key = keys_[found.key];
    const bool told = found.words == kToldLength;
    if (key.shape == 0 || told != IsTold(found.key, key)) return std::nullopt;
    if (told && (at[3] != key.shape || at[4] != key.site_offset ||
                 at[5] != (key.module << kDepthBits | key.depth))) {
      return std::nullopt;
    }
    const uint64_t granules = lane.box_bytes / kGranule;
    if (granules == 0) return found;
    const bool lies_in = found.offset <= granules && Granules(key) <= granules - found.offset;
    return lies_in && IsAligned(lane, key, found.offset) ? std::optional(found) : std::nullopt;
  }

  // From step to step: what is live where.
  absl::Status VerifyStream(const PlanLane& lane, RangeSet& live) {
    const uint64_t last = words_.size() - 1;
    const uint64_t pages = lane.box_bytes / kBoxAlignment;
    const uint64_t granules = lane.box_bytes / kGranule;
    uint64_t blocks = 0, used = 0;
    for (uint64_t at = 0; at < last;) {
      const uint32_t* word = words_.data() + at;
      uint32_t step = 1;
      if (absl::Status status = VerifyLoop(at); !status.ok()) return status;
      if ((*word & kFreeBit) == 0) {
        const std::optional<PlannedBlock> block = AllocationAt(lane, at);
        if (!block) return WrongAt("word", at, "expected a key and a place in the box for it");
        if (!live.Add(block->offset, block->offset + Granules(keys_[block->key]))) {
          return WrongAt("word", at, "expected a free place, found one where a block is live");
        }
        Note(lane, block->offset, keys_[block->key].usable);
        ++blocks;
        step = block->words;
      } else if (*word < kSpecial || *word == kDrain) {
        const bool drains = *word >= kSpecial;
        step = drains ? kDrainLength : 1;
        const uint64_t offset = drains ? word[1] : *word & ~kFreeBit;
        if (offset >= granules || !live.BeginsAt(offset)) {
          return WrongAt("word", at, "expected the free of a live block, found another");
        }
        live.Remove(offset, live.EndOf(offset));
        Note(lane, offset, 0);
      } else if (*word == kIdle) {
        step = kIdleLength;
        const uint64_t first = word[1], count = word[2];
        if (first > pages || count > pages - first || count == 0 ||
            !live.IsFree(first * kPageGranules, (first + count) * kPageGranules)) {
          return WrongAt("word", at, "expected idle pages, found pages with live blocks");
        }
      } else if (*word == kUsed) {
        step = kUsedLength;
        if (word[1] > pages || word[1] < used || IsInLoop(at)) {
          return WrongAt("word", at, "expected more pages that are used, found fewer");
        }
        used = word[1];
      } else if (*word == kLoop) {
        if (!IsInLoop(at) || at != uint64_t{loops_[0].first_word} + loops_[0].words) {
          return WrongAt("word", at, "expected a step, found the end of a loop that is none");
        }
        loops_ = loops_.subspan(1);
        next_boundary_ = 0;
      } else if (*word != kTurn) {
        return WrongAt("word", at, absl::StrCat("expected a step, found ", *word));
      }
      at += step;
      if (at > last) return WrongAt("word", at, "expected the end behind a whole step");
    }
    if (!loops_.empty()) return WrongAt("word", last, "expected the end of a loop");
    if (words_[last] != kEnd) return WrongAt("word", last, "expected the end");
    if (blocks != lane.blocks) {
      return Wrong(absl::StrCat("lane ", lane_, ": expected ", base::Counted(lane.blocks, "block"),
                                ", found ", blocks));
    }
    live.Clear();
    return absl::OkStatus();
  }

  const PlanHeader& header_;
  const std::string& path_;
  const std::span<const PlanKey> keys_;
  const std::span<const PlanLane> lanes_;
  const std::span<const PlanLoop> all_loops_;
  const std::span<const uint32_t> all_words_;
  // Of the lane that is verified.
  uint64_t lane_ = 0;
  std::span<const uint32_t> words_;
  std::span<const PlanLoop> loops_;  // that are not passed
  LoopComparison comparison_;
  uint64_t loop_blocks_ = 0;    // allocations so far in the loop
  uint64_t next_boundary_ = 0;  // where the loop's next period begins
};

}  // namespace

absl::Status VerifyPlan(const PlanFile& plan, const std::string& path) {
  return Verifier(plan, path).Run();
}

}  // namespace reprise::replay
