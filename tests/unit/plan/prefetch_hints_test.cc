// What a plan says is worth fetching ahead: what was used long ago, and nothing else.
#include "replay/plan/prefetch_hints.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::replay {
namespace {

constexpr uint32_t kOffsetBits = 20;
constexpr uint64_t kBoxBytes = 8 << 20;

std::vector<PlanKey> Keys(uint32_t count, uint64_t usable) {
  return std::vector<PlanKey>(count, PlanKey{PlainShape(usable), 0, kNoModule, 0, usable});
}

// The words of a lane.
class Stream {
 public:
  void Allocate(uint32_t key, uint32_t granule) { words_.push_back(key << kOffsetBits | granule); }
  void Free(uint32_t granule) { words_.push_back(kFreeBit | granule); }
  uint16_t Fetched(const std::vector<PlanKey>& keys, uint64_t box_bytes = kBoxBytes) {
    words_.push_back(kEnd);
    return FetchedAhead(words_, kOffsetBits, keys, box_bytes);
  }

 private:
  std::vector<uint32_t> words_;
};

// Blocks of 64 bytes, round and round through `span` bytes of the box, half of it live at a time.
Stream RoundAndRound(uint32_t span, uint32_t keys) {
  Stream stream;
  const uint32_t places = span / 64;
  for (uint32_t i = 0; i < 4 * places; ++i) {
    if (i >= places / 2) stream.Free((i - places / 2) % places * 4);
    stream.Allocate(i % keys, i % places * 4);
  }
  return stream;
}

TEST(FetchedAheadTest, BlocksThatWereUsedLongAgo) {
  EXPECT_EQ(RoundAndRound(4 << 20, 1).Fetched(Keys(1, 64)), kFetchBlocks);
}

TEST(FetchedAheadTest, NothingThatIsAtHand) {
  EXPECT_EQ(RoundAndRound(64 << 10, 1).Fetched(Keys(1, 64)), 0);
  EXPECT_EQ(Stream().Fetched(Keys(1, 64)), 0);
  // Nor in a small box, whatever the distance.
  EXPECT_EQ(RoundAndRound(512 << 10, 1).Fetched(Keys(1, 64), 512 << 10), 0);
}

// The same place each time, but in between a long block that ends in it was used.
TEST(FetchedAheadTest, ABlockThatReachesIntoThePlaceHasTouchedIt) {
  const auto fetched = [](uint32_t reaches_to) {
    std::vector<PlanKey> keys = Keys(2, 16);
    keys[1].usable = 3200;  // 200 granules
    Stream stream;
    for (uint32_t i = 0; i < 200; ++i) {
      stream.Allocate(0, 1024);
      stream.Free(1024);
      for (uint32_t j = 1; j < 256; ++j) {  // most of a MiB, in places that are not looked at
        stream.Allocate(1, 4096 + j * 256 + 4);
      }
      stream.Allocate(1, reaches_to - 200);
    }
    return stream.Fetched(keys);
  };
  EXPECT_EQ(fetched(1024), kFetchBlocks);
  EXPECT_EQ(fetched(1026), 0);
}

TEST(FetchedAheadTest, KeysThatWereUsedLongAgo) {
  EXPECT_EQ(RoundAndRound(256 << 10, 1000).Fetched(Keys(2048, 64)), 0);
  EXPECT_EQ(RoundAndRound(256 << 10, 1025).Fetched(Keys(2048, 64)), kFetchKeys);
  EXPECT_EQ(RoundAndRound(4 << 20, 2000).Fetched(Keys(2048, 64)), kFetchBlocks | kFetchKeys);
}

}  // namespace
}  // namespace reprise::replay
