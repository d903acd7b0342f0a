#include "replay/plan/range_set.h"

#include <sys/mman.h>

#include <utility>

namespace reprise::replay {

absl::StatusOr<RangeSet> RangeSet::Make(uint64_t size) {
  RangeSet set;
  uint64_t all = size / 64 + 1;  // of the beginnings
  for (uint64_t bits = size;;) {
    const uint64_t count = bits / 64 + 1;
    if (set.count_ == kMostLevels) return absl::ResourceExhaustedError("too large a range");
    set.words_[set.count_++] = count;
    all += 3 * count;
    if (count == 1) break;
    bits = count;
  }
  set.bytes_ = all * sizeof(uint64_t);
  set.memory_ = mmap(nullptr, set.bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (set.memory_ == MAP_FAILED) {
    set.memory_ = nullptr;
    return absl::ResourceExhaustedError("no memory to verify it");
  }
  auto* at = static_cast<uint64_t*>(set.memory_);
  set.begins_ = at;
  at += size / 64 + 1;
  for (int level = 0; level < set.count_; ++level) {
    const uint64_t words = set.words_[level];
    set.levels_[level] = {at, at + words, at + 2 * words};
    at += 3 * words;
  }
  return set;
}

RangeSet::RangeSet(RangeSet&& other) noexcept
    : begins_(other.begins_),
      count_(other.count_),
      wide_(other.wide_),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_) {
  for (int level = 0; level < kMostLevels; ++level) {
    levels_[level] = other.levels_[level];
    words_[level] = other.words_[level];
  }
}

void RangeSet::Clear() {
  madvise(memory_, bytes_, MADV_DONTNEED);
  wide_ = 0;
}

RangeSet::~RangeSet() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace reprise::replay
