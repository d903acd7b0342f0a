// How long blocks are in a plan.
#ifndef REPRISE_REPLAY_PLAN_BLOCK_BYTES_H_
#define REPRISE_REPLAY_PLAN_BLOCK_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/recording.h"

namespace reprise::replay {

// The bytes that each allocation's block takes in a plan: a multiple of 16, at least what was
// requested and what the program was told by malloc_usable_size. The recording must outlive it.
class BlockBytes {
 public:
  explicit BlockBytes(const trace::Recording& recording);
  uint64_t operator[](size_t allocation) const {
    return bytes_.empty() ? Round(recording_.allocations[allocation].size) : bytes_[allocation];
  }

 private:
  static uint64_t Round(uint64_t size);

  const trace::Recording& recording_;
  std::vector<uint64_t> bytes_;  // empty when the program never asked
};

}  // namespace reprise::replay

#endif  // REPRISE_REPLAY_PLAN_BLOCK_BYTES_H_
