#include "replay/plan/block_bytes.h"

#include <algorithm>

#include "replay/plan/plan_format.h"

namespace reprise::replay {

uint64_t BlockBytes::Round(uint64_t size) {
  return std::max(kGranule, (size + kGranule - 1) & ~(kGranule - 1));
}

BlockBytes::BlockBytes(const trace::Recording& recording) : recording_(recording) {
  if (recording.usable_answers.empty()) return;
  bytes_.reserve(recording.allocations.size());
  for (const trace::Allocation& allocation : recording.allocations) {
    bytes_.push_back(Round(allocation.size));
  }
  for (const auto& [allocation, answer] : recording.usable_answers) {
    bytes_[allocation] = std::max(bytes_[allocation], Round(answer));
  }
}

}  // namespace reprise::replay
