#include "replay/plan/lane_encoder.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "replay/plan/idle_pages.h"

namespace reprise::replay {
namespace {

constexpr int kWordBits = 31;  // of an allocation word, its leading zero aside

}  // namespace

using trace::Recording;

void LaneEncoder::Measure(uint32_t allocation) {
  if (!HasRoom(allocations_)) return;
  ++allocations_;
  if (IsTold(keys_.of[allocation])) {
    ++told_;
    return;
  }
  const int offset_bits = std::bit_width(Granule(allocation));
  // A code of k bits holds keys below 2^k - 1.
  const int key_bits = std::bit_width(uint64_t{keys_.of[allocation]} + 1);
  ++sizes_[offset_bits * kMostBits + key_bits];
}

void LaneEncoder::ChooseSplit() {
  const int most_key_bits = std::bit_width(keys_.keys.size() - 1);
  uint64_t best = UINT64_MAX;
  for (int bits = kWordBits - most_key_bits; bits < kWordBits; ++bits) {
    uint64_t far = 0;
    for (const auto& [size, count] : sizes_) {
      if (size / kMostBits > bits || size % kMostBits > kWordBits - bits) far += count;
    }
    if (far < best) {
      best = far;
      offset_bits_ = bits;
    }
  }
  placements_.reserve(allocations_);
  words_.reserve(2 * allocations_ + 2 * best + (kToldLength - 1) * told_ + 16);
}

void LaneEncoder::Allocate(uint32_t allocation) {
  if (!HasRoom(placements_.size())) return;
  Turn();
  const uint64_t granule = Granule(allocation);
  const uint32_t key = keys_.of[allocation];
  Use(granule, BlockGranules(keys_.keys[key]));
  const uint32_t far_code = (1u << (kWordBits - offset_bits_)) - 1;
  const auto birth = static_cast<uint32_t>(words_.size());
  if (IsTold(key)) {
    Tell(far_code << offset_bits_ | kTold, key, static_cast<uint32_t>(granule));
  } else if (granule >> offset_bits_ == 0 && key < far_code) {
    words_.push_back(key << offset_bits_ | static_cast<uint32_t>(granule));
  } else {
    words_.push_back(far_code << offset_bits_);
    words_.push_back(key);
    words_.push_back(static_cast<uint32_t>(granule));
  }
  keys_.of[allocation] = static_cast<uint32_t>(placements_.size());
  placements_.push_back({static_cast<uint32_t>(granule), birth, kNeverDies, key});
}

void LaneEncoder::Free(uint32_t allocation) {
  if (lane_.box_bytes == 0) return;
  Turn();
  const bool own = lane_.thread == trace::kNone ||
                   recording_.allocations[allocation].free_thread == lane_.thread;
  PlanBlock& placement = placements_[keys_.of[allocation]];
  placement.death = static_cast<uint32_t>(words_.size());
  const uint32_t granule = placement.offset;
  if (own) {
    words_.push_back(kFreeBit | granule);
  } else {
    words_.push_back(kDrain);
    words_.push_back(granule);
  }
}

void LaneEncoder::BeginLoop(std::span<const uint32_t> steps) {
  for (const uint32_t step : steps) {
    if ((step & kStepFrees) != 0) continue;
    Use(Granule(step), BlockGranules(keys_.keys[keys_.of[step]]));
  }
  TellIdlePages(steps);
  // Copies of a short body are to have the same words.
  has_turns_ = steps.size() >= kTurnWords / 4;
  PlanLoop loop{};
  loop.first_word = static_cast<uint32_t>(words_.size());
  loop.blocks = static_cast<uint32_t>(placements_.size());
  loops_.push_back(loop);
}

void LaneEncoder::EndLoop(const Loop& found) {
  PlanLoop& loop = loops_.back();
  loop.words = static_cast<uint32_t>(words_.size()) - loop.first_word;
  loop.period_words = loop.words / found.copies;
  loop.iterations = found.unrolled * found.copies;
  loop.blocks = static_cast<uint32_t>(placements_.size()) - loop.blocks;
  loop.passes = found.passes;
  loop.carried = found.carried;
  loop.carried_bytes = found.carried_bytes;
  words_.push_back(kLoop);
  has_turns_ = true;
}

void LaneEncoder::WillFree(uint32_t allocation) const {
  const uint32_t placement = keys_.of[allocation];
  if (placement < placements_.size()) __builtin_prefetch(&placements_[placement], 1);
}

std::vector<uint32_t> LaneEncoder::TakeWords(PageWork& work) {
  words_.push_back(kEnd);
  // A lane that is not for replay has nothing to give back.
  // What a loop leaves idle comes to be used again soon.
  if (lane_.path != 0 && lane_.box_bytes > 0 && loops_.empty() && work.Take(PagesToLookAt())) {
    AddIdlePages(words_, turns_, keys_.keys, lane_.box_bytes, placements_);
  }
  std::vector<uint32_t>().swap(next_unused_);
  return std::move(words_);
}

uint64_t LaneEncoder::Granule(uint32_t allocation) const {
  if (lane_.box_bytes == 0) return 0;
  return (static_cast<uint64_t>(offsets_[allocation]) - lane_.box_offset) / kGranule;
}

uint64_t LaneEncoder::PagesToLookAt() const {
  uint64_t granules = lane_.box_bytes / kGranule;
  for (const PlanBlock& block : placements_) granules += BlockGranules(keys_.keys[block.key]);
  return granules / (kBoxAlignment / kGranule) + placements_.size();
}

void LaneEncoder::Tell(uint32_t word, uint32_t key, uint32_t granule) {
  const PlanKey& told = keys_.keys[key];
  for (const uint64_t next : {uint64_t{word}, uint64_t{key}, uint64_t{granule}, told.shape,
                              told.site_offset, uint64_t{told.module} << kDepthBits | told.depth}) {
    words_.push_back(static_cast<uint32_t>(next));
  }
}

void LaneEncoder::Turn() {
  if (words_.size() < next_turn_ || !has_turns_) return;
  turns_.push_back(static_cast<uint32_t>(words_.size()));
  words_.push_back(kTurn);
  while (next_turn_ <= words_.size()) next_turn_ += kTurnWords;
}

// Pages that are idle as long as the lane stays in a loop.
void LaneEncoder::TellIdlePages(std::span<const uint32_t> body) {
  constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
  constexpr uint64_t kFewest = 16;
  if (next_unused_.empty()) return;
  const uint64_t pages = next_unused_.size() - 1;
  std::vector<bool> busy(pages);
  const auto use = [&](uint64_t granule, uint32_t key) {
    const uint64_t last = granule + BlockGranules(keys_.keys[key]) - 1;
    for (uint64_t page = granule / kPageGranules; page <= last / kPageGranules; ++page) {
      busy[page] = true;
    }
  };
  for (const PlanBlock& block : placements_) {
    if (block.death == kNeverDies) use(block.offset, block.key);
  }
  for (const uint32_t step : body) {
    if ((step & kStepFrees) == 0) use(Granule(step), keys_.of[step]);
  }
  const auto is_idle = [&](uint64_t page) { return !busy[page] && next_unused_[page] != page; };
  for (uint64_t page = 0; page < pages; ++page) {
    const uint64_t first = page;
    while (page < pages && is_idle(page)) ++page;
    if (page - first < kFewest) continue;
    for (const uint64_t word : {uint64_t{kIdle}, first, page - first}) {
      words_.push_back(static_cast<uint32_t>(word));
    }
  }
}

// A block is born. How many pages of the box have been used is told in steps, a little ahead.
void LaneEncoder::Use(uint64_t granule, uint64_t granules) {
  constexpr uint64_t kSteps = 64;
  constexpr uint64_t kLeastStep = 4;  // pages
  constexpr uint64_t kPageGranules = kBoxAlignment / kGranule;
  if (lane_.path == 0 || lane_.box_bytes == 0) return;
  const uint64_t pages = lane_.box_bytes / kBoxAlignment;
  if (next_unused_.empty()) {
    next_unused_.resize(pages + 1);
    std::iota(next_unused_.begin(), next_unused_.end(), 0);
  }
  const uint64_t end = (granule + granules - 1) / kPageGranules + 1;
  for (uint64_t page = NextUnused(granule / kPageGranules); page < end; page = NextUnused(page)) {
    next_unused_[page] = static_cast<uint32_t>(page + 1);
    ++used_pages_;
  }
  if (used_pages_ <= told_pages_) return;
  const uint64_t step = std::max(kLeastStep, pages / kSteps);
  told_pages_ = std::min(pages, (used_pages_ + step - 1) / step * step);
  words_.push_back(kUsed);
  words_.push_back(static_cast<uint32_t>(told_pages_));
}

// The first page from this one on that was not used: links are shortened on the way.
uint64_t LaneEncoder::NextUnused(uint64_t page) {
  while (next_unused_[page] != page) {
    next_unused_[page] = next_unused_[next_unused_[page]];
    page = next_unused_[page];
  }
  return page;
}

}  // namespace reprise::replay
