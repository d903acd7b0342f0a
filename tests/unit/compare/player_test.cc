// The real player in processes of its own, with the allocators of this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "replay/compare/compare.h"
#include "tests/unit/compare/recording.h"

namespace reprise::replay {
namespace {

uint64_t PeakOf(const trace::Recording& recording) {
  return trace::ComputeStatistics(recording, 0).peak_event;
}

constexpr int64_t kPage = 4096;
constexpr int64_t kMebibyte = 1 << 20;
// The kernel keeps resident pages in per-CPU batches, so that its peak is a little off.
constexpr int64_t kKernelSlack = kMebibyte / 2;

Allocator Named(const std::string& name) {
  absl::StatusOr<std::vector<Allocator>> allocators = ParseAllocators(name);
  EXPECT_TRUE(allocators.ok()) << allocators.status();
  return allocators->front();
}

class PlayerTest : public testing::TestWithParam<std::string> {
 protected:
  // The allocator under test; empty libraries and a skipped test when it is not installed.
  absl::StatusOr<Measurement> Measure(const trace::Recording& recording,
                                      const CompareOptions& options = {}) {
    return MeasureAllocator(recording, Named(GetParam()), options);
  }
};

#define MEASURE_OR_SKIP(result, expression)                                         \
  const absl::StatusOr<Measurement> result = expression;                            \
  if (absl::IsNotFound(result.status())) GTEST_SKIP() << result.status().message(); \
  ASSERT_TRUE(result.ok()) << result.status()

TEST_P(PlayerTest, IsReallyServedByThatAllocatorAndTellsItsVersion) {
  MEASURE_OR_SKIP(result, Measure(RandomRecording(1, 1, 100)));
  const std::string library = GetParam() == "glibc" ? "libc.so" : "lib" + GetParam();
  EXPECT_THAT(result->object, testing::HasSubstr(library));
  EXPECT_THAT(result->version, testing::ContainsRegex("[0-9]+\\.[0-9]+"));
}

TEST_P(PlayerTest, ATouchedBlockIsResident) {
  RecordingMaker maker(1);
  maker.Free(0, maker.Malloc(0, 64 * kMebibyte));
  MEASURE_OR_SKIP(result, Measure(maker.recording()));
  EXPECT_GE(result->peak_rss, 64 * kMebibyte - kKernelSlack);
  EXPECT_LE(result->peak_rss, 69 * kMebibyte);  // a huge page at either end
  EXPECT_GE(result->footprint, 64 * kMebibyte);
  EXPECT_LE(result->footprint, 64 * kMebibyte + kPage);
  EXPECT_EQ(result->fragmentation, result->footprint - 64 * kMebibyte);
  EXPECT_EQ(result->operations, 2);
}

TEST_P(PlayerTest, AnUntouchedBlockIsNot) {
  RecordingMaker maker(1);
  maker.Malloc(0, 64 * kMebibyte);
  MEASURE_OR_SKIP(result, Measure(maker.recording(), {.touch = false}));
  EXPECT_LE(result->peak_rss, 16 * kMebibyte);
}

TEST_P(PlayerTest, ManyThreadsPlayToTheEndInEitherOrder) {
  const trace::Recording recording = RandomRecording(7, 40, 20'000);
  for (const Order order : {Order::kRecorded, Order::kDependencies}) {
    MEASURE_OR_SKIP(result, Measure(recording, {.order = order}));
    EXPECT_GE(result->threads, 35);  // a few of them never have their turn
    EXPECT_EQ(result->failures, 0);
    EXPECT_GT(result->seconds, 0);
    EXPECT_GE(result->wall_seconds, 0);
    EXPECT_GE(result->footprint, MaxLoad(recording) / 2);
  }
}

TEST_P(PlayerTest, EveryKindOfAllocation) {
  RecordingMaker maker(1);
  const uint32_t cleared = maker.Malloc(0, 5000);
  maker[cleared].kind = trace::AllocationKind::kCalloc;
  const uint32_t aligned = maker.Malloc(0, 100);
  maker[aligned].kind = trace::AllocationKind::kAligned;
  maker[aligned].log2_alignment = 12;
  const uint32_t grown = maker.Realloc(0, maker.Malloc(0, 10), 3 * kMebibyte);
  const uint32_t empty = maker.Malloc(0, 0);
  for (const uint32_t it : {cleared, aligned, grown, empty}) maker.Free(0, it);
  MEASURE_OR_SKIP(result, Measure(maker.recording()));
  EXPECT_EQ(result->failures, 0);
  EXPECT_EQ(result->operations, 9);
}

TEST_P(PlayerTest, AnObservationTellsWhereBlocksLieAndHowMemoryGrows) {
  const trace::Recording recording = RandomRecording(5, 4, 4000);
  const std::vector<uint64_t> events = SampleEvents(recording, 20, PeakOf(recording));
  ASSERT_TRUE(std::is_sorted(events.begin(), events.end()));
  const absl::StatusOr<Observation> seen =
      ObserveAllocator(recording, Named(GetParam()), {}, events);
  if (absl::IsNotFound(seen.status())) GTEST_SKIP() << seen.status().message();
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->addresses.size(), recording.allocations.size());
  ASSERT_EQ(seen->resident.size(), events.size());
  // Blocks that live together do not overlap.
  for (const uint64_t event : events) {
    std::vector<std::pair<uint64_t, uint64_t>> live;
    int64_t requested = 0;
    for (size_t i = 0; i < recording.allocations.size(); ++i) {
      const trace::Allocation& it = recording.allocations[i];
      if (it.birth > event || it.death <= event) continue;
      live.emplace_back(seen->addresses[i], seen->addresses[i] + it.size);
      requested += static_cast<int64_t>(it.size);
    }
    std::sort(live.begin(), live.end());
    for (size_t i = 1; i < live.size(); ++i) EXPECT_LE(live[i - 1].second, live[i].first);
    // The old block of a realloc is still there at the event at which the recording frees it.
    const size_t at =
        static_cast<size_t>(std::lower_bound(events.begin(), events.end(), event) - events.begin());
    EXPECT_GE(seen->usable[at], requested);
  }
  EXPECT_LE(*std::max_element(seen->footprint.begin(), seen->footprint.end()), seen->most_held);
  for (const Returned& it : seen->returned) EXPECT_LE(it.allocations, seen->addresses.size());
}

// What a growing block leaves behind is the system's again, and no allocator's waste.
TEST(CompareTest, MemoryThatWasGivenBackIsNotHeld) {
  if (access("/proc/self/pagemap", R_OK) != 0) GTEST_SKIP() << "/proc/self/pagemap is not readable";
  RecordingMaker maker(1);
  uint32_t block = maker.Malloc(0, kMebibyte);
  for (int64_t i = 2; i <= 20; ++i) {
    const uint32_t wall = maker.Malloc(0, kMebibyte);  // it cannot grow where it is
    block = maker.Realloc(0, block, static_cast<uint64_t>(i * kMebibyte));
    maker.Free(0, wall);
  }
  const trace::Recording& recording = maker.recording();
  const absl::StatusOr<Measurement> measured = MeasureAllocator(recording, Named("glibc"), {});
  const absl::StatusOr<Observation> seen = ObserveAllocator(
      recording, Named("glibc"), {}, SampleEvents(recording, 5, PeakOf(recording)));
  ASSERT_TRUE(measured.ok() && seen.ok()) << measured.status() << seen.status();
  EXPECT_FALSE(seen->returned.empty());
  EXPECT_GE(seen->most_held, 20 * kMebibyte);
  EXPECT_LE(seen->most_held, 43 * kMebibyte);  // old and new block, if it is copied
  EXPECT_LE(seen->most_held, measured->footprint);
}

INSTANTIATE_TEST_SUITE_P(Allocators, PlayerTest,
                         testing::Values("glibc", "jemalloc", "mimalloc", "tcmalloc"));

TEST(CompareTest, AnAllocatorThatIsNotThereIsNamed) {
  const absl::StatusOr<Measurement> result =
      MeasureAllocator(RandomRecording(1, 1, 10), Named("absent=libabsentmalloc.so.9"), {});
  EXPECT_TRUE(absl::IsNotFound(result.status()));
  EXPECT_THAT(std::string(result.status().message()), testing::HasSubstr("libabsentmalloc.so.9"));
}

// A library that loads but has no malloc is not an allocator, although the preload succeeds.
TEST(CompareTest, ALibraryThatServesNothingIsNotTakenForAnAllocator) {
  const absl::StatusOr<Measurement> result =
      MeasureAllocator(RandomRecording(1, 1, 10), Named("wrong=libm.so.6"), {});
  EXPECT_TRUE(absl::IsNotFound(result.status()));
}

TEST(CompareTest, UnknownNamesAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(ParseAllocators("glibc,malloc").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseAllocators("").status()));
}

TEST(CompareTest, ThePartsOfTheFootprintAddUp) {
  RecordingMaker maker(1);
  for (int i = 0; i < 1000; ++i) maker.Malloc(0, 100);
  const trace::Recording& recording = maker.recording();
  absl::StatusOr<Measurement> measured = MeasureAllocator(recording, Named("glibc"), {});
  const absl::StatusOr<Observation> seen = ObserveAllocator(
      recording, Named("glibc"), {}, SampleEvents(recording, 10, PeakOf(recording)));
  ASSERT_TRUE(measured.ok() && seen.ok());
  Decompose(*measured, *seen, 999, 100'000);
  // glibc makes 112 bytes of 100, of which 104 can be used.
  EXPECT_EQ(measured->internal_fragmentation, 4000);
  EXPECT_EQ(measured->requested_at_peak + measured->internal_fragmentation +
                measured->external_fragmentation,
            measured->footprint);
}

TEST(CompareTest, EverySymbolIsTraced) {
  const absl::StatusOr<Measurement> measured =
      MeasureAllocator(RandomRecording(1, 1, 10), Named("glibc"), {});
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ(measured->provenance.size(), 5u);
  for (const auto& [symbol, object] : measured->provenance) EXPECT_EQ(object, measured->object);
}

TEST(CompareTest, AMissingPlayerIsTheSystemsFault) {
  const absl::StatusOr<Measurement> result = MeasureAllocator(
      RandomRecording(1, 1, 10), Named("glibc"), {.player = "/nowhere/reprise-player"});
  EXPECT_TRUE(absl::IsUnavailable(result.status()));
}

// Blocks one after the other, as a plan without any reuse would put them.
std::vector<int64_t> Stacked(const trace::Recording& recording, int64_t& arena_bytes) {
  std::vector<int64_t> offsets;
  arena_bytes = 0;
  for (const trace::Allocation& it : recording.allocations) {
    offsets.push_back(arena_bytes);
    arena_bytes += static_cast<int64_t>((it.size + 15) / 16 * 16);
  }
  return offsets;
}

TEST(ComparePlanTest, TheFootprintIsTheMakespanInPages) {
  const trace::Recording recording = RandomRecording(3, 6, 5000);
  int64_t arena_bytes = 0;
  const std::vector<int64_t> offsets = Stacked(recording, arena_bytes);
  const absl::StatusOr<Measurement> result = MeasurePlan(recording, offsets, arena_bytes, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->allocator, "plan");
  EXPECT_EQ(result->footprint, (arena_bytes + kPage - 1) / kPage * kPage);
  EXPECT_EQ(result->address_span, result->footprint);
  EXPECT_EQ(result->failures, 0);
}

TEST(ComparePlanTest, BlocksWithoutAPlaceComeFromTheCLibrary) {
  const trace::Recording recording = RandomRecording(4, 3, 3000);
  int64_t arena_bytes = 0;
  std::vector<int64_t> offsets = Stacked(recording, arena_bytes);
  for (size_t i = 0; i < offsets.size(); i += 3) offsets[i] = Placement::kUnplanned;
  const absl::StatusOr<Measurement> result = MeasurePlan(recording, offsets, arena_bytes, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failures, 0);
  EXPECT_GT(result->address_span, arena_bytes);
}

TEST(ComparePlanTest, OneArenaIsSmallerThanThreads) {
  // Twenty threads, one after the other, a mebibyte each: a plan needs it once.
  RecordingMaker maker(20);
  std::vector<int64_t> offsets;
  for (uint32_t thread = 0; thread < 20; ++thread) {
    maker.Free(thread, maker.Malloc(thread, kMebibyte));
    offsets.push_back(0);
  }
  const absl::StatusOr<Measurement> result = MeasurePlan(maker.recording(), offsets, kMebibyte, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->footprint, kMebibyte);
  EXPECT_EQ(result->fragmentation, 0);
}

}  // namespace
}  // namespace reprise::replay
