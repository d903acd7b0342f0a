#include "replay/plan/plan_verifier.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "replay/plan/plan_format.h"
#include "replay/plan/range_set.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kMostArenaBytes = uint64_t{256} << 30;
constexpr uint64_t kMostUsable = uint64_t{1} << 36;
constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
// What a box that moves is aligned to at least; above, its rings say how much it must be.
constexpr uint64_t kMovedAlignment = (uint64_t{2} << 20) / kGranule;
// Steps of the stream.
constexpr uint32_t kFarLength = 3;
constexpr uint32_t kDrainLength = 2;
constexpr uint32_t kIdleLength = 3;

struct Allocation {
  uint32_t key;
  uint32_t offset;  // granules
  uint32_t words;
};

// Of a set of numbers, whatever their order.
struct Sum {
  uint64_t count = 0, sum = 0;
  void Add(uint64_t number) {
    ++count;
    sum += number;
  }
  bool operator==(const Sum&) const = default;
};

class Verifier {
 public:
  Verifier(const PlanFile& plan, const std::string& path)
      : header_(plan.header()),
        path_(path),
        keys_(Table<PlanKey>(plan, header_.keys)),
        lanes_(Table<PlanLane>(plan, header_.lanes)),
        all_words_(Table<uint32_t>(plan, header_.words)),
        all_placements_(Table<PlanBlock>(plan, header_.placements)),
        samples_(Table<PlanSample>(plan, header_.samples)),
        all_rings_(Table<PlanRing>(plan, header_.rings)),
        slots_(Table<uint32_t>(plan, header_.slots)) {}

