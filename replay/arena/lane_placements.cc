// Finding blocks in the plan's table of placements, and how long they are: for a lane that does not
// do as planned, or whose program asks.
#include <sched.h>
#include <stdint.h>

#include <optional>

#include "base/give_back.h"
#include "replay/arena/drop_behind.h"
#include "replay/arena/lane.h"

namespace reprise::replay {

// The block that the plan placed last at `granule`, alive or not. The samples leave one stretch of
// the file, which the system maps at once.
std::optional<PlanBlock> Lane::PlannedAt(uint64_t granule) const {
  const auto now = static_cast<uint32_t>(cursor_.Seen() - first_word_);
  if (granule >= box_granules_) return std::nullopt;
  const auto comes_before = [granule, now](uint32_t offset, uint32_t birth) {
    return offset < granule || (offset == granule && birth < now);
  };
  uint64_t sample = 0;
  for (uint64_t limit = Samples(*lane_); sample < limit;) {
    const uint64_t middle = (sample + limit) / 2;
    if (comes_before(samples_[middle].offset, samples_[middle].birth)) {
      sample = middle + 1;
    } else {
      limit = middle;
    }
  }
  // The next look is often close to this one; what the one before has brought goes if it was not.
  if (LookedAt() != sample) LookElsewhere(sample);
  // Between that sample and the one before.
  uint64_t high = sample * kSampled + BeforeFirstSample(*lane_);
  uint64_t low = sample == 0 ? 0 : high - kSampled;
  if (high > lane_->placements) high = lane_->placements;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (comes_before(placements_[middle].offset, placements_[middle].birth)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::optional<PlanBlock> found;
  if (low != 0 && placements_[low - 1].offset == granule) found = placements_[low - 1];
  return found;
}

// Whether the plan has a block at `granule` that is live at the cursor: then the next word that
// names the place is its free, which is rarely far. To look the block up takes as long as to read
// some thousand words. Of those that may name the place, only frees have their highest bit set, and
// only the free by another thread stands behind a kDrain.
bool Lane::IsPlannedLive(uint64_t granule) {
  if (IsNoted(granule)) return true;
  const auto free = static_cast<uint32_t>(granule | kFreeBit);
  const uint32_t* begin = cursor_.Seen();
  const uint32_t* limit = end_word_ - begin < kFreeAhead ? end_word_ : begin + kFreeAhead;
  const uint32_t* at = begin;
  while (at < limit && ((*at ^ free) & offset_mask_) != 0) ++at;
  if (at < limit && (*at == free || (at > begin && IsDrain(at[-1]) && *at == granule))) return true;
  ++far_frees_;
  ConsiderNoting();
  const std::optional<PlanBlock> placement = PlannedAt(granule);
  return placement && placement->death >= cursor_.Seen() - first_word_;
}

// The key of the block at `granule` that is planned live, if its allocation is among the latest
// words, as it mostly is where a lane jumps ahead.
std::optional<uint32_t> Lane::LatestKey(uint64_t granule) const {
  const uint32_t* here = cursor_.Seen();
  const uint32_t* at = here - first_word_ > kBehind ? here - kBehind : first_word_;
  // A step begins at the lane's first word, and where a word has the highest bit.
  while (at != first_word_ && at < here && (*at & kFreeBit) == 0) ++at;
  std::optional<uint32_t> key;
  while (at < here) {
    const Word word = Decode(at);
    if (word.kind == Word::kAllocation && word.granule == granule) key = word.key;
    at += word.length;
  }
  return key;
}

// From now on at another stretch of the placements, or at none.
void Lane::LookElsewhere(uint64_t sample) const {
  const uint64_t before = __atomic_exchange_n(&looked_at_, sample, __ATOMIC_RELAXED);
  if (before == kNoSample) return;
  const PlanBlock* stretch = placements_ + BeforeFirstSample(*lane_) + before * kSampled;
  DropAround(before == 0 ? placements_ : stretch - kSampled, stretch, placements_);
}

// Gives back what a look at [begin, end) has brought of the file: its stretch, or, where the page
// cache holds the file in longer pieces, what Linux 6.18 maps of those. Nothing before the table's
// own stretches: the words there may be in use.
void Lane::DropAround(const void* begin, const void* end, const void* table) const {
  constexpr uint64_t kLongest = 2 << 20;
  const auto file = reinterpret_cast<uint64_t>(plan_);
  const uint64_t before = (reinterpret_cast<uint64_t>(begin) - file) & ~(kLongest - 1);
  const uint64_t behind = (reinterpret_cast<uint64_t>(end) - file + kLongest - 1) & ~(kLongest - 1);
  const uint64_t own = ((reinterpret_cast<uint64_t>(table) & ~(kPlanStretch - 1))) - file;
  const uint64_t least =
      static_cast<int64_t>(own) > static_cast<int64_t>(kPlanFirst) ? own : kPlanFirst;
  const uint64_t from = before > least ? before : least;
  const uint64_t to = behind < plan_->file_bytes ? behind : plan_->file_bytes;
  if (from < to) GiveBack(reinterpret_cast<const void*>(file + from), to - from);
}

// Begins with notes where they would have told enough. Frees in another order come by the hundred
// when a program starts, and then never again.
void Lane::ConsiderNoting() {
  if (noting_ != 0 || running_free_) return;
  if (asked_ < kAsksBeforeNoting && far_frees_ < kFarFreesBeforeNoting) return;
  if ((asked_ + far_frees_) * kWordsPerAsk >= cursor_ - first_word_) BeginNoting();
}

void Lane::BeginNoting() {
  const uint64_t keys = plan_->keys.count;
  const DropBehind drop(live_keys_.plan_keys, keys * sizeof(PlanKey));
  notes_of_blocks_.Start(live_keys_.plan_keys, keys, [&drop](const PlanKey* key) { drop.At(key); });
  ++calm_;
  SetCare(care_ + 1);
  SetNoting(true);
}

void Lane::SetNoting(bool noting) {
  __atomic_store_n(&noting_, noting ? 1 : 0, __ATOMIC_RELEASE);
  SetEarlyCount(early_count_);
}

uint64_t Lane::Usable(const void* pointer) { return Asked(pointer, /*exactly=*/true); }
uint64_t Lane::BytesToCopy(const void* pointer) { return Asked(pointer, /*exactly=*/false); }
uint64_t Lane::UsableIfQuiet(const void* pointer) const { return Look(pointer, /*exactly=*/true); }

uint64_t Lane::Asked(const void* pointer, bool exactly) {
  if (Contains(pointer) && !late_.BeginsAt(GranuleOf(pointer))) {
    ++asked_;
    ConsiderNoting();
  }
  return Look(pointer, exactly);
}

// How many bytes a block has: where it is neither late nor noted exactly only if that is asked for,
// because it takes another look into the plan.
uint64_t Lane::Look(const void* pointer, bool exactly) const {
  if (!IsAGranule(pointer)) return 0;
  const uint64_t granule = GranuleOf(pointer);
  const auto now = static_cast<uint64_t>(cursor_.Seen() - first_word_);
  // Of the place freed last, too: whether it is free only the owner knows.
  const uint64_t granules = late_.LengthAt(granule, Granules());
  if (granules != 0) return granules * kGranule;
  if (running_free_.Seen() || !Contains(pointer) || early_.Has(granule)) return 0;
  if (__atomic_load_n(&noting_, __ATOMIC_ACQUIRE) != 0) {
    const uint64_t noted = notes_of_blocks_.UsableAt(granule);
    if (noted != 0) return noted;
  }
  const std::optional<PlanBlock> placement = PlannedAt(granule);
  if (!placement || placement->death < now) return 0;
  if (!exactly) return live_keys_.Granules(placement->key) * kGranule;
  LookElsewhere(kNoSample);
  const PlanKey* key = &live_keys_.plan_keys[placement->key];
  const uint64_t usable = key->usable;
  DropAround(key, key + 1, live_keys_.plan_keys);
  return usable;
}

// While no block becomes late, a block that is not late is the one that the plan has at its place,
// wherever the cursor goes; and a late one stays as it is.
uint64_t Lane::UsableRemotely(const void* pointer) const {
  for (;;) {
    const uint32_t before = __atomic_load_n(&late_changes_, __ATOMIC_ACQUIRE);
    const uint64_t usable = UsableIfQuiet(pointer);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (before % 2 == 0 && __atomic_load_n(&late_changes_, __ATOMIC_RELAXED) == before) {
      return usable;
    }
    sched_yield();
  }
}

}  // namespace reprise::replay
