#include "replay/plan/prefetch_hints.h"

#include <algorithm>

#include "replay/plan/stream.h"

namespace reprise::replay {
namespace {

constexpr uint64_t kLineGranules = 64 / kGranule;
constexpr uint64_t kSampledLines = 16;
constexpr uint64_t kLeastBox = 1 << 20;     // bytes; in a smaller one all is at hand
constexpr uint64_t kFarBytes = 512 << 10;   // touched since
constexpr uint64_t kMostTouched = 4 << 10;  // bytes of one block
constexpr uint32_t kFarKey = 1024;          // allocations since
constexpr uint64_t kBlocksShare = 4;
constexpr uint64_t kKeysShare = 16;

}  // namespace

uint16_t FetchedAhead(std::span<const uint32_t> words, uint32_t offset_bits,
                      const std::vector<PlanKey>& keys, uint64_t box_bytes) {
  if (box_bytes < kLeastBox) return 0;
  constexpr uint64_t kSampledGranules = kLineGranules * kSampledLines;
  // Per line that is looked at: the KiB that were touched before it was, and one; 0: it never was.
  std::vector<uint32_t> touched_at(box_bytes / kGranule / kSampledGranules + 1, 0);
  std::vector<uint32_t> used_at(keys.size(), 0);  // per key, the number of the allocation
  uint64_t touched = 0;                           // bytes
  uint64_t looked_at = 0;
  uint64_t far_blocks = 0;
  uint32_t allocations = kFarKey;
  uint64_t far_keys = 0;
  const auto touch = [&](uint64_t granule, uint64_t bytes) {
    const auto now = static_cast<uint32_t>(touched / 1024 + 1);
    const uint64_t end = granule + (bytes + kGranule - 1) / kGranule;
    if (granule % kSampledGranules < kLineGranules) {
      const uint32_t before = touched_at[granule / kSampledGranules];
      ++looked_at;
      far_blocks += before != 0 && now - before >= kFarBytes / 1024 ? 1 : 0;
    }
    for (uint64_t line = granule / kSampledGranules; line * kSampledGranules < end; ++line) {
      if ((line * kSampledGranules) + kLineGranules > granule) touched_at[line] = now;
    }
    touched += std::max<uint64_t>(bytes, 64);
  };
  for (const uint32_t* at = words.data();;) {
    const Word word = DecodeWord(at, offset_bits);
    if (word.kind == Word::kEnded) break;
    if (word.kind == Word::kAllocation) {
      touch(word.granule, std::min(keys[word.key].usable, kMostTouched));
      far_keys += ++allocations - used_at[word.key] > kFarKey ? 1 : 0;
      used_at[word.key] = allocations;
    } else if (word.kind == Word::kFree) {
      touch(word.granule, kGranule);
    }
    at += word.length;
  }
  const bool blocks = far_blocks * kBlocksShare >= looked_at && far_blocks > 0;
  const bool all_keys = far_keys * kKeysShare >= allocations - kFarKey && far_keys > 0;
  return static_cast<uint16_t>((blocks ? kFetchBlocks : 0) | (all_keys ? kFetchKeys : 0));
}

}  // namespace reprise::replay