  absl::Status Run() {
    if (header_.arena_bytes > kMostArenaBytes) {
      return Wrong(absl::StrCat("expected an arena of at most 256 GiB, found ", header_.arena_bytes,
                                " bytes"));
    }
    if (getrandom(secret_, sizeof(secret_), 0) != sizeof(secret_)) {
      return absl::UnavailableError(Line("the system gives no random numbers"));
    }
    if (absl::Status status = VerifyKeys(); !status.ok()) return status;
    if (absl::Status status = VerifySamples(); !status.ok()) return status;
    uint64_t most_granules = 0;
    for (const PlanLane& lane : lanes_) {
      most_granules = std::max(most_granules, lane.box_bytes / kGranule);
    }
    if (most_granules > kMostLaneGranules) return Wrong("expected boxes of less than 32 GiB");
    absl::StatusOr<RangeSet> live = RangeSet::Make(most_granules);
    if (!live.ok()) return absl::Status(live.status().code(), Line(live.status().message()));
    uint64_t words = 0, placements = 0, rings = 0, slots = 0;
    for (lane_ = 0; lane_ < lanes_.size(); ++lane_) {
      const PlanLane& lane = lanes_[lane_];
      if (lane.first_word < words || lane.first_placement != placements ||
          lane.first_ring != rings) {
        return Wrong("expected the parts of lanes one after the other, found them mixed");
      }
      words = lane.first_word + lane.words;
      placements += lane.placements;
      rings += lane.rings;
      if (absl::Status status = VerifyLane(lane, *live, &slots); !status.ok()) return status;
    }
    if (placements != all_placements_.size() || rings != all_rings_.size() ||
        slots != slots_.size()) {
      return Wrong("expected a lane for each placement and ring, found more of them");
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

  absl::Status VerifySamples() {
    const uint64_t expected = (all_placements_.size() + kSampled - 1) / kSampled;
    bool right = samples_.size() == expected;
    for (uint64_t i = 0; right && i < expected; ++i) {
      const PlanBlock& block = all_placements_[i * kSampled];
      right = samples_[i].offset == block.offset && samples_[i].birth == block.birth;
    }
    return right ? absl::OkStatus() : Wrong("expected samples of the placements, found others");
  }

  absl::Status VerifyLane(const PlanLane& lane, RangeSet& live, uint64_t* slots) {
    words_ = all_words_.subspan(lane.first_word, lane.words);
    placements_ = all_placements_.subspan(lane.first_placement, lane.placements);
    if (lane.offset_bits == 0 || lane.offset_bits > 30 || lane.fetched > 3 ||
        words_.size() >= kNeverDies) {
      return Wrong(absl::StrCat("lane ", lane_, ": expected words of 31 bits, found others"));
    }
    births_ = deaths_ = {};
    if (absl::Status status = VerifyRings(lane, slots); !status.ok()) return status;
    if (absl::Status status = VerifyStream(lane, live); !status.ok()) return status;
    if (absl::Status status = VerifyPlacements(); !status.ok()) return status;
    for (const PlanBlock& block : placements_) {
      if (block.death == kNeverDies) live.Remove(block.offset, live.EndOf(block.offset));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyRings(const PlanLane& lane, uint64_t* slots) {
    const auto rings = all_rings_.subspan(lane.first_ring, lane.rings);
    const uint64_t granules = lane.box_bytes / kGranule;
    most_step_ = kMovedAlignment;
    for (uint64_t i = 0; i < rings.size(); ++i) {
      const PlanRing& ring = rings[i];
      const PlanKey& key = keys_[ring.key];
      if (key.shape == 0 || ring.first_slot != *slots || (i > 0 && rings[i - 1].key >= ring.key)) {
        return WrongAt("ring", i, "expected rings sorted by key, found others");
      }
      *slots += ring.count;
      most_step_ = std::max(most_step_, ShapeStep(key.shape));
      for (uint64_t k = ring.first_slot; k < *slots; ++k) {
        const uint64_t slot = slots_[k];
        const bool ascends = k == ring.first_slot || slots_[k - 1] < slot;
        // That it is long enough the lane finds out: blocks of one kind may differ in length.
        if (!ascends || slot >= granules || !IsAligned(lane, key, slot)) {
          return WrongAt("ring", i, absl::StrCat("expected places in the box, found ", slot));
        }
      }
    }
    return absl::OkStatus();
  }

  // Reads the allocation at a word. Nothing: no lane can have such a one.
  std::optional<Allocation> AllocationAt(const PlanLane& lane, uint64_t index) const {
    const uint32_t* at = words_.data() + index;  // behind the words of a lane there are others
    const uint32_t code = at[0] >> lane.offset_bits;
    const uint32_t low = at[0] & ((uint32_t{1} << lane.offset_bits) - 1);
    const bool far = code == (kFreeBit - 1) >> lane.offset_bits;
    const Allocation found = far ? Allocation{at[1], at[2], low == kTold ? kToldLength : kFarLength}
                                 : Allocation{code, low, 1};
    if (found.key >= keys_.size() || (far && low > kTold)) return std::nullopt;
    const PlanKey& key = keys_[found.key];
    const bool told = found.words == kToldLength;
    if (key.shape == 0 || told != IsTold(found.key, key)) return std::nullopt;
    if (told && (at[3] != key.shape || at[4] != key.site_offset ||
                 at[5] != (key.module << kDepthBits | key.depth))) {
      return std::nullopt;
    }
    const uint64_t granules = lane.box_bytes / kGranule;
    const bool lies_in = found.offset <= granules && Granules(key) <= granules - found.offset;
    const bool aligned = IsAligned(lane, key, found.offset) && ShapeStep(key.shape) <= most_step_;
    return lies_in && aligned ? std::optional(found) : std::nullopt;
  }

  // From step to step: what is live where. Which placements they must be is summed up.
  absl::Status VerifyStream(const PlanLane& lane, RangeSet& live) {
    const uint64_t last = words_.size() - 1;
    const uint64_t pages = lane.box_bytes / kBoxAlignment;
    const uint64_t granules = lane.box_bytes / kGranule;
    for (uint64_t at = 0; at < last;) {
      const uint32_t* word = words_.data() + at;
      uint32_t step = 1;
      if ((*word & kFreeBit) == 0) {
        const std::optional<Allocation> block = AllocationAt(lane, at);
        if (!block) return WrongAt("word", at, "expected a key and a place in the box for it");
        if (!live.Add(block->offset, block->offset + Granules(keys_[block->key]))) {
          return WrongAt("word", at, "expected a free place, found one where a block is live");
        }
        births_.Add(Mix(block->offset, at, block->key));
        step = block->words;
      } else if (*word < kSpecial || IsDrain(*word)) {
        const bool drains = *word >= kSpecial;
        step = drains ? kDrainLength : 1;
        const uint64_t offset = drains ? word[1] : *word & ~kFreeBit;
        const uint64_t end = offset < granules ? live.EndOf(offset) : 0;
        const uint64_t length = end - offset;
        if (end == 0 || (drains && *word - kDrain != (length <= kMostToldByDrain ? length : 0))) {
          return WrongAt("word", at, "expected the free of a live block, found another");
        }
        live.Remove(offset, end);
        deaths_.Add(Mix(offset, at, kNeverDies));
      } else if (*word == kIdle) {
        step = kIdleLength;
        const uint64_t first = word[1], count = word[2];
        if (first > pages || count > pages - first || count == 0 ||
            !live.IsFree(first * kPageGranules, (first + count) * kPageGranules)) {
          return WrongAt("word", at, "expected idle pages, found pages with live blocks");
        }
      } else if (*word != kTurn) {
        return WrongAt("word", at, absl::StrCat("expected a step, found ", *word));
      }
      at += step;
      if (at > last) return WrongAt("word", at, "expected the end behind a whole step");
    }
    return words_[last] == kEnd ? absl::OkStatus() : WrongAt("word", last, "expected the end");
  }

  // That the placements are the stream's blocks. At one offset births and deaths take turns, so two
  // sums tell: of what is born where and when, with which key, and of what dies where and when.
  // Until they are known to be right a free may have named what was no block.
  absl::Status VerifyPlacements() {
    Sum births, deaths;
    const PlanBlock* before = nullptr;
    for (const PlanBlock& block : placements_) {
      const bool sorted = before == nullptr || before->offset < block.offset ||
                          (before->offset == block.offset && before->death < block.birth);
      if (!sorted || block.birth >= block.death) {
        return WrongAt("placement", static_cast<uint64_t>(&block - placements_.data()),
                       "expected them sorted by offset and birth, one at a time");
      }
      births.Add(Mix(block.offset, block.birth, block.key));
      if (block.death != kNeverDies) deaths.Add(Mix(block.offset, block.death, kNeverDies));
      before = &block;
    }
    if (births == births_ && deaths == deaths_) return absl::OkStatus();
    return Wrong(absl::StrCat("lane ", lane_,
                              ": expected a placement for each block of the stream, "
                              "found others"));
  }

  // A number that nobody can foresee who does not know the secret.
  uint64_t Mix(uint64_t offset, uint64_t word, uint64_t key) const {
    const auto scatter = [](uint64_t x) {
      x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
      x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
      return x ^ x >> 33;
    };
    return scatter(scatter((offset << 32 | word) ^ secret_[0]) + (key ^ secret_[1]));
  }

  const PlanHeader& header_;
  const std::string& path_;
  const std::span<const PlanKey> keys_;
  const std::span<const PlanLane> lanes_;
  const std::span<const uint32_t> all_words_;
  const std::span<const PlanBlock> all_placements_;
  const std::span<const PlanSample> samples_;
  const std::span<const PlanRing> all_rings_;
  const std::span<const uint32_t> slots_;
  // Of the lane that is verified.
  uint64_t lane_ = 0;
  std::span<const uint32_t> words_;
  std::span<const PlanBlock> placements_;
  uint64_t most_step_ = 0;  // granules that its box is a multiple of wherever it moves
  Sum births_, deaths_;
  uint64_t secret_[2] = {};
};

}  // namespace

absl::Status VerifyPlan(const PlanFile& plan, const std::string& path) {
  return Verifier(plan, path).Run();
}

}  // namespace reprise::replay
