// The table of live blocks that every reader of a trace has.
#include "trace/live_blocks.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/hash.h"

namespace reprise::trace {
namespace {

// Blocks of a heap, in a row, are found in a few steps with the seeds of all processes: their
// anchors differ in 28 bits above the page.
TEST(LiveBlocksTest, NoSeedMakesTheKeysOfAHeapShareTheirHomes) {
  constexpr uint64_t kBlocks = 20'000;
  for (uint64_t process = 0; process < 100; ++process) {
    const uint64_t anchor = 0x550000000000 + (base::MixBits(process) % (1 << 28) << 12);
    LiveBlocks blocks(anchor * base::kGoldenRatio);
    const uint64_t first = (0x555500000000 + (process << 20)) / 16;
    for (uint64_t i = 0; i < kBlocks; ++i) blocks.Insert(first + 4 * i).ordinal = i;
    uint64_t reads = 0;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(blocks.Find(first + 4 * i)->ordinal, i);
      reads += blocks.Reads(first + 4 * i);
    }
    ASSERT_LT(reads, 8 * kBlocks) << "seed of process " << process;
  }
}

}  // namespace
}  // namespace reprise::trace
