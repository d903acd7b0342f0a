#include "replay/compare/fragmentation_holders.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/compare/recording.h"
#include "trace/statistics.h"

namespace reprise::replay {
namespace {

TEST(PinsTest, ABlockBetweenTwoHolesHoldsBoth) {
  RecordingMaker maker(1);
  const uint32_t low = maker.Malloc(0, 64);
  const uint32_t middle = maker.Malloc(0, 16);
  const uint32_t high = maker.Malloc(0, 32);
  maker.Free(0, low);
  maker.Free(0, high);
  const uint32_t top = maker.Malloc(0, 16);
  maker.Free(0, middle);
  // low [0, 64), middle [64, 80), high [80, 112), top [112, 128).
  const Pins pins = FindPins(maker.recording(), {0, 64, 80, 112}, nullptr, 10);
  EXPECT_EQ(pins.event, 5u);
  EXPECT_EQ(pins.held_bytes, 128);
  EXPECT_EQ(pins.live_bytes, 32);
  EXPECT_EQ(pins.holes, 2);
  EXPECT_EQ(pins.largest_hole, 64);
  ASSERT_EQ(pins.blocks.size(), 2u);
  EXPECT_EQ(pins.blocks[0].allocation, middle);
  EXPECT_EQ(pins.blocks[0].hostage_bytes, 96);
  EXPECT_EQ(pins.blocks[1].allocation, top);
  EXPECT_EQ(pins.blocks[1].hostage_bytes, 32);
}

TEST(PinsTest, TheBytesOfSitesAddUpToWhatIsFree) {
  const trace::Recording recording = RandomRecording(11, 3, 3000);
  std::vector<int64_t> offsets;
  int64_t next = 0;
  for (const trace::Allocation& it : recording.allocations) {
    offsets.push_back(next);
    next += static_cast<int64_t>(trace::BlockBytes(it.size));
  }
  const std::vector<Returned> nothing;
  const std::vector<Returned>* const plan = nullptr;
  for (const auto* returned : {plan, &nothing}) {
    const Pins pins = FindPins(recording, offsets, returned, 5);
    int64_t hostage = 0;
    for (const PinnedBySite& it : pins.sites) hostage += it.hostage_bytes;
    EXPECT_LE(pins.blocks.size(), 5u);
    EXPECT_EQ(hostage, pins.held_bytes - pins.live_bytes) << (returned == nullptr);
  }
}

TEST(PinsTest, PagesThatHeldABlockStayHeld) {
  RecordingMaker maker(1);
  maker.Free(0, maker.Malloc(0, 40'000));
  maker.Malloc(0, 16);
  const std::vector<Returned> nothing;
  const Pins pins = FindPins(maker.recording(), {4096, 0}, &nothing, 10);
  EXPECT_EQ(pins.held_bytes, 11 * 4096);
  EXPECT_EQ(pins.blocks.size(), 1u);
  EXPECT_EQ(pins.blocks[0].hostage_bytes, 11 * 4096 - 16);
}

// A block grows from place to place, and each time the system gets the last one.
TEST(PinsTest, PagesThatWereGivenBackAreNotHeld) {
  RecordingMaker maker(1);
  uint32_t block = maker.Malloc(0, 40'960);
  std::vector<int64_t> offsets = {0};
  std::vector<Returned> returned;
  for (uint64_t i = 1; i < 5; ++i) {
    maker.Free(0, block);
    block = maker.Malloc(0, 40'960);
    offsets.push_back(static_cast<int64_t>(i * 40'960));
    returned.push_back({i + 1, (i - 1) * 40'960, 40'960});
  }
  const Pins pins = FindPins(maker.recording(), offsets, &returned, 10);
  EXPECT_EQ(pins.held_bytes, 40'960);
  EXPECT_EQ(pins.live_bytes, 40'960);
  EXPECT_TRUE(pins.blocks.empty());
}

TEST(PinsTest, TheHighestMomentCountsNotTheMostWasteful) {
  RecordingMaker maker(1);
  maker.Free(0, maker.Malloc(0, 8192));
  maker.Malloc(0, 16);  // event 2: nearly all that is held is free
  maker.Malloc(0, 8192);
  maker.Malloc(0, 16);  // event 4
  const Pins pins = FindPins(maker.recording(), {0, 8192, 8208, 16400}, nullptr, 10);
  EXPECT_EQ(pins.event, 4u);
  EXPECT_EQ(pins.held_bytes, 16416);
  EXPECT_EQ(pins.live_bytes, 8224);
}

TEST(PinsTest, APlanThatWastesNothingHasNoHolders) {
  RecordingMaker maker(1);
  maker.Malloc(0, 64);
  maker.Free(0, maker.Malloc(0, 32));
  const Pins pins = FindPins(maker.recording(), {0, 64}, nullptr, 10);
  EXPECT_EQ(pins.held_bytes, pins.live_bytes);
  EXPECT_TRUE(pins.blocks.empty());
  EXPECT_TRUE(pins.sites.empty());
}

TEST(PinsTest, NothingLivesNothingIsHeld) {
  const std::vector<Returned> nothing;
  const Pins pins = FindPins(trace::Recording(), {}, &nothing, 10);
  EXPECT_EQ(pins.held_bytes, 0);
  EXPECT_TRUE(pins.blocks.empty());
}

}  // namespace
}  // namespace reprise::replay
